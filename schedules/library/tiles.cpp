#include "schedules/library/tiles.h"

#include <numeric>

namespace kumiko::library {

namespace {

// Tiles at a time, down or across: as many as the extent has, at most `most`.
int64_t tiles_at_once(const std::optional<int64_t> &extent, int64_t side, int64_t most) {
    return extent ? std::clamp<int64_t>(*extent / side, 1, most) : most;
}

// Only whole blocks: the last one is shifted inwards, if the extent holds one.
Tail whole_blocks(bool moves, const std::optional<int64_t> &extent, int64_t block) {
    return moves && extent && *extent >= block ? Tail::Shift : Tail::Auto;
}

// The smallest block >= `wish`, in whole units, that leaves no remainder shorter than a unit.
int64_t block_of(const std::optional<int64_t> &extent, int64_t wish, int64_t unit) {
    int64_t block = (wish + unit - 1) / unit * unit;
    while (extent && block < *extent && *extent % block && *extent % block < unit) block += unit;
    return block;
}

// The extent of the last block.
std::optional<int64_t> shortest(const std::optional<int64_t> &extent, int64_t block) {
    return extent ? std::optional(*extent > block && *extent % block ? *extent % block : std::min(*extent, block))
                  : std::nullopt;
}

} // namespace

TileLoops tile_loops(const Machine &machine, StageHandle C, TilePlan &plan) {
    const Product &t = plan.product;
    const std::string &i = plan.i, &j = plan.j, &k = plan.k;
    std::vector<LoopName> order(plan.outside.begin(), plan.outside.end());
    LoopName rows = i, columns = j;
    std::optional<int64_t> M = plan.M, N = plan.N;
    const bool two_image_rows = !plan.image_rows.empty();
    const int64_t tall = two_image_rows ? 1 : tiles_at_once(M, t.rows, 2),
                  wide = tiles_at_once(N, t.lanes, tall == 1 && !two_image_rows ? 4 : 2);
    const int64_t down = tall * t.rows, across = wide * t.lanes;
    LoopName pairs = "", image_row = "";
    if (two_image_rows) {
        auto [outer, inner] = C.split(plan.image_rows, 2, {plan.image_rows + ".o", plan.image_rows + ".v"});
        order.push_back(pairs = outer), image_row = inner;
    }
    if (plan.parallel == "rows") {
        const int64_t block = block_of(M, plan.row_block, down);
        auto [outer, inner] = C.split(i, block, {i + ".c", i + ".t"});
        M = shortest(M, block);
        order.push_back(outer);
        C.parallel(outer);
        rows = inner;
    } else if (plan.parallel == "columns") {
        const int64_t threads = std::max<int64_t>(2, threads_of(machine));
        const int64_t block = block_of(N, N ? (*N + threads - 1) / threads : plan.columns * 8, across);
        auto [outer, inner] = C.split(j, block, {j + ".c", j + ".t"});
        N = shortest(N, block);
        order.push_back(outer);
        C.parallel(outer);
        columns = inner;
    }
    plan.columns = (plan.columns + across - 1) / across * across;
    if (N) plan.columns = std::max(across, std::min(plan.columns, *N / across * across));
    auto [io, ib] = C.split(rows, down, {i + ".o", i + ".b", whole_blocks(plan.moves_rows, M, down)});
    auto [iv, ii] = C.split(ib, t.rows, {i + ".v", i + ".i"});
    auto [jo, jq] =
        C.split(columns, plan.columns, {j + ".o", j + ".q", whole_blocks(plan.moves_columns, N, plan.columns)});
    auto [jb, jw] = C.split(jq, across, {j + ".b", j + ".w"});
    auto [jv, jl] = C.split(jw, t.lanes, {j + ".v", j + ".l"});
    auto [ko, ks] = C.split(k, int64_t(t.groups) * t.group, {k + ".o", k + ".s"});
    auto [kp, kg] = C.split(ks, t.group, {k + ".p", k + ".g"});
    if (plan.rows_outside)
        order.insert(order.end(), {io, jo});
    else
        order.insert(order.end(), {jo, io});
    order.insert(order.end(), {jb, ko});
    if (two_image_rows) order.push_back(image_row);
    order.insert(order.end(), {iv, jv, ii, jl, kp, kg});
    C.reorder(order).unroll(iv).unroll(jv);
    if (two_image_rows) C.unroll(image_row);
    return {io, jo, pairs, ii};
}

void pack_panels(StageHandle B, const TilePlan &plan, const std::vector<std::string> &outside, bool contiguous,
                 int64_t vector, Tail tail) {
    const int group = plan.product.group;
    std::vector<LoopName> loops(outside.begin(), outside.end());
    auto [kp, kg] = B.split(plan.k, group, {plan.k + ".p", plan.k + ".g"});
    loops.push_back(kp);
    if (contiguous) {
        const int64_t loaded = std::gcd(plan.columns, vector);
        auto [v, l] = B.split(plan.j, loaded, {plan.j + ".v", plan.j + ".l", tail});
        loops.insert(loops.end(), {v, kg, l});
        B.reorder(loops).unroll(kg).vectorize(l);
    } else {
        loops.insert(loops.end(), {kg, plan.j});
        B.reorder(loops);
    }
}

std::vector<std::string> panels_layout(const TilePlan &plan) {
    const std::string panel = std::to_string(plan.columns), steps = std::to_string(plan.product.group);
    return {plan.j + "/" + panel, plan.k + "/" + steps, plan.j + "%" + panel, plan.k + "%" + steps};
}

} // namespace kumiko::library
