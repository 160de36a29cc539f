// Joining parts of tensors, and taking them apart.
#include "graph/rules/constants.h"
#include "graph/rules/rules.h"

#include <algorithm>
#include <numeric>

namespace kumiko::graph {

namespace {

// A part of another tensor along one axis.
struct Part {
    std::string source;
    size_t axis = 0;
    int64_t begin = 0;
};

size_t axis_of(const Rewriter &g, const Node &n, int64_t otherwise) {
    const int64_t axis = n.integer("axis", otherwise);
    return size_t(axis < 0 ? axis + int64_t(g.extents(n.inputs.at(0)).size()) : axis);
}

// The part that a Slice takes, if it cuts along one axis and leaves out no elements in between.
std::optional<Part> part_of_slice(const Rewriter &g, const Node &n) {
    if (!n.domain.empty() || n.op != "Slice" || !n.has_input(0)) return {};
    const Extents &from = g.extents(n.inputs[0]), &to = g.extents(n.outputs[0]);
    const auto starts = integers_of(g, n, 1, "starts");
    if (!starts) return {};
    auto axes = integers_of(g, n, 3, "axes");
    if (!axes) {
        if (n.has_input(3)) return {};
        axes.emplace(starts->size());
        std::iota(axes->begin(), axes->end(), 0);
    }
    const auto steps = n.has_input(4) ? integers_of(g, n, 4, "") : std::vector<int64_t>(starts->size(), 1);
    if (!steps || axes->size() != starts->size() || steps->size() != starts->size()) return {};
    std::optional<Part> part;
    for (size_t k = 0; k < starts->size(); k++) {
        if ((*steps)[k] != 1) return {};
        const size_t d = size_t((*axes)[k] < 0 ? (*axes)[k] + int64_t(from.size()) : (*axes)[k]);
        if (from[d] == to[d]) continue;
        if (part) return {};
        const int64_t start = (*starts)[k];
        part = Part{n.inputs[0], d, std::clamp<int64_t>(start < 0 ? start + from[d] : start, 0, from[d])};
    }
    return part;
}

// The part that a value is, made by a Slice or Split.
std::optional<Part> part_of(const Rewriter &g, const std::string &value) {
    const Node *n = g.producer(value);
    if (!n || !n->domain.empty()) return {};
    if (n->op == "Slice") return part_of_slice(g, *n);
    if (n->op != "Split") return {};
    Part part{n->inputs[0], axis_of(g, *n, 0), 0};
    for (const std::string &o : n->outputs) {
        if (o == value) return part;
        if (o.empty()) return {}; // of an unknown extent
        part.begin += g.extents(o)[part.axis];
    }
    return {};
}

bool is_concat(const Node *n) { return n && n->domain.empty() && n->op == "Concat"; }

// The input of a Concat that is exactly a part of its result.
std::optional<std::string> whole_input(const Rewriter &g, const Node &concat, const Part &part, int64_t extent) {
    if (axis_of(g, concat, 1) != part.axis) return {};
    int64_t begin = 0;
    for (const std::string &i : concat.inputs) {
        const int64_t own = g.extents(i)[part.axis];
        if (begin == part.begin && own == extent && own > 0) return i;
        begin += own;
    }
    return {};
}

// n: a Slice or Split.
bool part_of_concat(Rewriter &g, const Node &n) {
    if (!n.domain.empty() || (n.op != "Slice" && n.op != "Split")) return false;
    const Node *concat = g.producer(n.inputs[0]);
    if (!is_concat(concat)) return false;
    std::vector<std::pair<std::string, std::string>> moves;
    for (const std::string &o : n.outputs) {
        if (o.empty() || (g.readers(o).empty() && !g.is_output(o))) continue;
        const auto part = part_of(g, o);
        const auto input = part ? whole_input(g, *concat, *part, g.extents(o)[part->axis]) : std::nullopt;
        if (input) moves.emplace_back(o, *input);
    }
    bool changed = false;
    for (const auto &[own, with] : moves) changed = g.replace_value(own, with) || changed;
    return changed;
}

bool concat_of_parts(Rewriter &g, const Node &n) {
    if (!is_concat(&n)) return false;
    const size_t axis = axis_of(g, n, 1);
    std::string source;
    int64_t end = 0;
    for (const std::string &i : n.inputs) {
        const auto part = part_of(g, i);
        if (!part || part->axis != axis || part->begin != end || (!source.empty() && part->source != source))
            return false;
        source = part->source;
        end += g.extents(i)[axis];
    }
    return g.extents(source)[axis] == end && g.replace_value(n.outputs[0], source);
}

bool merge_concats(Rewriter &g, const Node &n) {
    if (!is_concat(&n)) return false;
    const size_t axis = axis_of(g, n, 1);
    Node made = n;
    made.inputs.clear();
    std::vector<const Node *> old = {&n};
    for (const std::string &i : n.inputs) {
        const Node *before = g.producer(i);
        if (!is_concat(before) || axis_of(g, *before, 1) != axis || g.only_reader(i) != &n) {
            made.inputs.push_back(i);
            continue;
        }
        made.inputs.insert(made.inputs.end(), before->inputs.begin(), before->inputs.end());
        old.push_back(before);
    }
    if (old.size() == 1) return false;
    g.substitute(old, {{&n, made}});
    return true;
}

} // namespace

std::vector<Rule> parts_rules() {
    return {
        {"part_of_concat", "A Slice or Split of a Concat takes exactly one of the joined tensors.",
         "The readers read that tensor.", Rounding::Exact, "onnxslim",
         "(float[2, 3] a, float[2, 4] b) => (float[2, 3] y, float[2, 4] z) <int64[2] p = {3, 4}, int64[1] s = {3}, "
         "int64[1] e = {9}, int64[1] d = {1}> { c = Concat<axis = 1>(a, b) q, r = Split<axis = 1>(c, p) y = Relu(q) "
         "t = Slice(c, s, e, d) z = Sub(t, r) }",
         "(float[2, 3] a, float[2, 4] b) => (float[2, 3] y, float[2, 4] z) { y = Relu(a) z = Sub(b, b) }",
         part_of_concat},
        {"concat_of_parts", "A Concat joins all parts of one tensor, of a Split or of Slices, in their order.",
         "The readers read that tensor.", Rounding::Exact, "cc: Split and Concat",
         "(float[2, 3] x) => (float[2, 3] y) <int64[1] o = {0}, int64[1] s = {2}, int64[1] e = {9}, int64[1] d = {1}> "
         "{ a = Slice(x, o, s, d) b = Slice(x, s, e, d) c = Concat<axis = 1>(a, b) y = Relu(c) }",
         "(float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }", concat_of_parts},
        {"merge_concats", "A Concat joins the result of another one along the same axis, which nothing else reads.",
         "One Concat joins all.", Rounding::Exact, "onnxslim",
         "(float[2] a, float[3] b) => (float[7] y) { c = Concat<axis = 0>(a, b) y = Concat<axis = -1>(c, a) }",
         "(float[2] a, float[3] b) => (float[7] y) { y = Concat<axis = -1>(a, b, a) }", merge_concats},
    };
}

} // namespace kumiko::graph
