#include "schedules/library/conv_pool.h"

#include "dsl/reads.h"
#include "machine/machine.h"
#include "support/error.h"

namespace kumiko::library {

using namespace Halide::Internal;

namespace {

const Stage &pool_of(const Op &op, const Contraction &c) { return op.stage(c.pool); }

// The pool's axis that corresponds to an axis of the sum.
const Axis &along(const Stage &pool, const Stage &sum, const std::string &axis) {
    for (size_t d = 0; d < sum.axes.size(); d++) {
        if (sum.axes[d].name() == axis) return pool.axes[d];
    }
    throw InternalError("the sum has no axis " + axis);
}

const Expr &index_along(const Stage &pool, const Stage &sum, const std::string &axis) {
    const Call *read = tensor_reads(pool.components[0].term)[0];
    for (size_t d = 0; d < sum.axes.size(); d++) {
        if (sum.axes[d].name() == axis) return read->args[d];
    }
    throw InternalError("the sum has no axis " + axis);
}

// Keeps the results of some windows in registers, in vectors of the last axis; the steps of a
// window are inside. Returns the loop over vectors.
LoopName windows_in_vectors(StageHandle P, const Stage &pool, std::vector<LoopName> order, const LoopName &last,
                            int lanes) {
    constexpr int64_t short_window = 8;
    const auto extent = as_const_int(P.state().loop(last.name).extent);
    while (extent && *extent < lanes) lanes /= 2; // short rows use narrower vectors
    const bool vectors = lanes > 1;
    LoopName runs = last, run = "";
    if (vectors) std::tie(runs, run) = P.split(last, lanes);
    order.push_back(runs);
    for (const Axis &k : pool.reduction_axes) order.push_back(k.name());
    if (vectors) order.push_back(run);
    P.reorder(order);
    if (vectors) P.vectorize(run);
    const auto columns = constant_extent(pool.reduction_axes.back());
    if (columns && *columns <= short_window) P.unroll(pool.reduction_axes.back().name());
    P.accumulate_in("registers", runs);
    return runs;
}

} // namespace

std::optional<PoolSide> pool_side(const Op &op, const ConvRoles &r, const std::string &axis) {
    const Stage &pool = pool_of(op, r.contraction), &sum = *r.contraction.sum;
    const Expr &index = index_along(pool, sum, axis);
    const std::string own = along(pool, sum, axis).name();
    PoolSide side;
    Expr first = substitute(own, 0, index);
    const auto step = slope_of(index, own);
    if (!step || *step < 1) return std::nullopt;
    side.step = *step;
    for (const Axis &k : pool.reduction_axes) {
        const auto by = slope_of(index, k.name());
        const auto extent = constant_extent(k);
        if (!by || *by < 0 || !extent) return std::nullopt;
        side.window += *by * (*extent - 1);
        first = substitute(k.name(), 0, first);
    }
    return is_const_zero(simplify(first)) ? std::optional(side) : std::nullopt;
}

bool can_pool_by_tiles(const Op &op, const ConvRoles &r) {
    if (r.contraction.pool.empty() || r.row.empty()) return false;
    for (const Axis &a : r.contraction.sum->axes) {
        const auto side = pool_side(op, r, a.name());
        const bool moves = a.name() == r.row || a.name() == r.vector;
        if (!side || !constant_extent(a) || (!moves && (side->step != 1 || side->window != 1))) return false;
    }
    return true;
}

bool pays_to_pool_by_tiles(const Op &op, const ConvRoles &r) {
    if (!can_pool_by_tiles(op, r)) return false;
    const PoolSide side = *pool_side(op, r, r.row);
    return side.window <= side.step;
}

Tile rows_of_pool(const Op &op, const ConvRoles &r, const Machine &machine, int64_t filters) {
    if (!can_pool_by_tiles(op, r)) return Tile(0, {0});
    const Stage &sum = *r.contraction.sum;
    const PoolSide side = *pool_side(op, r, r.row);
    const int64_t rows = std::max<int64_t>(1, (extent_of(sum, r.row, 1) - side.window) / side.step + 1);
    const int64_t row = filters * side.step * extent_of(sum, r.vector, 1) * sum.type.bytes();
    const int64_t most = cache_bytes(machine, "L2", 512 << 10) / 4 / std::max<int64_t>(1, row);
    std::vector<int64_t> legal = Tile::sizes(rows, 1, rows);
    legal.insert(legal.begin(), 0);
    const int64_t wish = balanced_block(rows, std::clamp<int64_t>(most, 1, rows), 1);
    return Tile::nearest(pays_to_pool_by_tiles(op, r) ? wish : 0, legal);
}

int64_t rows_together(const Op &op, const ConvRoles &r, int64_t pool_rows) {
    const int64_t all = extent_of(*r.contraction.sum, r.row, 64);
    if (pool_rows == 0) return all;
    const PoolSide side = *pool_side(op, r, r.row);
    return std::min(all, (pool_rows - 1) * side.step + side.window);
}

void schedule_pool(Schedule &s, const Contraction &c, bool parallel) {
    if (c.pool.empty()) return;
    const Stage &pool = pool_of(s.op(), c);
    StageHandle P = s.stage(c.pool);
    std::vector<LoopName> order;
    for (const Axis &a : pool.axes) order.push_back(a.name());
    const LoopName last = order.back();
    order.pop_back();
    windows_in_vectors(P, pool, order, last, vector_lanes(s.machine(), pool.type));
    if (parallel) distribute_over_cores(P, order, threads_of(s.machine()));
    if (!c.pool_end.empty()) P.finish_in(c.pool_end);
}

PoolTiles tile_pool(Schedule &s, const ConvRoles &r, int64_t filters, int64_t rows, bool parallel) {
    const Contraction &c = r.contraction;
    const Stage &pool = pool_of(s.op(), c), &sum = *c.sum;
    PoolTiles t;
    t.pool = c.pool;
    StageHandle P = s.stage(c.pool);
    for (const std::string &l : r.outside) {
        t.outside.push_back(along(pool, sum, l).name());
        t.loops.insert({l, t.outside.back()});
    }
    const LoopName row = along(pool, sum, r.row).name(), filter = along(pool, sum, r.other).name();
    auto [filter_tiles, each_filter] = P.split(filter, filters);
    auto [row_tiles, each_row] = P.split(row, rows);
    t.filters = filter_tiles, t.tile = row_tiles;
    std::vector<LoopName> order = t.outside;
    order.insert(order.end(), {filter_tiles, row_tiles});
    const std::vector<LoopName> shared = order;
    LoopName last = "";
    for (const Axis &a : pool.axes) {
        if (t.loops.count(sum.axes[size_t(&a - pool.axes.data())].name())) continue;
        if (!last.name.empty()) order.push_back(last);
        last = a.name() == row.name ? each_row : a.name() == filter.name ? each_filter : LoopName(a.name());
    }
    windows_in_vectors(P, pool, order, last, vector_lanes(s.machine(), pool.type));
    s.stage(c.consumer.empty() ? c.sum->name : c.consumer).compute_at(c.pool, t.tile);
    if (parallel) distribute_over_cores(P, shared, threads_of(s.machine()));
    if (!c.pool_end.empty()) P.finish_in(c.pool_end);
    return t;
}

void move_copies(Schedule &s, const std::string &sum, const PoolTiles &tiles) {
    std::vector<std::pair<std::string, LoopName>> moved;
    for (const StageState &copy : s.state().stages) {
        const auto loop = tiles.loops.find(copy.placement.loop);
        if (copy.placement.kind == Placement::Kind::At && copy.placement.consumer == sum && loop != tiles.loops.end())
            moved.emplace_back(copy.name(), loop->second);
    }
    for (const auto &[copy, loop] : moved) s.stage(copy).compute_at(tiles.pool, loop);
}

} // namespace kumiko::library
