#include "schedules/library/winograd.h"

#include "machine/machine.h"
#include "schedules/library/conv_roles.h"

namespace kumiko::library {

namespace {

const Stage &stage_of(const Op &op, const char *name) { return *op.find_stage(name); }

int64_t number(const Stage &s, const char *axis) { return extent_of(s, axis, 64); }

// Image tiles are read with contiguous channels.
void transpose_patches(Schedule &s, const Machine &machine, const std::string &padded, int lanes) {
    // A few channels of one tile; until X_rows is placed, this counts all of them.
    const Stage &products = stage_of(s.op(), "products");
    const int64_t side = number(stage_of(s.op(), "X_rows"), "j");
    const int64_t bytes = side * side * number(products, "c") * products.type.bytes();
    const char *level = "L3";
    for (const char *l : {"L2", "L1"}) {
        if (machine.find_level(l) && bytes <= cache_bytes(machine, l, 0)) level = l;
    }
    StageHandle patch = s.place_in(padded, level, "X_rows", "tx");
    patch.layout({"n", "y", "x", "c"}).reorder({"n", "y", "x", "c"}).unroll("x", side).vectorize("c", lanes);
}

} // namespace

bool is_winograd(const Op &op) {
    for (const char *stage : {"W_points", "X_rows", "X_points", "products", "Y_rows", "Y_tiles", "Y"}) {
        if (!op.find_stage(stage)) return false;
    }
    return op.name() == "winograd_conv2d";
}

WinogradParameters winograd_parameters(const Op &op, const Machine &machine) {
    const Stage &products = stage_of(op, "products");
    const int lanes = vector_lanes(machine, products.type), registers = accumulator_registers(machine);
    const int64_t filters = number(products, "o"), down = number(products, "ty"), across = number(products, "tx");
    const bool wide = has_wide_tiles(machine);
    const int64_t vectors = wide ? balanced_vectors((filters + lanes - 1) / lanes)
                                 : std::min<int64_t>(2, std::max<int64_t>(1, filters / lanes));
    const int64_t sums = vectors > 2 ? wide_tile_registers : registers;
    WinogradParameters p;
    p.vectors = Tile::nearest(vectors, up_to(4, (filters + lanes - 1) / lanes));
    // The data that a block of rows reads and writes stays in L2 if its tiles are enough for the
    // weights, which each block reads; otherwise in L3, with room for the weights. If L3 cannot
    // hold these, one block reads them once.
    const int64_t points = number(products, "u") * number(products, "v");
    const int64_t channels = number(products, "c"), bytes = products.type.bytes();
    const int64_t row = std::max<int64_t>(1, points * across * (channels + filters) * bytes);
    const int64_t second = cache_bytes(machine, "L2", 512 << 10), third = cache_bytes(machine, "L3", second);
    const Stage &weights = stage_of(op, "W_points");
    const bool once = number(weights, "u") * number(weights, "v") * channels * filters * bytes > third / 2;
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
    const bool last = stage_of(op, "Y").axes.back().name() == "o";
    p.pad = last ? Choice("inline", {"inline", "whole"}) : Choice("whole", {"whole"});
    p.weights = Choice("transformed", {"transformed", "ahead"});
    p.parallel = Flag(pays_to_share(op, machine));
    return p;
}

Schedule schedule_winograd(const Op &op, const Machine &machine, const WinogradParameters &p) {
    const Stage &products = stage_of(op, "products");
    const int lanes = vector_lanes(machine, products.type);
    const int tile = static_cast<int>(number(stage_of(op, "Y_tiles"), "a"));
    const std::string padded = "X.padded";
    Schedule s(op, machine);

    // Results: rows of tiles in blocks. Of a tile, a few filters at a time are stored, row by row
    // of pixels, or, with channels last, pixel by pixel.
    StageHandle Y = s.stage("Y");
    const bool last = Y.state().def.axes.back().name() == "o";
    auto [rows, y] = Y.split("y", tile);
    auto [block, row] = Y.split(rows, p.rows);
    auto [column, x] = Y.split("x", tile);
    auto [filters, filter] = Y.split("o", lanes);
    if (last)
        Y.reorder({"n", block, row, column, filters, y, x, filter}).unroll(y).unroll(x).vectorize(filter, lanes);
    else
        Y.reorder({"n", block, row, column, filters, y, filter, x}).unroll(y).unroll(filter).vectorize(x, tile);
    // Cores divide blocks or, if there are too few of them, the loops of each step.
    const int64_t blocks = (number(products, "ty") + p.rows - 1) / p.rows * extent_of(stage_of(op, "Y"), "n", 1);
    const bool by_blocks = p.parallel && blocks >= threads_of(machine), by_steps = p.parallel && !by_blocks;
    if (by_blocks) distribute_over_cores(Y, {"n", block}, threads_of(machine));
    if (by_steps) Y.parallel(row);

    StageHandle tiles = s.stage("Y_tiles"), half = s.stage("Y_rows");
    tiles.compute_at("Y", filters)
        .reorder({"n", "ty", "tx", "a", "b", "o"})
        .unroll("a")
        .unroll("b")
        .vectorize("o", lanes);
    half.compute_at("Y", filters)
        .reorder({"n", "ty", "tx", "v", "a", "o"})
        .unroll("a")
        .unroll("v")
        .vectorize("o", lanes);

    StageHandle M = s.stage("products");
    M.compute_at("Y", block);
    LoopName all = M.fuse("ty", "tx", "tiles");
    auto [groups, group] = M.split(all, p.tiles);
    auto [fo, fi] = M.split("o", p.vectors * lanes);
    auto [co, ci] = M.split("c", 4);
    M.reorder({"n", "u", "v", fo, groups, co, ci, group, fi}).unroll(ci).unroll(group);
    if (lanes > 1) M.vectorize(fi, lanes);
    if (by_steps) M.parallel("u");
    s.accumulate_in("products", "registers", groups);

    StageHandle V = s.stage("X_points"), T = s.stage("X_rows");
    V.compute_at("Y", block);
    auto [vo, vi] = V.split("c", lanes);
    V.reorder({"n", "ty", "tx", vo, "u", "v", vi}).unroll("u").unroll("v").vectorize(vi, lanes);
    if (by_steps) V.parallel("ty");
    T.compute_at("X_points", vo)
        .reorder({"n", "ty", "tx", "j", "u", "c"})
        .unroll("u")
        .unroll("j")
        .vectorize("c", lanes);

    if (p.pad.is("whole")) {
        StageHandle X = s.stage(padded);
        X.compute_root();
        if (p.parallel) distribute_over_cores(X, {"n", last ? "y" : "c"}, threads_of(machine));
        X.vectorize(last ? "c" : "x", lanes);
    }
    if (!last) transpose_patches(s, machine, padded, lanes);

    const std::string wide = std::to_string(p.vectors * lanes);
    const std::vector<std::string> order = {"u", "v", "o/" + wide, "c", "o%" + wide};
    StageHandle U = s.stage("W_points");
    if (p.weights.is("ahead"))
        s.prepack("W_points", order);
    else
        U.compute_root().layout(order);
    auto [uo, ui] = U.split("o", lanes);
    U.reorder({uo, "c", "u", "v", ui}).unroll("u").unroll("v").vectorize(ui, lanes);
    return s;
}

} // namespace kumiko::library
