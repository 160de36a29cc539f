#include "dsl/types.h"
#include "schedules/library/matmul_plan.h"

namespace kumiko::library {

std::optional<MatmulRoles> matmul_roles(const Op &op) {
    const auto p = find_matrix_product(op);
    if (!p || !is_slice(p->a) || !is_slice(p->b)) return std::nullopt;
    MatmulRoles r{*p, {}, {}, {}};
    const Stage &sum = *p->contraction.sum;
    r.M = constant_extent(*find_axis(sum, r.i));
    r.N = constant_extent(*find_axis(sum, r.j));
    r.K = constant_extent(*find_axis(sum, r.k));
    return r;
}

bool contiguous_in(const Operand &o, const std::string &axis) {
    return o.indices.back().as<Halide::Internal::Variable>()->name == axis;
}

int64_t parts_of_depth(const MatmulRoles &r, const Product &product, int64_t most) {
    const Stage &sum = *r.contraction.sum;
    if (!r.K || product.tiles() || !sum.properties.associative || !sum.properties.commutative) return 1;
    int64_t parts = std::max<int64_t>(1, std::min(most, *r.K));
    while (parts > 1 && *r.K % (parts * product.group)) parts--; // each part takes whole groups
    return parts;
}

namespace {

std::vector<LoopName> batches_of(const MatmulPlan &plan, const Operand &o) {
    const std::vector<std::string> axes = axes_in(o, plan.r.batches);
    return {axes.begin(), axes.end()};
}

} // namespace

std::vector<std::string> batched_layout(const MatmulPlan &plan, const Operand &o,
                                        const std::vector<std::string> &terms) {
    std::vector<std::string> layout = axes_in(o, plan.r.batches);
    layout.insert(layout.end(), terms.begin(), terms.end());
    return layout;
}

void copy_rows(const Op &op, const MatmulPlan &plan, StageHandle A) {
    const MatmulRoles &r = plan.r;
    const std::string rows = std::to_string(plan.p.rows), run = std::to_string(plan.together);
    std::vector<LoopName> loops = batches_of(plan, r.a);
    if (plan.together > 1)
        A.layout(batched_layout(plan, r.a, {r.i + "/" + rows, r.k + "/" + run, r.i + "%" + rows, r.k + "%" + run}));
    else
        A.layout(batched_layout(plan, r.a, {r.i + "/" + rows, r.k, r.i + "%" + rows}));
    if (plan.product.a != op.find_input(r.a.tensor)->type) A.hold_as(type_name(plan.product.a));
    if (!contiguous_in(r.a, r.k)) return;
    auto [o, in] = A.split(r.i, plan.p.rows);
    loops.push_back(o);
    if (plan.together > 1) {
        auto [kb, km] = A.split(r.k, plan.together);
        loops.insert(loops.end(), {kb, in, km});
        A.reorder(loops).unroll(in).vectorize(km);
    } else {
        loops.insert(loops.end(), {r.k, in});
        A.reorder(loops).unroll(in);
    }
}

// B in panels as wide as the tile, with an instruction's steps side by side; a single panel has no
// panel index.
std::vector<std::string> columns_layout(const MatmulPlan &plan) {
    const MatmulRoles &r = plan.r;
    const int group = plan.product.group;
    const std::string wide = std::to_string(plan.columns), steps = std::to_string(group);
    std::vector<std::string> terms = {group > 1 ? r.k + "/" + steps : r.k};
    terms.push_back(plan.panels ? r.j : r.j + "%" + wide);
    if (!plan.panels) terms.insert(terms.begin(), r.j + "/" + wide);
    if (group > 1) terms.push_back(r.k + "%" + steps);
    return batched_layout(plan, r.b, terms);
}

// Packs rows of B in whole vectors; the steps of an instruction are interleaved.
void copy_columns(const Op &op, const MatmulPlan &plan, StageHandle B) {
    const MatmulRoles &r = plan.r;
    const int lanes = plan.product.lanes, group = plan.product.group;
    std::vector<LoopName> loops = batches_of(plan, r.b);
    if (plan.product.b != op.find_input(r.b.tensor)->type) B.hold_as(type_name(plan.product.b));
    LoopName in = r.j, k = r.k, inner = "", four = "";
    // Lanes beyond the last column are read too. They are padded with numbers, because values left
    // in memory may be slow to add (denormals).
    const Tail tail = plan.p.pack_b.is("ahead") ? Tail::Auto : Tail::Pad;
    if (!plan.panels) { // several panels at a time, so that whole pages of B's rows are read
        auto [panel, column] = B.split(r.j, plan.columns, {r.j + ".n", r.j + ".q", tail});
        auto [o, of] = B.split(panel, 4, {r.j + ".p", r.j + ".f"});
        loops.push_back(o);
        in = column, four = of;
        // all cores read all of B
        const bool all = plan.p.parallel.is("rows") || plan.p.parallel.is("grid");
        if (all && plan.p.outer.is("depth") && !plan.p.pack_b.is("ahead")) B.parallel(o);
    }
    if (group > 1) std::tie(k, inner) = B.split(r.k, group, {r.k + ".p", r.k + ".g"});
    const bool whole = contiguous_in(r.b, r.j) && lanes > 1;
    if (whole && group > 1) {
        auto [v, l] = B.split(in, lanes, {r.j + ".v", r.j + ".l", plan.panels ? tail : Tail::Auto});
        loops.push_back(k);
        if (!plan.panels) loops.push_back(four);
        loops.insert(loops.end(), {v, inner, l});
        B.reorder(loops).unroll(inner).vectorize(l);
        if (!plan.panels) B.unroll(four).unroll(v);
    } else {
        loops.push_back(k);
        if (group > 1) loops.push_back(inner);
        if (!plan.panels) loops.push_back(four);
        loops.push_back(in);
        B.reorder(loops);
        if (whole) B.vectorize(in, lanes, plan.panels ? tail : Tail::Auto);
        if (whole && !plan.panels) B.unroll(four);
        if (whole && !plan.panels && plan.columns > lanes) B.unroll(in.name + ".o");
    }
}

} // namespace kumiko::library
