#include "graph/build/states.h"

#include "dsl/types.h"
#include "support/error.h"
#include "support/names.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <map>
#include <set>

namespace kumiko::graph {

namespace {

// Parts of a name that letters make: {"conv", "cache"} of "conv_cache_0".
std::set<std::string> words_of(const std::string &name) {
    std::set<std::string> words;
    std::string word;
    for (const char c : name + " ") {
        if (std::isalpha(static_cast<unsigned char>(c))) {
            word += char(std::tolower(static_cast<unsigned char>(c)));
        } else if (!word.empty()) {
            words.insert(word);
            word.clear();
        }
    }
    return words;
}

bool names_a_state(const std::string &name) {
    static const std::set<std::string> known = {"h",       "c",     "hx",     "cx",     "hidden", "cell",   "state",
                                                "states",  "cache", "caches", "cached", "mem",    "memory", "buffer",
                                                "history", "carry", "rnn",    "gru",    "lstm",   "past",   "prev"};
    const std::set<std::string> words = words_of(name);
    return std::any_of(words.begin(), words.end(), [](const std::string &w) { return known.count(w) > 0; });
}

// The names with the word `from` replaced by `to`, at each place where it stands alone.
std::vector<std::string> with_word(const std::string &name, const std::string &from, const std::string &to) {
    std::vector<std::string> names;
    const auto separates = [&](size_t at) {
        return at >= name.size() || !std::isalnum(static_cast<unsigned char>(name[at]));
    };
    for (size_t at = name.find(from); at != std::string::npos; at = name.find(from, at + 1)) {
        if (name.size() > from.size() && (at == 0 || separates(at - 1)) && separates(at + from.size()))
            names.push_back(name.substr(0, at) + to + name.substr(at + from.size()));
    }
    return names;
}

std::vector<std::string> names_of_next(const std::string &name) {
    std::vector<std::string> names;
    const auto replace = [&](const char *from, const char *to) {
        for (const std::string &n : with_word(name, from, to)) names.push_back(n);
    };
    replace("past", "present");
    replace("past_key_values", "present");
    if (!names_a_state(name)) return names;
    for (const char *after : {"N", "n", "_n", "_out", "_next", "_new"}) names.push_back(name + after);
    for (const char *before : {"out_", "new_", "next_", "r_"}) names.push_back(before + name);
    replace("in", "out"), replace("input", "output");
    return names;
}

// Whether the values may have one type and shape. Extents with names may be any number.
bool may_be_equal(const ValueInfo &a, const ValueInfo &b) {
    if (a.type != b.type) return false;
    if (!a.shape || !b.shape) return true;
    if (a.shape->size() != b.shape->size()) return false;
    for (size_t d = 0; d < a.shape->size(); d++) {
        const Dimension &x = (*a.shape)[d], &y = (*b.shape)[d];
        if (x.number && y.number && *x.number != *y.number) return false;
    }
    return true;
}

} // namespace

StatePairs find_states(const Graph &graph) {
    std::map<std::string, const ValueInfo *> outputs; // that are in no pair
    for (const ValueInfo &o : graph.outputs) outputs[o.name] = &o;
    StatePairs pairs;
    for (const ValueInfo &in : graph.inputs) {
        for (const std::string &next : names_of_next(in.name)) {
            const auto found = outputs.find(next);
            if (found == outputs.end() || !may_be_equal(in, *found->second)) continue;
            outputs.erase(found);
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
