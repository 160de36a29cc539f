// Operators that select elements by their values. They are steps of a program. The extents of their
// results are bounds, and a further result is the actual extent.
#include "dsl/types.h"
#include "graph/infer/graph_fixer.h"
#include "graph/ir/control.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

// The numbers of kumiko_element_kind (runtime/kumiko_runtime.h).
int64_t kind_of(Type type) {
    enum { Unsigned, Signed, Float, BrainFloat };
    if (type == bf16) return BrainFloat;
    return type.is_float() ? Float : type.is_int() ? Signed : Unsigned;
}

// The extents around an axis; without an axis the tensor is one row.
struct Along {
    Extents extents;
    size_t axis = 0;
    int64_t outside() const { return elements_of(extents, 0, axis); }
    int64_t inside() const { return elements_of(extents, axis + 1, extents.size()); }
};

Along along(const Node &node, const Extents &extents) {
    if (!node.has("axis")) return {{elements_of(extents)}, 0};
    const auto rank = static_cast<int64_t>(extents.size());
    const int64_t axis = node.integer("axis", 0);
    if (axis < -rank || axis >= rank)
        throw UserError(fmt::format("{}: axis {}; legal are {} to {}", node.label(), axis, -rank, rank - 1));
    return {extents, size_t(axis < 0 ? axis + rank : axis)};
}

// A result. Its extent along one axis is at most that of `value`.
struct Selected {
    KnownValue value;
    int axis = 0; // -1: its size is known
};

// A step that selects, and its results.
struct Selection {
    SelectionForm form;
    std::vector<Selected> results;
};

Selection nonzero(const Node &node, const KnownValue &x) {
    if (x.extents.empty()) throw Unsupported(node.label() + ": a tensor without axes; supported is at least one");
    SelectionForm form{"nonzero", {kind_of(x.type), x.type.bytes(), int64_t(x.extents.size())}, 0};
    form.parameters.insert(form.parameters.end(), x.extents.begin(), x.extents.end());
    return {form, {{{i64, {int64_t(x.extents.size()), elements_of(x.extents)}}, 1}}};
}

Selection compress(const Node &node, const KnownValue &x, const KnownValue &condition) {
    if (condition.type != boolean || condition.extents.size() != 1)
        throw UserError(node.label() + ": its condition is no bool of one axis");
    Along a = along(node, x.extents);
    const int64_t named = std::min(condition.extents[0], a.extents[a.axis]);
    const SelectionForm form{"compress", {a.outside(), a.extents[a.axis], a.inside() * x.type.bytes(), named}, 0};
    a.extents[a.axis] = named;
    return {form, {{{x.type, a.extents}, int(a.axis)}}};
}

Selection unique(const Node &node, const KnownValue &x) {
    const Along a = along(node, x.extents);
    const int64_t all = a.extents[a.axis];
    return {{"unique",
             {kind_of(x.type), x.type.bytes(), all, a.outside(), a.inside(), node.integer("sorted", 1)},
             5 * 8 * all},
            {{{x.type, a.extents}, int(a.axis)}, {{i64, {all}}, 0}, {{i64, {all}}, -1}, {{i64, {all}}, 0}}};
}

// NonMaxSuppression.
Selection boxes(const Node &node, const std::vector<KnownValue> &inputs) {
    const Extents &b = inputs.at(0).extents, &s = inputs.at(1).extents;
    if (b.size() != 3 || b[2] != 4 || s.size() != 3 || s[0] != b[0] || s[2] != b[1] || inputs[0].type != f32 ||
        inputs[1].type != f32)
        throw UserError(node.label() + ": its inputs are not boxes [batches, boxes, 4] and scores [batches, "
                                       "classes, boxes] of f32");
    for (size_t n = 2; n < 5; n++) {
        const Type legal = n == 2 ? i64 : f32;
        if (node.has_input(n) &&
            (inputs[n].type != legal || inputs[n].extents.size() > 1 || elements_of(inputs[n].extents) != 1))
            throw UserError(fmt::format("{}: its input {}, \"{}\", is {}[{}]; legal is one element of {}", node.label(),
                                        n, node.inputs[n], type_name(inputs[n].type), fmt::join(inputs[n].extents, ","),
                                        type_name(legal)));
    }
    int64_t most = node.has_input(2) ? b[1] : 0;
    if (node.has_input(2) && inputs[2].constant)
        most = std::clamp<int64_t>(*static_cast<const int64_t *>(inputs[2].value->copy().data()), 0, b[1]);
    SelectionForm form{"boxes", {b[0], s[1], b[1], node.integer("center_point_box", 0)}, 2 * 8 * b[1]};
    for (size_t n = 2; n < 5; n++) form.parameters.push_back(node.has_input(n));
    return {form, {{{i64, {b[0] * s[1] * most, 3}}, 0}}};
}

} // namespace

bool GraphFixer::add_selection(const Node &node) {
    static const std::set<std::string> operators = {"NonZero", "Compress", "Unique", "NonMaxSuppression"};
    if (!node.domain.empty() || !operators.count(node.op)) return false;
    std::vector<KnownValue> inputs;
    bool constant = true;
    for (const std::string &i : node.inputs) {
        inputs.push_back(i.empty() ? KnownValue() : find(i, node.label()));
        constant = constant && (i.empty() || inputs.back().constant);
    }
    if (constant) return false;
    Selection selection = node.op == "NonZero"    ? nonzero(node, inputs.at(0))
                          : node.op == "Compress" ? compress(node, inputs.at(0), inputs.at(1))
                          : node.op == "Unique"   ? unique(node, inputs.at(0))
                                                  : boxes(node, inputs);
    Node made;
    made.attributes = node.attributes;
    made.name = node.name, made.op = node.op, made.domain = control_domain, made.opset = node.opset;
    const std::string prefix = new_prefix(node), size = unused_name(node.named_outputs().at(0) + "_size");
    for (size_t n = 0; n < node.inputs.size(); n++) {
        if (!node.inputs[n].empty() && inputs[n].bounded)
            throw Unsupported(
                fmt::format("{}: it reads \"{}\", whose size depends on data", node.label(), node.inputs[n]));
        if (!node.inputs[n].empty()) made.inputs.push_back(node.inputs[n]);
    }
    bool any = false;
    for (size_t n = 0; n < selection.results.size(); n++) {
        const std::string given = n < node.outputs.size() ? node.outputs[n] : "";
        made.outputs.push_back(given.empty() ? fmt::format("{}result{}", prefix, n) : given);
        KnownValue v = selection.results[n].value;
        const int axis = selection.results[n].axis;
        if (axis >= 0) v.bounded = BoundedAxis{size_t(axis), size};
        made_.values[made.outputs.back()] = v;
        any = any || v.bytes() > 0;
    }
    if (!any) { // nothing can be selected
        for (const std::string &o : made.outputs) {
            const KnownValue v = made_.values[o];
            define_constant(o, Buffer<>(v.type, v.extents));
        }
        return true;
    }
    made.outputs.push_back(size);
    made_.values[size] = {i64, {}};
    selection.form.given = node.outputs;
    selection.form.store(made);
    made_.nodes.push_back(made);
    return true;
}

// Elements of the results beyond the actual extent have no meaning.
void GraphFixer::pass_bound(const Node &node) {
    std::optional<BoundedAxis> bounded;
    std::string from;
    int64_t bound = 0;
    for (const std::string &i : node.inputs) {
        if (i.empty()) continue;
        const KnownValue &v = find(i, node.label());
        if (!v.bounded) continue;
        if (bounded && bounded->size != v.bounded->size)
            throw Unsupported(fmt::format("{}: it reads \"{}\" and \"{}\", whose sizes depend on data; supported are "
                                          "equal sizes",
                                          node.label(), from, i));
        bounded = v.bounded, from = i, bound = v.extents[v.bounded->axis];
    }
    if (!bounded) return;
    const Operator &op = *find_operator(node.op, node.opset, node.domain);
    bool fits = node.op == "Identity" || (op.dependence == Dependence::Pointwise && bounded->axis == 0);
    const std::vector<std::string> outputs = node.named_outputs();
    for (const std::string &o : outputs) fits = fits && !made_.values.at(o).constant;
    for (size_t n = 0; n < node.inputs.size() && fits && node.op != "Identity"; n++) {
        if (node.inputs[n].empty()) continue;
        const KnownValue &v = find(node.inputs[n], node.label());
        const Extents &result = made_.values.at(outputs.at(0)).extents;
        const bool aligned = v.extents.size() == result.size() && !v.extents.empty();
        fits = v.bounded ? aligned && result[0] == bound : !aligned || v.extents[0] == 1 || bound == 1;
    }
    if (!fits)
        throw Unsupported(fmt::format("{}: it reads \"{}\", whose extent along axis {} depends on data; supported are "
                                      "outputs of the model, and elementwise operators of axis 0",
                                      node.label(), from, bounded->axis));
    for (const std::string &o : outputs) made_.values.at(o).bounded = bounded;
}

} // namespace kumiko::graph
