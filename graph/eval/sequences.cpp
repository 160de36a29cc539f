// Operators of sequences and optionals.
#include "graph/ir/sequences.h"
#include "dsl/types.h"
#include "graph/eval/evaluation.h"
#include "graph/formulas/formula.h"
#include "support/error.h"

#include <cstring>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

std::vector<int64_t> integers(const Buffer<> &b, const Node &node) {
    const Type t = b.type();
    if (t != i64 && t != i32)
        throw UserError(
            fmt::format("{}: a position or length of {}; legal are i32 and i64", node.label(), type_name(t)));
    const Buffer<> dense = b.copy();
    std::vector<int64_t> all;
    for (size_t n = 0; n < b.number_of_elements(); n++)
        all.push_back(t == i64 ? static_cast<const int64_t *>(dense.data())[n]
                               : static_cast<const int32_t *>(dense.data())[n]);
    return all;
}

Buffer<> truth(bool value) {
    Buffer<> b(boolean, {});
    *static_cast<uint8_t *>(b.data()) = value;
    return b;
}

} // namespace

const Value::Sequence &Evaluation::sequence(const Node &node, size_t n) const {
    const Value &v = input(node, n);
    if (const Value::Sequence *s = v.sequence()) return *s;
    throw UserError(
        fmt::format("{} reads \"{}\", which is {}; legal is a sequence", node.label(), node.inputs[n], v.kind()));
}

size_t Evaluation::position(const Node &node, size_t n, const Value::Sequence &of, int64_t otherwise, bool insertion) {
    if (!node.has_input(n)) return sequence_position(node, otherwise, of.size(), insertion);
    const std::vector<int64_t> given = integers(tensor(node, n), node);
    if (given.size() != 1)
        throw UserError(fmt::format("{}: a position of {} elements; legal is one", node.label(), given.size()));
    return sequence_position(node, given[0], of.size(), insertion);
}

bool Evaluation::run_structure(const Node &node) {
    if (!node.domain.empty()) return false;
    const auto result = [&](const Value &v) {
        keep(node, std::vector<Value>{v});
        return true;
    };
    if (node.op == "Identity" || node.op == "OptionalGetElement") {
        const Value &v = input(node, 0);
        if (v.tensor()) return false;
        if (v.is_none() && node.op == "OptionalGetElement")
            throw UserError(fmt::format("{}: \"{}\" has no element", node.label(), node.inputs[0]));
        return result(Value(v));
    }
    if (node.op == "OptionalHasElement") return result(truth(node.has_input(0) && !input(node, 0).is_none()));
    if (node.op == "Optional") return result(node.has_input(0) ? Value(input(node, 0)) : Value());
    if (node.op == "SequenceEmpty") return result(Value::Sequence());
    if (node.op == "SequenceConstruct") {
        Value::Sequence all;
        for (size_t n = 0; n < node.inputs.size(); n++) all.emplace_back(tensor(node, n));
        return result(std::move(all));
    }
    if (node.op == "SequenceAt") {
        const Value::Sequence &s = sequence(node, 0);
        return result(Value(s[position(node, 1, s, 0)]));
    }
    if (node.op == "SequenceLength") return result(int64_tensor({int64_t(sequence(node, 0).size())}, {}));
    if (node.op == "SequenceInsert") {
        Value::Sequence s = sequence(node, 0);
        const auto at = int64_t(position(node, 2, s, int64_t(s.size()), true));
        s.insert(s.begin() + at, Value(tensor(node, 1)));
        return result(std::move(s));
    }
    if (node.op == "SequenceErase") {
        Value::Sequence s = sequence(node, 0);
        s.erase(s.begin() + int64_t(position(node, 1, s, -1)));
        return result(std::move(s));
    }
    if (node.op == "SplitToSequence") return result(split_to_sequence(node));
    if (node.op == "ConcatFromSequence") return run_concat(node), true;
    if (node.op == "SequenceMap") return run_map(node), true;
    return false;
}

Value Evaluation::split_to_sequence(const Node &node) {
    std::vector<int64_t> lengths;
    if (node.has_input(1)) lengths = integers(tensor(node, 1), node);
    const TensorNodes split = split_nodes(node, tensor(node, 0).extents(), node.has_input(1) ? &lengths : nullptr,
                                          node.has_input(1) ? tensor(node, 1).rank() : 0,
                                          fmt::format("{}/{}/", node.outputs.at(0), bodies_++));
    for (const Node &n : split.nodes) run(n);
    Value::Sequence all;
    for (const std::string &part : split.results) all.push_back(value(part, node.label()));
    return all;
}

void Evaluation::run_concat(const Node &node) {
    const Value::Sequence parts = sequence(node, 0);
    const std::string prefix = fmt::format("{}/{}/", node.outputs.at(0), bodies_++);
    std::vector<std::string> names;
    for (size_t n = 0; n < parts.size(); n++) {
        names.push_back(fmt::format("{}element{}", prefix, n));
        values[names[n]] = parts[n];
    }
    for (const Node &n : concat_nodes(node, names, prefix).nodes) run(n);
}

// One run of the body for each element. Inputs that are no sequences are the same in all runs.
void Evaluation::run_map(const Node &node) {
    const size_t count = sequence(node, 0).size();
    std::vector<Value::Sequence> made(node.outputs.size());
    for (size_t step = 0; step < count; step++) {
        std::vector<Value> inputs;
        for (size_t n = 0; n < node.inputs.size(); n++) {
            const Value &v = input(node, n);
            if (v.sequence() && v.sequence()->size() != count)
                throw UserError(fmt::format("{}: \"{}\" has {} elements and \"{}\" has {}; legal is the same number",
                                            node.label(), node.inputs[n], v.sequence()->size(), node.inputs[0], count));
            inputs.push_back(v.sequence() ? (*v.sequence())[step] : v);
        }
        const std::vector<Value> results = run_graph(node, node.graph("body"), inputs);
        for (size_t o = 0; o < made.size(); o++) made[o].push_back(results.at(o));
    }
    keep(node, std::vector<Value>(made.begin(), made.end()));
}

} // namespace kumiko::graph
