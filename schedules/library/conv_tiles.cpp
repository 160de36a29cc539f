// Convolutions of channels-last images as products of tiles: pixels are rows, filters columns, and
// the window with its channels the reduction. A copy stores the elements of each pixel's window in
// one row. The image is read in place if the window is one element and consecutive pixels are
// adjacent, and for pixels of one image row, whose distance is the same for each window element.
#include "machine/machine.h"
#include "schedules/library/conv_filters_plan.h"
#include "schedules/library/conv_pool.h"
#include "schedules/library/tiles.h"

namespace kumiko::library {

namespace {

std::string joined(const std::vector<std::string> &axes, const char *between) {
    std::string all;
    for (const std::string &a : axes) all += (all.empty() ? "" : between) + a;
    return all;
}

// The axes of the pixels; the axes of the window, channels last.
struct Groups {
    std::vector<std::string> pixels, steps;
};

Groups groups_of(const ConvRoles &r, bool by_rows) {
    Groups g;
    if (!r.row.empty() && !by_rows) g.pixels.push_back(r.row);
    g.pixels.push_back(r.vector);
    for (const std::string &w : r.window) {
        if (w != channels_of(r)) g.steps.push_back(w);
    }
    if (!channels_of(r).empty()) g.steps.push_back(channels_of(r));
    return g;
}

int64_t product_of(const Stage &sum, const std::vector<std::string> &axes) {
    int64_t n = 1;
    for (const std::string &a : axes) n *= extent_of(sum, a, 0);
    return n;
}

// Whether a block takes its two tiles of rows from two rows of the image: if an image row is an odd
// number of tiles.
bool takes_two_image_rows(const ConvRoles &r, const Product &by) {
    const Stage &sum = *r.contraction.sum;
    const int64_t width = extent_of(sum, r.vector, 0);
    return !r.row.empty() && extent_of(sum, r.row, 0) >= 2 &&
           (width < 2 * by.rows || (width + by.rows - 1) / by.rows % 2);
}

} // namespace

bool fits_tiles(const Op &op, const ConvRoles &r, const Product &by) {
    const Stage &sum = *r.contraction.sum;
    if (!r.nhwc || by.offset || !op.find_input(r.weights.tensor)) return false;
    if (!axes_in(r.weights, r.outside).empty()) return false; // groups
    const Groups g = groups_of(r, false);
    const int64_t channels = extent_of(sum, channels_of(r), 0), vector = int64_t(by.groups) * by.group;
    return product_of(sum, g.pixels) >= by.rows && extent_of(sum, r.other, 0) >= by.lanes && channels > 0 &&
           channels % vector == 0;
}

bool fills_tiles_by_rows(const ConvRoles &r, const Product &by) {
    const int64_t row = extent_of(*r.contraction.sum, r.vector, 0),
                  block = takes_two_image_rows(r, by) || row < 2 * by.rows ? by.rows : 2 * by.rows;
    return row >= by.rows && 8 * row >= 7 * ((row + block - 1) / block * block);
}

bool reads_tiles_in_place(const ConvRoles &r) {
    return r.padding.empty() && r.dense &&
           product_of(*r.contraction.sum, r.window) == extent_of(*r.contraction.sum, channels_of(r), 0);
}

Schedule schedule_conv_tiles(const Op &op, const Machine &machine, const ConvFiltersParameters &p, const ConvRoles &r,
                             const Product &by) {
    const Stage &sum = *r.contraction.sum;
    const bool copied = p.image.is("copied"), by_rows = !copied && !reads_tiles_in_place(r);
    const Groups g = groups_of(r, by_rows);
    Schedule s(op, machine);
    StageHandle Y = s.stage(sum.name);
    const std::vector<std::string> outside = axes_in(r.image, r.outside);
    std::vector<std::string> of_image = outside;
    of_image.insert(of_image.end(), {joined(g.pixels, " "), joined(g.steps, " ")});
    const std::string image = by_rows ? r.image.tensor : s.reindex(r.image.tensor, Y.name(), of_image).name(),
                      weights = s.reindex(r.weights.tensor, Y.name(), {joined(g.steps, " "), r.other}).name();
    TilePlan tiles{.product = by,
                   .i = joined(g.pixels, ""),
                   .j = r.other,
                   .k = joined(g.steps, ""),
                   .M = product_of(sum, g.pixels),
                   .N = extent_of(sum, r.other, 0),
                   .outside = r.outside,
                   .columns = p.vectors * by.lanes,
                   .rows_outside = p.outer.is("rows"),
                   .moves_rows = tail_may_overlap(op),
                   .moves_columns = false};
    const int64_t K = product_of(sum, g.steps), threads = threads_of(machine);
    const bool two_image_rows = by_rows && takes_two_image_rows(r, by);
    if (two_image_rows)
        tiles.image_rows = r.row;
    else if (by_rows && !r.row.empty())
        tiles.outside.push_back(r.row);
    const bool many_rows = *tiles.M >= 4 * threads * by.rows;
    tiles.parallel = !p.parallel || by_rows ? "none" : tiles.rows_outside && many_rows ? "rows" : "columns";
    tiles.row_block = balanced_block(*tiles.M, (*tiles.M + threads - 1) / threads, 2 * by.rows);
    for (const auto *axes : {&g.pixels, &g.steps}) {
        LoopName all = axes->front();
        for (size_t n = 1; n < axes->size(); n++) all = Y.fuse(all, (*axes)[n], all.name + (*axes)[n]);
    }
    const TileLoops loops = tile_loops(machine, Y, tiles);
    const int64_t vector = vector_lanes(machine, by.b);
    if (p.weights.is("ahead")) {
        StageHandle W = s.stage(weights);
        W.compute_root();
        pack_panels(s.prepack(weights, panels_layout(tiles)), tiles, {}, true, vector, Tail::Auto);
    } else {
        StageHandle W = s.place_in(weights, smallest_level(machine, K * *tiles.N * by.b.bytes()), Y.name(),
                                   r.outside.empty() ? loops.rows : LoopName(r.outside.front()));
        W.layout(panels_layout(tiles));
        pack_panels(W, tiles, {}, true, vector, Tail::Auto);
    }
    if (by_rows && p.parallel) {
        std::vector<LoopName> shared(tiles.outside.begin(), tiles.outside.end());
        if (two_image_rows) shared.push_back(loops.image_rows);
        distribute_over_cores(Y, shared, threads);
    }
    if (!r.padding.empty() && by_rows) {
        pad_image(s, r, vector_lanes(machine, by.a), p.parallel ? threads : 1);
    } else if (!r.padding.empty()) {
        s.stage(r.padding).inline_into();
    }
    if (copied) {
        const int64_t rows = tiles.rows_outside ? 2 * by.rows : *tiles.M;
        StageHandle X = s.place_in(image, smallest_level(machine, rows * K * by.a.bytes()), Y.name(),
                                   tiles.rows_outside ? loops.rows : LoopName(r.outside.back()));
        const int64_t channels = extent_of(sum, channels_of(r), 0);
        auto [place, channel] = X.split(tiles.k, channels, {tiles.k + ".w", tiles.k + ".c"});
        std::vector<LoopName> order(outside.begin(), outside.end());
        order.insert(order.end(), {place, LoopName(tiles.i), channel});
        X.reorder(order).vectorize(channel, vector_lanes(machine, by.a));
    }
    if (!r.contraction.consumer.empty()) Y.finish_in(r.contraction.consumer);
    schedule_pool(s, r.contraction, p.parallel);
    Y.tensorize(loops.block, by.instruction);
    return s;
}

} // namespace kumiko::library
