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

// The schedule of the stages of one convolution.
class WinogradSchedule {
public:
    WinogradSchedule(const Op &op, const Machine &machine, const WinogradParameters &p)
        : op_(op), machine_(machine), p_(p), r_(*roles_of(op)), products_(op.stage(r_.products.stage)),
          lanes_(vector_lanes(machine, products_.type)), s_(op, machine) {}

    Schedule schedule() {
        for (const std::string &stage : r_.inlined) s_.stage(stage).inline_into();
        store_results();
        transform_products();
        multiply();
        transform_image();
        const bool image_last = has_channels_last(op_, r_);
        if (p_.pad.is("whole")) copy_image(image_last);
        if (!image_last) transpose_patches(s_, machine_, r_, lanes_);
        transform_weights();
        return std::move(s_);
    }

private:
    // Results: rows of tiles in blocks. Of a tile, a few filters at a time are stored, row by row
    // of pixels, or, with channels last, pixel by pixel.
    void store_results() {
        const auto tile = static_cast<int>(r_.tile);
        StageHandle Y = s_.stage(r_.result.stage);
        const bool last = Y.state().def.axes.back().name() == r_.result.filter;
        auto [rows, y] = Y.split(r_.result.down, tile);
        auto [block, row] = Y.split(rows, p_.rows);
        auto [column, x] = Y.split(r_.result.across, tile);
        auto [filters, filter] = Y.split(r_.result.filter, lanes_);
        block_ = block, filters_ = filters;
        const std::vector<std::string> &images = r_.result.images;
        if (last)
            Y.reorder(after(images, {block, row, column, filters, y, x, filter}))
                .unroll(y)
                .unroll(x)
                .vectorize(filter, lanes_);
        else
            Y.reorder(after(images, {block, row, column, filters, y, filter, x}))
                .unroll(y)
                .unroll(filter)
                .vectorize(x, tile);
        // Cores divide blocks or, if there are too few of them, the loops of each step.
        int64_t blocks = (extent_of(products_, r_.products.down, 64) + p_.rows - 1) / p_.rows;
        for (const std::string &i : images) blocks *= number(op_, r_.result.stage, i);
        const bool by_blocks = p_.parallel && blocks >= threads_of(machine_);
        by_steps_ = p_.parallel && !by_blocks;
        if (by_blocks) distribute_over_cores(Y, after(images, {block}), threads_of(machine_));
        if (by_steps_) Y.parallel(row);
    }

    void transform_products() {
        const WinogradAxes &tiles = r_.tiles, &half = r_.half;
        s_.stage(tiles.stage)
            .compute_at(r_.result.stage, filters_)
            .reorder(after(tiles.images, {tiles.down, tiles.across, tiles.inner_row, tiles.inner_column, tiles.filter}))
            .unroll(tiles.inner_row)
            .unroll(tiles.inner_column)
            .vectorize(tiles.filter, lanes_);
        s_.stage(half.stage)
            .compute_at(r_.result.stage, filters_)
            .reorder(after(half.images, {half.down, half.across, half.v, half.inner_row, half.filter}))
            .unroll(half.inner_row)
            .unroll(half.v)
            .vectorize(half.filter, lanes_);
    }

    void multiply() {
        const WinogradAxes &of = r_.products;
        StageHandle M = s_.stage(of.stage);
        M.compute_at(r_.result.stage, block_);
        if (M.state().position(of.across) != M.state().position(of.down) + 1)
            M.reorder(after(of.images, {of.u, of.v, of.down, of.across, of.filter, of.channel}));
        std::string name = "tiles";
        while (find_axis(products_, name)) name += "_";
        LoopName all = M.fuse(of.down, of.across, name);
        auto [groups, group] = M.split(all, p_.tiles);
        auto [fo, fi] = M.split(of.filter, p_.vectors * lanes_);
        auto [co, ci] = M.split(of.channel, 4);
        M.reorder(after(of.images, {of.u, of.v, fo, groups, co, ci, group, fi})).unroll(ci).unroll(group);
        if (lanes_ > 1) M.vectorize(fi, lanes_);
        if (by_steps_) M.parallel(of.u);
        s_.accumulate_in(of.stage, "registers", groups);
    }

    void transform_image() {
        const WinogradAxes &points = r_.points, &rows = r_.rows;
        StageHandle V = s_.stage(points.stage);
        V.compute_at(r_.result.stage, block_);
        auto [vo, vi] = V.split(points.channel, lanes_);
        V.reorder(after(points.images, {points.down, points.across, vo, points.u, points.v, vi}))
            .unroll(points.u)
            .unroll(points.v)
            .vectorize(vi, lanes_);
        if (by_steps_) V.parallel(points.down);
        s_.stage(rows.stage)
            .compute_at(points.stage, vo)
            .reorder(after(rows.images, {rows.down, rows.across, rows.inner_column, rows.u, rows.channel}))
            .unroll(rows.u)
            .unroll(rows.inner_column)
            .vectorize(rows.channel, lanes_);
    }

    // Computes the padded image as a whole.
    void copy_image(bool channels_last) {
        StageHandle X = s_.stage(r_.padding);
        X.compute_root();
        if (p_.parallel)
            distribute_over_cores(X, after(r_.image.images, {channels_last ? r_.image.down : r_.image.channel}),
                                  threads_of(machine_));
        X.vectorize(channels_last ? r_.image.channel : r_.image.across, lanes_);
    }

    // Transforms the weights at the root, or when they are packed, into panels of the products'
    // filters.
    void transform_weights() {
        const WinogradAxes &of = r_.weights;
        const std::string wide = std::to_string(p_.vectors * lanes_);
        const std::vector<std::string> order = {of.u, of.v, of.filter + "/" + wide, of.channel, of.filter + "%" + wide};
        StageHandle U = s_.stage(of.stage);
        if (p_.weights.is("ahead"))
            s_.prepack(of.stage, order);
        else
            U.compute_root().layout(order);
        auto [uo, ui] = U.split(of.filter, lanes_);
        U.reorder({uo, of.channel, of.u, of.v, ui}).unroll(of.u).unroll(of.v).vectorize(ui, lanes_);
    }

    const Op &op_;
    const Machine &machine_;
    const WinogradParameters &p_;
    const WinogradRoles r_;
    const Stage &products_;
    const int lanes_;
    Schedule s_;
    LoopName block_ = "", filters_ = ""; // of the result's loops
    bool by_steps_ = false;
};

} // namespace

Schedule schedule_winograd(const Op &op, const Machine &machine, const WinogradParameters &p) {
    return WinogradSchedule(op, machine, p).schedule();
}

} // namespace kumiko::library
