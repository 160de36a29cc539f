#include "graph/build/states.h"

#include "dsl/types.h"
#include "support/error.h"
#include "support/names.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <set>

namespace kumiko::graph {

namespace {

std::vector<std::string> names_of_next(const std::string &name) {
    std::vector<std::string> names;
    for (const char *after : {"N", "n", "_n", "_out", "_next", "_new"}) names.push_back(name + after);
    for (const char *before : {"out_", "new_", "next_"}) names.push_back(before + name);
    // Whole words: "input" and "output" are no state.
    const auto is_separator = [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); };
    for (const auto &[in, out] : {std::pair<std::string, std::string>("in", "out"), {"past", "present"}}) {
        if (name.size() <= in.size()) continue;
        const size_t rest = name.size() - in.size();
        if (name.starts_with(in) && is_separator(name[in.size()])) names.push_back(out + name.substr(in.size()));
        if (name.ends_with(in) && is_separator(name[rest - 1])) names.push_back(name.substr(0, rest) + out);
    }
    return names;
}

} // namespace

StatePairs find_states(const Graph &graph) {
    std::set<std::string> outputs;
    for (const ValueInfo &o : graph.outputs) outputs.insert(o.name);
    StatePairs pairs;
    for (const ValueInfo &in : graph.inputs) {
        for (const std::string &next : names_of_next(in.name)) {
            if (!outputs.erase(next)) continue;
            pairs.emplace_back(in.name, next);
            break;
        }
    }
    return pairs;
}

void check_states(const FixedGraph &graph, const StatePairs &states) {
    std::set<std::string> used;
    const auto find = [&](const std::string &name, const std::vector<std::string> &names, const char *kind) {
        if (std::find(names.begin(), names.end(), name) == names.end())
            throw UserError(
                fmt::format("{} has no {} \"{}\" to be a state{}", graph.name, kind, name, suggest(name, names)));
        if (!used.insert(std::string(kind) + name).second)
            throw UserError(fmt::format("{}: the {} \"{}\" is in two states", graph.name, kind, name));
        const KnownValue &v = graph.value(name);
        return fmt::format("{}[{}]", type_name(v.type), fmt::join(v.extents, ","));
    };
    for (const auto &[in, out] : states) {
        const std::string is = find(in, graph.inputs, "input"), next = find(out, graph.outputs, "output");
        if (is != next)
            throw UserError(
                fmt::format("{}: the state \"{}\" is {}, and \"{}\" is {}; legal are equal types and shapes",
                            graph.name, in, is, out, next));
    }
}

} // namespace kumiko::graph
