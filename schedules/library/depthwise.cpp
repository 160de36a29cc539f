#include "schedules/library/depthwise.h"

#include "schedules/library/conv_pool.h"
#include "schedules/library/conv_roles.h"

namespace kumiko::library {

namespace {

// The loops over rows and columns of the window.
struct Window {
    std::string y, x;
};

// The ops that the template handles: the indices of rows and columns of the one image are shifted
// by a window of at most 25 taps, and no channels are summed.
std::optional<Window> window_of(const Op &op) {
    const auto r = conv_roles(op);
    if (!r || r->nhwc || !r->other.empty() || r->row.empty() || r->outside.empty()) return std::nullopt;
    if (!r->weights_padding.empty() || r->window.size() != 2 || !r->contraction.reader.empty()) return std::nullopt;
    const Stage &sum = *r->contraction.sum;
    if (extent_of(sum, r->window[0], 64) * extent_of(sum, r->window[1], 64) > 25) return std::nullopt;
    Window w;
    for (const Expr &index : r->image.indices) {
        for (const std::string &k : r->window) {
            if (!Halide::Internal::expr_uses_var(index, k)) continue;
            if (Halide::Internal::expr_uses_var(index, r->vector)) w.x = k;
            if (Halide::Internal::expr_uses_var(index, r->row)) w.y = k;
        }
    }
    if (w.x.empty() || w.y.empty() || w.x == w.y) return std::nullopt;
    return w;
}

// Lanes for rows of this length: short rows use narrower vectors that hold them.
int lanes_for(const Machine &machine, Type type, int64_t columns) {
    constexpr int fewest = 4;
    int lanes = vector_lanes(machine, type);
    while (lanes / 2 >= fewest && columns <= lanes / 2) lanes /= 2;
    return lanes;
}

} // namespace

bool is_depthwise(const Op &op) { return window_of(op).has_value(); }

DepthwiseParameters depthwise_parameters(const Op &op, const Machine &machine) {
    const ConvRoles r = *conv_roles(op);
    const Window w = *window_of(op);
    const Stage &sum = *r.contraction.sum;
    const int64_t rows = extent_of(sum, r.row, 64), columns = extent_of(sum, r.vector, 64);
    DepthwiseParameters p;
    // Images of few rows are one or two tiles; others have tiles of a few rows, so that the code
    // for borders, which unrolls all taps, stays small. Strided elements are shuffled after
    // loading; all taps of a row share that.
    const int64_t most = std::min<int64_t>(accumulator_registers(machine) - 1, 8);
    const int64_t wish = rows <= most ? rows : r.dense && rows <= 4 * most ? most : 4;
    p.image_rows = Tile::nearest(balanced_block(rows, wish, 1), up_to(14, rows));
    p.order = Choice(r.dense ? "taps" : rows <= most ? "rows" : "lines", {"taps", "lines", "rows"});
    p.pad = r.padding.empty() ? Choice("inline", {"inline"}) : Choice("inline", {"channel", "whole", "inline"});
    const std::string &channel = r.outside.back();
    const int64_t channels = extent_of(sum, channel, 64);
    const int64_t tasks = 4 * threads_of(machine);
    const int64_t pixels = std::max<int64_t>(1, rows * columns);
    p.channels = Tile::nearest(std::clamp<int64_t>(4096 / pixels, 1, std::max<int64_t>(1, channels / tasks)),
                               Tile::sizes(channels, 1, 64));
    p.parallel = Flag(pays_to_share(op, machine));
    return p;
}

Schedule schedule_depthwise(const Op &op, const Machine &machine, const DepthwiseParameters &p) {
    const ConvRoles r = *conv_roles(op);
    const Window w = *window_of(op);
    const Contraction &c = r.contraction;
    const int lanes = lanes_for(machine, c.sum->type, extent_of(*c.sum, r.vector, 64));
    Schedule s(op, machine);
    StageHandle Y = s.stage(c.sum->name);

    const std::string channel = r.outside.back();
    std::vector<LoopName> order(r.outside.begin(), r.outside.end() - 1);
    LoopName each = channel;
    if (p.channels > 1) {
        auto [o, i] = Y.split(channel, p.channels);
        order.push_back(o);
        each = i;
    }
    order.push_back(each);
    auto [row_tiles, rows] = Y.split(r.row, p.image_rows);
    auto [runs, run] = Y.split(r.vector, lanes);
    order.insert(order.end(), {row_tiles, runs});
    if (p.order.is("taps"))
        order.insert(order.end(), {LoopName(w.x), LoopName(w.y), rows, run});
    else if (p.order.is("lines"))
        order.insert(order.end(), {LoopName(w.y), rows, LoopName(w.x), run});
    else
        order.insert(order.end(), {rows, LoopName(w.y), LoopName(w.x), run});
    Y.reorder(order);
    Y.unroll(rows);
    Y.unroll(w.x);
    Y.unroll(w.y);
    if (lanes > 1) Y.vectorize(run, lanes);
    if (p.parallel) distribute_over_cores(Y, order, threads_of(machine));
    if (!r.padding.empty() && !p.pad.is("inline")) {
        StageHandle X = s.stage(r.padding);
        const std::vector<Axis> axes = X.state().def.axes;
        if (p.pad.is("whole")) {
            X.compute_root();
            if (p.parallel) distribute_over_cores(X, {axes[0].name(), axes[1].name()}, threads_of(machine));
        } else {
            X.compute_at(Y.name(), each.name);
        }
        if (lanes > 1) vectorize_innermost(X, lanes);
    }
    s.accumulate_in(Y.name(), "registers", runs);
    if (!c.consumer.empty()) Y.finish_in(c.consumer);
    schedule_pool(s, c, p.parallel);
    return s;
}

} // namespace kumiko::library
