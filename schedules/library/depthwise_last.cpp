#include "schedules/library/depthwise_last.h"

#include "schedules/library/conv_pool.h"
#include "schedules/library/conv_roles.h"

namespace kumiko::library {

namespace {

// The loops over rows and columns of the window.
struct Taps {
    std::string y, x;
};

// The ops that the template handles: image and weights share the channels as their last axis, and
// the window over rows and columns has at most 49 taps.
std::optional<Taps> taps_of(const Op &op) {
    const auto r = conv_roles(op);
    if (!r || !r->nhwc || r->row.empty() || !r->weights_padding.empty() || !r->contraction.reader.empty())
        return std::nullopt;
    if (!r->image.axes.count(r->vector) || !r->weights.axes.count(r->vector) || r->window.size() != 2)
        return std::nullopt;
    const auto last_is_channel = [&](const Operand &o) {
        const auto *v = o.indices.back().as<Halide::Internal::Variable>();
        return v && v->name == r->vector;
    };
    if (!last_is_channel(r->image) || !last_is_channel(r->weights)) return std::nullopt;
    const Stage &sum = *r->contraction.sum;
    if (extent_of(sum, r->window[0], 64) * extent_of(sum, r->window[1], 64) > 49) return std::nullopt;
    Taps w;
    for (const Expr &e : r->image.indices) {
        for (const std::string &k : r->window) {
            if (!Halide::Internal::expr_uses_var(e, k)) continue;
            if (Halide::Internal::expr_uses_var(e, r->row)) w.y = k;
            if (Halide::Internal::expr_uses_var(e, r->other)) w.x = k;
        }
    }
    if (w.x.empty() || w.y.empty() || w.x == w.y) return std::nullopt;
    return w;
}

} // namespace

bool is_depthwise_last(const Op &op) { return taps_of(op).has_value(); }

DepthwiseLastParameters depthwise_last_parameters(const Op &op, const Machine &machine) {
    const ConvRoles r = *conv_roles(op);
    const Taps w = *taps_of(op);
    const Stage &sum = *r.contraction.sum;
    const int lanes = vector_lanes(machine, sum.type);
    const int64_t columns = extent_of(sum, r.other, 64), channels = extent_of(sum, r.vector, 64);
    const int64_t taps = extent_of(sum, w.x, 3) * extent_of(sum, w.y, 3);
    DepthwiseLastParameters p;
    // Two vectors share the loop overhead. An image of many pixels is read one line of memory at a
    // time, whether tiles are one or two vectors wide. Products need registers beside the sums.
    const int64_t pixels = extent_of(sum, r.row, 64) * columns;
    const bool many = has_wide_tiles(machine);
    const bool two = (pixels <= 1024 || !many) && taps <= 9 && channels >= 2 * lanes;
    p.vectors = Tile::nearest(two ? 2 : 1, {1, 2, 4});
    p.pixels = Tile::nearest(balanced_block(columns, many || !two ? 8 : 4, 1), up_to(14, columns));
    p.order = Choice("channels", {"rows", "channels"});
    p.pad = r.padding.empty() ? Choice("inline", {"inline"}) : Choice("inline", {"row", "whole", "inline"});
    p.taps = Flag(taps <= 9);
    p.parallel = Flag(pays_to_share(op, machine));
    return p;
}

Schedule schedule_depthwise_last(const Op &op, const Machine &machine, const DepthwiseLastParameters &p) {
    const ConvRoles r = *conv_roles(op);
    const Taps w = *taps_of(op);
    const Contraction &c = r.contraction;
    const int lanes = vector_lanes(machine, c.sum->type);
    Schedule s(op, machine);
    StageHandle Y = s.stage(c.sum->name);
    auto [blocks, channel] = Y.split(r.vector, p.vectors * lanes);
    auto [runs, pixel] = Y.split(r.other, p.pixels);
    std::vector<LoopName> order(r.outside.begin(), r.outside.end());
    if (p.order.is("rows"))
        order.insert(order.end(), {LoopName(r.row), runs, blocks});
    else
        order.insert(order.end(), {blocks, LoopName(r.row), runs});
    const LoopName tile = order.back();
    order.insert(order.end(), {LoopName(w.y), LoopName(w.x), pixel, channel});
    Y.reorder(order).unroll(w.x).unroll(pixel);
    if (p.taps) Y.unroll(w.y);
    if (lanes > 1) Y.vectorize(channel, lanes);
    if (p.parallel) distribute_over_cores(Y, order, threads_of(machine));
    if (!r.padding.empty() && !p.pad.is("inline")) {
        StageHandle X = s.stage(r.padding);
        const std::vector<Axis> axes = X.state().def.axes;
        if (p.pad.is("whole")) {
            X.compute_root();
            if (p.parallel) distribute_over_cores(X, {axes[0].name(), axes[1].name()}, threads_of(machine));
        } else {
            X.compute_at(Y.name(), r.row);
        }
        if (const int of_image = vector_lanes(machine, X.state().def.type); of_image > 1)
            X.vectorize(axes.back().name(), of_image);
    }
    s.accumulate_in(Y.name(), "registers", tile);
    if (!c.consumer.empty()) Y.finish_in(c.consumer);
    schedule_pool(s, c, p.parallel);
    return s;
}

} // namespace kumiko::library
