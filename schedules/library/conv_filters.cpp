#include "schedules/library/conv_filters.h"

#include "machine/machine.h"
#include "schedules/library/conv_filters_copies.h"
#include "schedules/library/conv_filters_plan.h"
#include "schedules/library/conv_pool.h"
#include "support/error.h"

namespace kumiko::library {

namespace {

// Adds to the image the offset that an instruction requires. The result replaces the image, and a
// new stage replaces the sum; the excess, a sum over the weights, is subtracted.
void offset_image(Schedule &s, ConvRoles &r, Stage &sum, int64_t by, Type held) {
    const std::string name = sum.name;
    sum = s.stage(name).offset(r.image.tensor, by, type_name(held)).state().def;
    r.image.tensor += ".offset";
    if (!r.padding.empty()) r.padding = r.image.tensor;
    r.contraction.sum = &sum;
    if (r.contraction.consumer.empty())
        r.contraction.consumer = name;
    else
        s.stage(name).inline_into();
}

// Extends the window's columns to whole groups of the instruction's steps; added weights are zero.
void extend_window(Schedule &s, ConvRoles &r, Stage &sum, const std::string &columns, int group) {
    const int64_t steps = (extent_of(sum, columns, group) + group - 1) / group * group;
    if (steps == extent_of(sum, columns, group)) return;
    r.weights.tensor = s.stage(sum.name).extend(r.weights.tensor, columns, steps).name();
    sum = s.stage(sum.name).state().def;
    r.contraction.sum = &sum;
}

// The sum's loops: `filters` over vectors of filters, `runs` over tiles of pixels, `block` over
// blocks of channels ("": none), `lanes` within a vector.
struct FilterNest {
    LoopName filters, runs, block, lanes;
    std::vector<LoopName> order;
};

// Splits and orders the loops of the sum, and unrolls and vectorizes a tile.
FilterNest order_filters(StageHandle Y, const FiltersPlan &plan) {
    const ConvRoles &r = plan.r;
    const ConvFiltersParameters &p = plan.p;
    const Product &by = plan.product;
    const Stage &sum = plan.sum();
    const int lanes = by.lanes;
    auto [filters, filter] = Y.split(r.other, plan.wide);
    LoopName run = r.vector;
    if (p.through_rows) run = Y.fuse(r.row, r.vector, r.row + r.vector);
    auto [runs, pixel] = Y.split(run, p.pixels);
    std::vector<LoopName> order(r.outside.begin(), r.outside.end());
    if (p.outer.is("filters")) order.push_back(filters);
    const std::string channels = channels_of(r);
    LoopName channel = channels, copies = "", block = "";
    if (!channels.empty() && p.depth < extent_of(sum, channels, 64)) {
        std::tie(block, channel) = Y.split(channels, p.depth);
        order.push_back(block);
    }
    if (!r.row.empty() && !p.through_rows) order.push_back(r.row);
    if (p.outer.is("rows")) order.push_back(filters);
    order.push_back(runs);
    LoopName taken = "", column = window_columns(r);
    if (by.group > 1) {
        const bool by_channels = plan.grouped == channels;
        auto [steps, step] = Y.split(by_channels ? channel : LoopName(plan.grouped), by.group);
        (by_channels ? channel : column) = steps;
        taken = step;
    }
    const int64_t steps = channels.empty() ? 1 : std::min<int64_t>(4, extent_of(sum, channels, 64) / by.group);
    if (p.unroll.is("channels") && steps > 1) std::tie(channel, copies) = Y.split(channel, steps);
    for (const std::string &w : r.window) {
        order.push_back(w == channels ? channel : w == window_columns(r) ? column : LoopName(w));
    }
    if (!copies.name.empty()) order.push_back(copies);
    order.insert(order.end(), {pixel, filter});
    if (by.group > 1) { // the instruction takes several steps of a vector of filters
        auto [v, l] = Y.split(filter, lanes);
        order.back() = v;
        order.insert(order.end(), {l, taken});
        Y.reorder(order).unroll(v);
        filter = l;
    } else {
        Y.reorder(order);
    }
    Y.unroll(pixel);
    if (!copies.name.empty()) Y.unroll(copies);
    if (p.unroll.is("kx")) Y.unroll(column);
    if (lanes > 1 && by.group == 1) Y.vectorize(filter, lanes);
    return {filters, runs, block, filter, order};
}

// Schedules one multiplication strategy. `needs`: the value range that it requires. `ahead`: the
// product for which weights are pre-packed.
Schedule schedule_by(const Op &op, const Machine &machine, const ConvFiltersParameters &p, const Product &by,
                     const Product &ahead, const std::optional<ValuesWithin> &needs) {
    if (p.pool_rows > 0 && !p.through_rows)
        throw UserError("pool_rows is above 0 without through_rows; legal is 0, or through_rows");
    ConvRoles r = *conv_filters_roles(op);
    if (by.tiles()) {
        if (p.image.is("packed") || p.weights.is("direct"))
            throw Unsupported("image=packed and weights=direct with multiply=" + by.instruction +
                              "; take image=copied and weights=copied, or another way to multiply");
        return schedule_conv_tiles(op, machine, p, r, by);
    }
    Stage sum = *r.contraction.sum;
    const std::string name = sum.name;
    Schedule s(op, machine);
    if (needs) s.assume(within(needs->input, needs->range.min, needs->range.max));
    if (!p.weights.is("direct")) r.weights.tensor = tensor_by_axes(s, name, r.weights);
    const std::string grouped = grouped_axis(r, ahead);
    if (grouped != channels_of(r)) extend_window(s, r, sum, grouped, ahead.group);
    if (by.offset) offset_image(s, r, sum, by.offset, by.a);
    const int lanes = by.lanes;
    const FiltersPlan plan{r, p, by, p.vectors * lanes, ahead, grouped};
    const int64_t wide = plan.wide;
    StageHandle Y = s.stage(sum.name);
    const FilterNest nest = order_filters(Y, plan);
    PoolTiles tiles;
    if (p.pool_rows > 0)
        tiles = tile_pool(s, r, wide, p.pool_rows, p.parallel);
    else if (p.parallel)
        distribute_over_cores(Y, nest.order, threads_of(machine));
    if (!r.padding.empty()) {
        const Type type = s.state().stage(r.padding).def.type;
        pad_image(s, r, lanes > 1 ? vector_lanes(machine, type) : 1, p.parallel ? threads_of(machine) : 1);
    }
    copy_image(s, Y, plan);
    copy_weights(s, Y, plan);
    if (by.offset && s.state().find(name + ".excess")) sum_weights(s, name + ".excess", plan);
    s.accumulate_in(Y.name(), "registers", nest.runs);
    if (!nest.block.name.empty() && (p.outer.is("filters") || !r.outside.empty())) {
        int64_t results = sum.type.bytes() * (p.outer.is("filters") ? wide : extent_of(sum, r.other, 64));
        results *= extent_of(sum, r.vector, 64) * (r.row.empty() ? 1 : rows_together(op, r, p.pool_rows));
        Y.wait_in(smallest_level(machine, results), p.outer.is("filters") ? nest.filters : LoopName(r.outside.back()));
    }
    if (!r.contraction.consumer.empty()) Y.finish_in(r.contraction.consumer);
    if (p.pool_rows > 0)
        move_copies(s, Y.name(), tiles);
    else
        schedule_pool(s, r.contraction, p.parallel);
    if (by.group > 1) Y.tensorize(nest.lanes, by.instruction);
    return s;
}

} // namespace

Schedule schedule_conv_filters(const Op &op, const Machine &machine, const ConvFiltersParameters &p) {
    const ConvRoles r = *conv_filters_roles(op);
    const Product wide = product(p.multiply, r.contraction, op, r.image, r.weights, machine);
    if (!p.narrow) return schedule_by(op, machine, p, wide, wide, std::nullopt);
    const NarrowStrategy narrow_by = *narrow_strategy_of(op, r, machine);
    const Product narrow = product(narrow_by.instruction, r.contraction, op, r.image, r.weights, machine);
    // Blocks of as many bytes as the other kernel's have more channels if the copies' elements are
    // smaller.
    const int64_t all = extent_of(*r.contraction.sum, channels_of(r), 64),
                  depth = std::min(all, p.depth * std::max(1, wide.a.bytes() / narrow.a.bytes()));
    ConvFiltersParameters deeper = p;
    deeper.depth = Tile(depth, {depth});
    return schedule_by(op, machine, p, wide, narrow, std::nullopt)
        .specialize(within(narrow_by.needs.input, narrow_by.needs.range.min, narrow_by.needs.range.max),
                    schedule_by(op, machine, deeper, narrow, narrow, narrow_by.needs));
}

} // namespace kumiko::library
