#include "schedules/library/winograd.h"

#include "machine/machine.h"
#include "schedules/library/conv_roles.h"
#include "schedules/library/winograd_roles.h"

namespace kumiko::library {

namespace {

std::optional<WinogradRoles> roles_of(const Op &op) {
    for (const Stage &s : op.stages()) {
        if (auto r = winograd_roles(op, s)) return r;
    }
    return std::nullopt;
}

const std::vector<Axis> &axes_of(const Op &op, const std::string &tensor) {
    const Input *input = op.find_input(tensor);
    return input ? input->axes : op.stage(tensor).axes;
}

int64_t number(const Op &op, const std::string &stage, const std::string &axis) {
    return extent_of(op.stage(stage), axis, 64);
}

std::vector<LoopName> after(const std::vector<std::string> &images, const std::vector<LoopName> &inside) {
    std::vector<LoopName> all(images.begin(), images.end());
    all.insert(all.end(), inside.begin(), inside.end());
    return all;
}

bool has_channels_last(const Op &op, const WinogradRoles &r) {
    return axes_of(op, r.image.stage).back().name() == r.image.channel;
}

// Image tiles are read with contiguous channels.
void transpose_patches(Schedule &s, const Machine &machine, const WinogradRoles &r, int lanes) {
    // A few channels of one tile; until `rows` is placed, this counts all of them.
    const Stage &products = s.op().stage(r.products.stage);
    const int64_t side = number(s.op(), r.rows.stage, r.rows.inner_column);
    const int64_t bytes = side * side * extent_of(products, r.products.channel, 64) * products.type.bytes();
    const char *level = "L3";
    for (const char *l : {"L2", "L1"}) {
        if (machine.find_level(l) && bytes <= cache_bytes(machine, l, 0)) level = l;
    }
    StageHandle patch = s.place_in(r.image.stage, level, r.rows.stage, r.rows.across);
    std::vector<std::string> order = r.image.images;
    order.insert(order.end(), {r.image.down, r.image.across, r.image.channel});
    patch.layout(order)
        .reorder(std::vector<LoopName>(order.begin(), order.end()))
        .unroll(r.image.across, side)
        .vectorize(r.image.channel, lanes);
}

} // namespace

bool is_winograd(const Op &op) {
    const auto r = roles_of(op);
    return r && r->stages.size() == op.stages().size() && op.outputs() == std::vector<std::string>{r->result.stage};
}

WinogradParameters winograd_parameters(const Op &op, const Machine &machine) {
    const WinogradRoles r = *roles_of(op);
    const Stage &products = op.stage(r.products.stage);
    const int lanes = vector_lanes(machine, products.type), registers = accumulator_registers(machine);
    const int64_t filters = extent_of(products, r.products.filter, 64), down = extent_of(products, r.products.down, 64),
                  across = extent_of(products, r.products.across, 64);
    const bool wide = has_wide_tiles(machine);
    const int64_t vectors = wide ? balanced_vectors((filters + lanes - 1) / lanes)
                                 : std::min<int64_t>(2, std::max<int64_t>(1, filters / lanes));
    const int64_t sums = vectors > 2 ? wide_tile_registers : registers;
    WinogradParameters p;
    p.vectors = Tile::nearest(vectors, up_to(4, (filters + lanes - 1) / lanes));
    // The data that a block of rows reads and writes stays in L2 if its tiles are enough for the
    // weights, which each block reads; otherwise in L3, with room for the weights. If L3 cannot
    // hold these, one block reads them once.
    const int64_t points = extent_of(products, r.products.u, 64) * extent_of(products, r.products.v, 64);
    const int64_t channels = extent_of(products, r.products.channel, 64), bytes = products.type.bytes();
    const int64_t row = std::max<int64_t>(1, points * across * (channels + filters) * bytes);
    const int64_t second = cache_bytes(machine, "L2", 512 << 10), third = cache_bytes(machine, "L3", second);
    const int64_t weights =
        number(op, r.weights.stage, r.weights.u) * number(op, r.weights.stage, r.weights.v) * channels * filters;
    const bool once = weights * bytes > third / 2;
    constexpr int64_t enough = 7;
    int64_t rows = largest_divisor(down, std::max<int64_t>(1, second / 4 / row));
    if (rows * across < enough) rows = std::max(rows, largest_divisor(down, third / 8 / row));
    if (once) rows = down;
    p.rows = Tile::nearest(rows, up_to(64, down));
    // As many tiles at once as registers hold, or a few less, such that the last group of a block
    // has as many.
    const int64_t most = std::max<int64_t>(1, sums / vectors), together = p.rows * across;
    p.tiles = Tile::nearest(balanced_block(together, most, 1), up_to(16, down * across));
    // Channels that come last are read in place. Others are transposed tile by tile, for which a
    // padded copy is simplest.
    p.pad = r.padding.empty() || has_channels_last(op, r)
                ? Choice("inline", r.padding.empty() ? std::vector<std::string>{"inline"}
                                                     : std::vector<std::string>{"inline", "whole"})
                : Choice("whole", {"whole"});
    p.weights = Choice("transformed", r.one_weights ? std::vector<std::string>{"transformed", "ahead"}
                                                    : std::vector<std::string>{"transformed"});
    p.parallel = Flag(pays_to_share(op, machine));
    return p;
}

namespace {

// Transforms the weights at the root, or when they are packed, into panels of the products'
// filters.
void transform_weights(Schedule &s, const WinogradAxes &weights, const WinogradParameters &p, int lanes) {
    const std::string wide = std::to_string(p.vectors * lanes);
    const std::vector<std::string> order = {weights.u, weights.v, weights.filter + "/" + wide, weights.channel,
                                            weights.filter + "%" + wide};
    StageHandle U = s.stage(weights.stage);
    if (p.weights.is("ahead"))
        s.prepack(weights.stage, order);
    else
        U.compute_root().layout(order);
    auto [uo, ui] = U.split(weights.filter, lanes);
    U.reorder({uo, weights.channel, weights.u, weights.v, ui}).unroll(weights.u).unroll(weights.v).vectorize(ui, lanes);
}

} // namespace

Schedule schedule_winograd(const Op &op, const Machine &machine, const WinogradParameters &p) {
    const WinogradRoles r = *roles_of(op);
    const Stage &products = op.stage(r.products.stage);
    const int lanes = vector_lanes(machine, products.type);
    const auto tile = static_cast<int>(r.tile);
    Schedule s(op, machine);

    // Results: rows of tiles in blocks. Of a tile, a few filters at a time are stored, row by row
    // of pixels, or, with channels last, pixel by pixel.
    for (const std::string &stage : r.inlined) s.stage(stage).inline_into();
    StageHandle Y = s.stage(r.result.stage);
    const bool last = Y.state().def.axes.back().name() == r.result.filter;
    auto [rows, y] = Y.split(r.result.down, tile);
    auto [block, row] = Y.split(rows, p.rows);
    auto [column, x] = Y.split(r.result.across, tile);
    auto [filters, filter] = Y.split(r.result.filter, lanes);
    const std::vector<std::string> &images = r.result.images;
    if (last)
        Y.reorder(after(images, {block, row, column, filters, y, x, filter}))
            .unroll(y)
            .unroll(x)
            .vectorize(filter, lanes);
    else
        Y.reorder(after(images, {block, row, column, filters, y, filter, x}))
            .unroll(y)
            .unroll(filter)
            .vectorize(x, tile);
    // Cores divide blocks or, if there are too few of them, the loops of each step.
    int64_t blocks = (extent_of(products, r.products.down, 64) + p.rows - 1) / p.rows;
    for (const std::string &i : images) blocks *= number(op, r.result.stage, i);
    const bool by_blocks = p.parallel && blocks >= threads_of(machine), by_steps = p.parallel && !by_blocks;
    if (by_blocks) distribute_over_cores(Y, after(images, {block}), threads_of(machine));
    if (by_steps) Y.parallel(row);

    StageHandle tiles = s.stage(r.tiles.stage), half = s.stage(r.half.stage);
    tiles.compute_at(r.result.stage, filters)
        .reorder(after(r.tiles.images,
                       {r.tiles.down, r.tiles.across, r.tiles.inner_row, r.tiles.inner_column, r.tiles.filter}))
        .unroll(r.tiles.inner_row)
        .unroll(r.tiles.inner_column)
        .vectorize(r.tiles.filter, lanes);
    half.compute_at(r.result.stage, filters)
        .reorder(after(r.half.images, {r.half.down, r.half.across, r.half.v, r.half.inner_row, r.half.filter}))
        .unroll(r.half.inner_row)
        .unroll(r.half.v)
        .vectorize(r.half.filter, lanes);

    StageHandle M = s.stage(r.products.stage);
    M.compute_at(r.result.stage, block);
    const WinogradAxes &of = r.products;
    if (M.state().position(of.across) != M.state().position(of.down) + 1)
        M.reorder(after(of.images, {of.u, of.v, of.down, of.across, of.filter, of.channel}));
    std::string name = "tiles";
    while (find_axis(products, name)) name += "_";
    LoopName all = M.fuse(of.down, of.across, name);
    auto [groups, group] = M.split(all, p.tiles);
    auto [fo, fi] = M.split(of.filter, p.vectors * lanes);
    auto [co, ci] = M.split(of.channel, 4);
    M.reorder(after(of.images, {of.u, of.v, fo, groups, co, ci, group, fi})).unroll(ci).unroll(group);
    if (lanes > 1) M.vectorize(fi, lanes);
    if (by_steps) M.parallel(of.u);
    s.accumulate_in(of.stage, "registers", groups);

    StageHandle V = s.stage(r.points.stage), T = s.stage(r.rows.stage);
    V.compute_at(r.result.stage, block);
    auto [vo, vi] = V.split(r.points.channel, lanes);
    V.reorder(after(r.points.images, {r.points.down, r.points.across, vo, r.points.u, r.points.v, vi}))
        .unroll(r.points.u)
        .unroll(r.points.v)
        .vectorize(vi, lanes);
    if (by_steps) V.parallel(r.points.down);
    T.compute_at(r.points.stage, vo)
        .reorder(after(r.rows.images, {r.rows.down, r.rows.across, r.rows.inner_column, r.rows.u, r.rows.channel}))
        .unroll(r.rows.u)
        .unroll(r.rows.inner_column)
        .vectorize(r.rows.channel, lanes);

    const bool image_last = has_channels_last(op, r);
    if (p.pad.is("whole")) {
        StageHandle X = s.stage(r.padding);
        X.compute_root();
        if (p.parallel)
            distribute_over_cores(X, after(r.image.images, {image_last ? r.image.down : r.image.channel}),
                                  threads_of(machine));
        X.vectorize(image_last ? r.image.channel : r.image.across, lanes);
    }
    if (!image_last) transpose_patches(s, machine, r, lanes);

    transform_weights(s, r.weights, p, lanes);
    return s;
}

} // namespace kumiko::library
