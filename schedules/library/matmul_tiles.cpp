// Products of tiles, two of A by two of B at a time, whose four sums stay in tile registers while k goes
// on. Panels of B, as deep as the reduction, are packed in the order that tiles take; A serves as it lies
// where its rows follow the reduction.
#include "dsl/types.h"
#include "schedules/library/matmul_plan.h"

#include <numeric>

namespace kumiko::library {

namespace {

// How many tiles at a time, down or across: as many as the extent has, but for a limit.
int64_t tiles_at_once(const std::optional<int64_t> &extent, int64_t side, int64_t most) {
    return extent ? std::clamp<int64_t>(*extent / side, 1, most) : most;
}

// Whole blocks only: the last one moves inwards, where there is a whole one.
Tail whole_blocks(const std::optional<int64_t> &extent, int64_t block) {
    return extent && *extent >= block ? Tail::Shift : Tail::Auto;
}

// B as tiles take it: the steps of a group side by side.
void pack_columns(const MatmulPlan &plan, StageHandle B, int64_t vector, bool ahead) {
    const MatmulRoles &r = plan.r;
    const int group = plan.product.group;
    const std::string steps = std::to_string(group);
    std::vector<LoopName> loops;
    std::vector<std::string> batches;
    for (const std::string &b : r.batches) {
        if (r.b.axes.count(b)) loops.push_back(b), batches.push_back(b);
    }
    // Rows of B are read by whole vectors, or what of them a panel's width is a multiple of.
    const int64_t loaded = std::gcd(plan.columns, vector);
    auto [kp, kg] = B.split(r.k, group, {r.k + ".p", r.k + ".g"});
    loops.push_back(kp);
    if (contiguous_in(r.b, r.j)) {
        auto [v, l] = B.split(r.j, loaded, {r.j + ".v", r.j + ".l", ahead ? Tail::Auto : Tail::Pad});
        loops.insert(loops.end(), {v, kg, l});
        B.reorder(loops).unroll(kg).vectorize(l);
    } else {
        loops.insert(loops.end(), {kg, r.j});
        B.reorder(loops);
    }
    if (!ahead) B.layout(batched_layout(plan, r.b, {r.k + "/" + steps, r.j, r.k + "%" + steps}));
}

} // namespace

Schedule schedule_tiles(const Op &op, const Machine &machine, MatmulPlan plan) {
    MatmulRoles r = plan.r;
    const Product &t = plan.product;
    const std::string i = r.i, j = r.j, k = r.k;
    const int64_t depth = int64_t(t.groups) * t.group;
    const bool ahead = plan.p.pack_b.is("ahead");
    Schedule s(op, machine);
    StageHandle C = s.stage(r.contraction.sum->name);
    const bool a_by_steps = contiguous_in(r.a, k);
    const bool extends = r.K && *r.K % depth != 0;
    if (extends) {
        C.extend(r.a.tensor, k, (*r.K + depth - 1) / depth * depth, r.b.tensor);
        r.a.tensor += ".extended", r.b.tensor += ".extended";
    }
    std::vector<LoopName> order;
    for (const std::string &b : r.batches) order.push_back(b);
    LoopName rows = i, columns = j;
    std::optional<int64_t> M = r.M, N = r.N;
    const int64_t tall = tiles_at_once(M, t.rows, 2), wide = tiles_at_once(N, t.lanes, tall == 1 ? 4 : 2);
    const int64_t down = tall * t.rows, across = wide * t.lanes;
    if (plan.p.parallel.is("rows")) {
        const int64_t block = (plan.p.row_block + down - 1) / down * down;
        auto [outer, inner] = C.split(i, block, {i + ".c", i + ".t"});
        if (M) M = *M % block && *M > block ? *M % block : block;
        order.push_back(outer);
        C.parallel(outer);
        rows = inner;
    } else if (plan.p.parallel.is("columns")) {
        const int64_t threads = std::max<int64_t>(2, threads_of(machine));
        const int64_t block = N ? even_block(*N, (*N + threads - 1) / threads, across) : plan.columns * 8;
        auto [outer, inner] = C.split(j, block, {j + ".c", j + ".t"});
        if (N) N = *N % block && *N > block ? *N % block : block;
        order.push_back(outer);
        C.parallel(outer);
        columns = inner;
    }
    plan.columns = (plan.columns + across - 1) / across * across;
    if (N) plan.columns = std::max(across, std::min(plan.columns, *N / across * across));
    auto [io, ib] = C.split(rows, down, {i + ".o", i + ".b", ahead ? Tail::Auto : whole_blocks(M, down)});
    auto [iv, ii] = C.split(ib, t.rows, {i + ".v", i + ".i"});
    auto [jo, jq] =
        C.split(columns, plan.columns, {j + ".o", j + ".q", ahead ? Tail::Auto : whole_blocks(N, plan.columns)});
    auto [jb, jw] = C.split(jq, across, {j + ".b", j + ".w"});
    auto [jv, jl] = C.split(jw, t.lanes, {j + ".v", j + ".l"});
    auto [ko, ks] = C.split(k, depth, {k + ".o", k + ".s"});
    auto [kp, kg] = C.split(ks, t.group, {k + ".p", k + ".g"});
    order.insert(order.end(), {jo, io, jb, ko, iv, jv, ii, jl, kp, kg});
    C.reorder(order).unroll(iv).unroll(jv);
    const int64_t vector = vector_lanes(machine, t.b);
    if (ahead) {
        const std::string panel = std::to_string(plan.columns), steps = std::to_string(t.group);
        if (extends) s.stage(r.b.tensor).compute_root();
        const std::vector<std::string> order = {j + "/" + panel, k + "/" + steps, j + "%" + panel, k + "%" + steps};
        pack_columns(plan, s.prepack(r.b.tensor, batched_layout(plan, r.b, order)), vector, true);
    } else {
        pack_columns(plan, s.place_in(r.b.tensor, "L2", C.name(), jo), vector, false);
    }
    if (extends) {
        StageHandle A = s.stage(r.a.tensor);
        A.compute_root();
        if (a_by_steps)
            A.vectorize(k, depth);
        else
            A.layout(batched_layout(plan, r.a, {i, k}));
    } else if (!a_by_steps) {
        s.place_in(r.a.tensor, "L1", C.name(), io).layout(batched_layout(plan, r.a, {i, k}));
    }
    if (!r.contraction.consumer.empty()) C.finish_in(r.contraction.consumer);
    C.tensorize(ii, t.instruction);
    return s;
}

} // namespace kumiko::library
