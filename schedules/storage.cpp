#include "schedules/storage.h"

namespace kumiko {

using Halide::Internal::make_const;
using Halide::Internal::simplify;

namespace {

size_t position(const std::vector<std::string> &axes, const std::string &axis) {
    return std::find(axes.begin(), axes.end(), axis) - axes.begin();
}

} // namespace

Expr storage_extent(const LayoutTerm &term, const Expr &extent) {
    const Expr block = static_cast<int>(term.block);
    switch (term.part) {
    case LayoutTerm::Part::Whole:
        return extent;
    case LayoutTerm::Part::Inner:
        return block;
    case LayoutTerm::Part::Outer:
        break;
    }
    return simplify((extent + block - 1) / block);
}

Expr storage_index(const LayoutTerm &term, const Expr &index) {
    const Expr block = static_cast<int>(term.block);
    switch (term.part) {
    case LayoutTerm::Part::Whole:
        return index;
    case LayoutTerm::Part::Inner:
        return index % block;
    case LayoutTerm::Part::Outer:
        break;
    }
    return index / block;
}

std::vector<LayoutTerm> storage_terms(const std::vector<LayoutTerm> &layout, const std::vector<std::string> &axes) {
    if (!layout.empty()) return layout;
    std::vector<LayoutTerm> terms;
    for (const std::string &a : axes) terms.push_back({a, LayoutTerm::Part::Whole, 0});
    return terms;
}

std::vector<LayoutTerm> accumulator_layout(const StageState &stage) {
    for (size_t l = stage.order.size(); l-- > 0;) {
        if (stage.loop(stage.order[l]).reduction) continue;
        const std::vector<std::string> axes = stage.axes_of(stage.order[l]);
        if (axes.size() != 1 || axes[0] == stage.def.axes.back().name()) return {};
        std::vector<LayoutTerm> terms;
        for (const Axis &a : stage.def.axes) {
            if (a.name() != axes[0]) terms.push_back({a.name()});
        }
        terms.push_back({axes[0]});
        return terms;
    }
    return {};
}

// Whether vector lanes extend into the next block, because the vector loop is inside a block that
// its width does not divide.
static bool vectors_overlap_blocks(const StageState &stage, size_t depth) {
    const auto split_into = [&](const std::string &inner) -> const SplitRelation * {
        for (const Relation &r : stage.relations) {
            if (const auto *split = std::get_if<SplitRelation>(&r); split && split->inner == inner) return split;
        }
        return nullptr;
    };
    for (size_t l = depth; l < stage.order.size(); l++) {
        if (stage.loop(stage.order[l]).kind != LoopKind::Vectorized) continue;
        const SplitRelation *vector = split_into(stage.order[l]);
        const SplitRelation *block = vector ? split_into(vector->parent) : nullptr;
        if (!block || block->factor % vector->factor == 0) continue;
        for (size_t m = depth; m < stage.order.size(); m++) {
            if (stage.order[m] == block->outer || stage.derived_from(stage.order[m], block->outer)) return true;
        }
    }
    return false;
}

std::vector<std::string> accumulator_loops(const StageState &stage, size_t depth) {
    std::vector<std::string> loops;
    bool no_box = vectors_overlap_blocks(stage, depth);
    for (size_t l = depth; l < stage.order.size(); l++) {
        if (stage.loop(stage.order[l]).reduction) continue;
        no_box = no_box || stage.axes_of(stage.order[l]).size() > 1;
        loops.push_back(stage.order[l]);
    }
    return no_box ? loops : std::vector<std::string>{};
}

std::vector<Expr> storage_extents(const std::vector<LayoutTerm> &layout, const std::vector<std::string> &axes,
                                  const std::vector<Expr> &extents) {
    std::vector<Expr> all;
    for (const LayoutTerm &t : storage_terms(layout, axes))
        all.push_back(storage_extent(t, extents[position(axes, t.axis)]));
    return all;
}

Expr storage_offset(const std::vector<LayoutTerm> &layout, const std::vector<std::string> &axes,
                    const std::vector<Expr> &extents, const std::vector<Expr> &indices, Type type) {
    const auto in_type = [&](const Expr &e) { return type == Int(32) ? e : cast(type, e); };
    const std::vector<LayoutTerm> terms = storage_terms(layout, axes);
    Expr sum, stride = make_const(type, 1);
    for (size_t t = terms.size(); t-- > 0;) {
        const size_t d = position(axes, terms[t].axis);
        const Expr term = in_type(storage_index(terms[t], indices[d])) * stride;
        sum = sum.defined() ? sum + term : term;
        stride = simplify(stride * in_type(storage_extent(terms[t], extents[d])));
    }
    return sum.defined() ? sum : make_const(type, 0);
}

} // namespace kumiko
