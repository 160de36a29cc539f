// Sequences and optionals whose structure is known: lists of names of tensors.
#include "graph/ir/sequences.h"
#include "graph/infer/graph_fixer.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::graph {

const GraphFixer::Structure *GraphFixer::structure(const std::string &name) const {
    for (const GraphFixer *g = this; g; g = g->outer_) {
        const auto found = g->structures_.find(name);
        if (found != g->structures_.end()) return &found->second;
    }
    return nullptr;
}

const GraphFixer::Structure &GraphFixer::sequence(const Node &node, size_t n) const {
    const Structure *s = structure(node.inputs.at(n));
    if (!s || s->none)
        throw UserError(fmt::format("{} reads \"{}\", which is {}; legal is a sequence", node.label(), node.inputs[n],
                                    s ? "an empty optional" : "no sequence"));
    return *s;
}

size_t GraphFixer::position(const Node &node, size_t n, size_t count, int64_t otherwise, bool insertion) {
    if (!node.has_input(n)) return sequence_position(node, otherwise, count, insertion);
    const std::vector<int64_t> given = constant_integers(node, n);
    if (given.size() != 1)
        throw UserError(fmt::format("{}: a position of {} elements; legal is one", node.label(), given.size()));
    return sequence_position(node, given[0], count, insertion);
}

std::vector<int64_t> GraphFixer::constant_integers(const Node &node, size_t n) {
    const KnownValue &v = find(node.inputs.at(n), node.label());
    if (!v.constant)
        throw Unsupported(fmt::format("{}: \"{}\" depends on data; supported in programs are constant positions in "
                                      "sequences, and constant lengths",
                                      node.label(), node.inputs[n]));
    OpScope scope;
    const Call call(node, std::vector<std::optional<Call::Argument>>(n + 1, Call::Argument{v.type, v.extents, v.value}),
                    scope);
    return call.integers(n);
}

bool GraphFixer::add_structure(const Node &node) {
    if (!node.domain.empty()) return false;
    const auto result = [&](const Structure &s) {
        structures_[node.outputs.at(0)] = s;
        return true;
    };
    if (node.op == "Optional" && node.has_input(0)) return define_as(node.outputs.at(0), node.inputs[0], node), true;
    if (node.op == "Optional") return result({true, {}});
    if (node.op == "SequenceEmpty") return result({});
    if (node.op == "SequenceConstruct") {
        for (const std::string &i : node.inputs) find(i, node.label());
        return result({false, node.inputs});
    }
    if (node.op == "SplitToSequence") return add_split(node), true;
    const Structure *first = node.has_input(0) ? structure(node.inputs[0]) : nullptr;
    if (node.op == "OptionalHasElement" && first) return define_constant(node.outputs.at(0), truth(!first->none)), true;
    if (node.op == "OptionalGetElement" && first && first->none)
        throw UserError(fmt::format("{}: \"{}\" has no element", node.label(), node.inputs[0]));
    if ((node.op == "Identity" || node.op == "OptionalGetElement") && first) return result(Structure(*first));
    if (node.op == "SequenceAt") {
        const Structure &s = sequence(node, 0);
        return define_as(node.outputs.at(0), s.elements[position(node, 1, s.elements.size(), 0)], node), true;
    }
    if (node.op == "SequenceLength")
        return define_constant(node.outputs.at(0), int64_tensor({int64_t(sequence(node, 0).elements.size())}, {})),
               true;
    if (node.op == "SequenceInsert") {
        Structure s = sequence(node, 0);
        find(node.inputs.at(1), node.label());
        const size_t at = position(node, 2, s.elements.size(), int64_t(s.elements.size()), true);
        s.elements.insert(s.elements.begin() + int64_t(at), node.inputs[1]);
        return result(s);
    }
    if (node.op == "SequenceErase") {
        Structure s = sequence(node, 0);
        s.elements.erase(s.elements.begin() + int64_t(position(node, 1, s.elements.size(), -1)));
        return result(s);
    }
    if (node.op == "ConcatFromSequence") {
        for (const Node &n : concat_nodes(node, sequence(node, 0).elements, new_prefix(node)).nodes) add(n);
        return true;
    }
    if (node.op == "SequenceMap") return add_map(node), true;
    return false;
}

void GraphFixer::add_split(const Node &node) {
    std::vector<int64_t> lengths;
    if (node.has_input(1)) lengths = constant_integers(node, 1);
    const size_t rank = node.has_input(1) ? find(node.inputs[1], node.label()).extents.size() : 0;
    const TensorNodes split = split_nodes(node, find(node.inputs.at(0), node.label()).extents,
                                          node.has_input(1) ? &lengths : nullptr, rank, new_prefix(node));
    for (const Node &n : split.nodes) add(n);
    structures_[node.outputs.at(0)] = {false, split.results};
}

// The body's nodes for each element. Inputs that are no sequences are the same for all.
void GraphFixer::add_map(const Node &node) {
    const Graph &body = node.graph("body");
    const size_t count = sequence(node, 0).elements.size();
    std::vector<Structure> made(node.outputs.size());
    for (size_t step = 0; step < count; step++) {
        Names names;
        for (size_t n = 0; n < node.inputs.size(); n++) {
            const Structure *s = structure(node.inputs[n]);
            if (s && s->elements.size() != count)
                throw UserError(fmt::format("{}: \"{}\" has {} elements and \"{}\" has {}; legal is the same number",
                                            node.label(), node.inputs[n], s->elements.size(), node.inputs[0], count));
            names[body.inputs.at(n).name] = s ? s->elements[step] : node.inputs[n];
        }
        const std::vector<std::string> results = add_graph(body, new_prefix(node), names);
        for (size_t o = 0; o < made.size(); o++) made[o].elements.push_back(results.at(o));
    }
    for (size_t o = 0; o < made.size(); o++) structures_[node.outputs[o]] = made[o];
}

} // namespace kumiko::graph
