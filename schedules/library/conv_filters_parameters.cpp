#include "machine/machine.h"
#include "schedules/library/conv_filters_plan.h"
#include "schedules/library/conv_pool.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kumiko::library {

namespace {

constexpr int64_t fewest_filters = 8, fewest_results = 40, fewest_steps = 32;
constexpr int64_t most_pixels = 256, long_sum = 64; // for windows of one element
constexpr int64_t sharing_filters = 128;            // that pay for reordering an image

// Whether operands are of a type narrower than the sum's.
bool is_narrow(const Op &op, const ConvRoles &r) {
    return op.find_input(r.weights.tensor)->type != r.contraction.sum->type;
}

// The number of results that share the weights of a filter.
int64_t pixels_of(const Stage &sum, const ConvRoles &r) {
    int64_t results = 1;
    for (const Axis &a : sum.axes) {
        if (!r.weights.axes.count(a.name())) results *= constant_extent(a).value_or(fewest_results);
    }
    return results;
}

// The roles for channels-last images: the columns of the image become the vector axis, the filters
// the other axis. Nothing if one of these is an axis of both operands, as groups are.
std::optional<ConvRoles> with_filters_across(ConvRoles r) {
    std::swap(r.vector, r.other);
    const auto of_image = [&](const std::string &a) { return r.image.axes.count(a) && !r.weights.axes.count(a); };
    if (!of_image(r.vector) || (!r.row.empty() && !of_image(r.row)) || r.image.axes.count(r.other)) return std::nullopt;
    r.dense = is_dense(r.image, r.vector);
    return r;
}

} // namespace

std::optional<ConvRoles> conv_filters_roles(const Op &op) {
    auto r = conv_roles(op);
    if (r && r->nhwc) r = with_filters_across(*r);
    if (!r || r->other.empty() || !r->weights_padding.empty()) return std::nullopt;
    if (!r->contraction.reader.empty() || !op.find_input(r->weights.tensor)) return std::nullopt;
    return r;
}

bool is_conv_by_filters(const Op &op) {
    const auto r = conv_filters_roles(op);
    if (!r) return false;
    const Stage &sum = *r->contraction.sum;
    if (extent_of(sum, r->other, 0) < fewest_filters) return false;
    if (r->nhwc) return true; // results are stored in vectors of filters, as computed
    int64_t steps = 1;        // short sums do not pay for the transposition of results
    for (const Axis &a : sum.reduction_axes) steps *= constant_extent(a).value_or(fewest_steps);
    const bool cheap =
        // either the transposition, or relative to the alternatives
        !r->dense || is_narrow(op, *r) || pays_by_tiles(op, *r);
    if (steps < (cheap ? fewest_steps / 2 : fewest_steps)) return false;
    // If few results share the weights, packing these costs more than vectors of pixels waste.
    const int64_t results = pixels_of(sum, *r);
    if (is_narrow(op, *r)) return true; // copies are made anyway, in any order
    // If few pixels share long sums, vectors along pixels would be cut at the end of each channel.
    if (r->fusable) return results <= most_pixels && steps >= long_sum;
    return !r->dense || results >= fewest_results;
}

std::string grouped_axis(const ConvRoles &r, const Product &by) {
    const Stage &sum = *r.contraction.sum;
    const std::string channels = channels_of(r);
    const int64_t all = extent_of(sum, channels, 2 * by.group);
    if (by.group == 1 || all >= 2 * by.group || all == by.group) return channels;
    const std::string &columns = r.window.back();
    const bool in_a_run = !r.nhwc && !r.padding.empty() && shifts(r.image, columns) && is_dense(r.image, columns) &&
                          !shifts(r.weights, columns) && extent_of(sum, columns, 0) > 1;
    if (in_a_run && !sum.type.is_float()) return columns;
    return all >= by.group ? channels : "";
}

const std::string &window_columns(const ConvRoles &r) {
    const size_t last = r.window.size() - 1;
    return r.nhwc && last > 0 && r.window[last] == channels_of(r) ? r.window[last - 1] : r.window[last];
}

namespace {

struct Run {
    int64_t pixels = 1;
    double time = INFINITY; // for all results, in vector steps of the reduction
};

// The number of neighbouring results per tile that computes a row in the least time. A tile with
// too few to hide the latency of the additions takes as long as one with enough.
Run best_run(int64_t row, int64_t most, int64_t vectors) {
    constexpr int64_t in_flight = 8; // additions in flight per core
    const double least = double(in_flight) / double(vectors);
    const auto of_tile = [&](int64_t n) { return std::max<double>(double(n), least) + 0.5; };
    Run best;
    for (int64_t n = 1; n <= most; n++) {
        const double time = double(row / n) * of_tile(n) + (row % n ? of_tile(row % n) : 0);
        if (time <= best.time) best = {n, time};
    }
    return best;
}

// Whether the image stores the steps of an instruction contiguously, at a fixed distance from group
// to group, so that no copy is needed.
bool reads_groups(const Op &op, const ConvRoles &r, const Product &by) {
    const std::string &tensor = r.image.tensor;
    const Stage *padded = op.find_stage(tensor);
    const Type type = padded ? padded->type : op.find_input(tensor)->type;
    if (padded && !std::all_of(padded->axes.begin(), padded->axes.end(),
                               [](const Axis &a) { return constant_extent(a).has_value(); }))
        return false;
    return r.nhwc && !by.tiles() && !by.offset && by.a == type && grouped_axis(r, by) == channels_of(r) &&
           extent_of(*r.contraction.sum, channels_of(r), 1) % by.group == 0;
}

// Whether the image, or a copy of it, can store the instruction's steps side by side.
bool takes_steps(const Op &op, const ConvRoles &r, const std::string &way, const Machine &machine) {
    const Product by = product(way, r.contraction, op, r.image, r.weights, machine);
    return by.tiles() ? fits_tiles(op, r, by) : by.group == 1 || !grouped_axis(r, by).empty();
}

// Whether weights can be pre-packed for a multiplication strategy. Grouped steps require constant
// extents.
bool packs_groups(const Op &op, const ConvRoles &r, const std::string &way, const Machine &machine) {
    const Product by = product(way, r.contraction, op, r.image, r.weights, machine);
    const Input *weights = op.find_input(r.weights.tensor);
    return by.group == 1 || (weights && std::all_of(weights->axes.begin(), weights->axes.end(),
                                                    [](const Axis &a) { return constant_extent(a).has_value(); }));
}

} // namespace

std::optional<NarrowWay> narrow_way_of(const Op &op, const ConvRoles &r, const Machine &machine) {
    auto way = narrow_way(r.contraction, op, r.image, r.weights, machine, true);
    if (!way || way->needs.input != r.weights.tensor || !takes_steps(op, r, way->instruction, machine))
        return std::nullopt;
    return way;
}

namespace {

// Blocks of channels are multiples of the group size of every instruction that may be used.
int64_t unit_of_depth(const Op &op, const ConvRoles &r, std::vector<std::string> ways, const Machine &machine) {
    if (const auto narrow = narrow_way_of(op, r, machine)) ways.push_back(narrow->instruction);
    int64_t unit = 1;
    for (const std::string &w : ways) {
        const Product by = product(w, r.contraction, op, r.image, r.weights, machine);
        if (grouped_axis(r, by) == channels_of(r)) unit = std::lcm(unit, int64_t(by.group));
    }
    return unit;
}

// Whether the axes of rows and columns are adjacent among the results, in this order.
bool rows_follow(const Stage &sum, const ConvRoles &r) {
    for (size_t d = 0; d + 1 < sum.axes.size(); d++) {
        if (sum.axes[d].name() == r.row)
            return sum.axes[d + 1].name() == r.vector && constant_extent(sum.axes[d + 1]).has_value();
    }
    return false;
}

} // namespace

bool is_conv_for_filters(const Op &op) { return conv_filters_roles(op).has_value(); }

ConvFiltersParameters conv_filters_parameters(const Op &op, const Machine &machine, PackedBy packed_by) {
    const ConvRoles r = *conv_filters_roles(op);
    const Stage &sum = *r.contraction.sum;
    const int lanes = vector_lanes(machine, sum.type);
    const bool narrow = is_narrow(op, r);
    const int64_t filters = extent_of(sum, r.other, 64), row = extent_of(sum, r.vector, 64);
    ConvFiltersParameters p;
    auto ways = multiply_strategies(r.contraction, op, r.image, r.weights, machine, true);
    std::erase_if(ways, [&](const std::string &w) {
        return !takes_steps(op, r, w, machine) || (packed_by == PackedBy::Caller && !packs_groups(op, r, w, machine));
    });
    p.multiply = Choice(ways.front(), ways);
    const Product way = product(p.multiply, r.contraction, op, r.image, r.weights, machine);
    // An instruction's sum of products is added to the accumulator by another instruction; with
    // unrolled steps, that takes registers in between.
    const int64_t columns = extent_of(sum, window_columns(r), 64);
    const bool through_window = columns > 1 && !r.nhwc, in_two = way.group > 1 && !sum.type.is_float();
    const bool wide = has_wide_tiles(machine);
    // a copy of every other pixel, in runs as long as the image's
    const bool gathered = !r.dense && !through_window;
    const int between = !in_two ? 0 : wide && !gathered ? 4 : through_window ? 2 : 0;
    int64_t vectors =
        std::min<int64_t>(wide && in_two && through_window ? 3 : 2, std::max<int64_t>(1, filters / lanes));
    // Tiles may be as wide as high if results are stored as they are summed, or if few are.
    if (wide && (r.nhwc || (!in_two && !gathered))) vectors = balanced_vectors((filters + lanes - 1) / lanes);
    const int registers = vectors > 2 ? 24 : accumulator_registers(machine) - between;
    p.vectors = Tile::nearest(vectors, up_to(4, (filters + lanes - 1) / lanes));
    const bool follow = rows_follow(sum, r);
    p.pool_rows = follow ? rows_of_pool(op, r, machine, vectors * lanes) : Tile(0, {0});
    // Runs of results that continue in the next row waste less, and their neighbours share no
    // element that registers would have to keep.
    const int64_t tile = registers / vectors, height = follow ? rows_together(op, r, p.pool_rows) : 1;
    p.through_rows = follow ? Flag(true) : Flag(false, {false});
    p.pixels =
        Tile::nearest(best_run(row * height, std::min(row * height, tile), vectors).pixels, up_to(16, row * height));
    // The next run of pixels reads the weights of a tile, and its rows of the image, again; until
    // then they stay in L2.
    const std::string channels = channels_of(r);
    const int64_t all = channels.empty() ? 1 : extent_of(sum, channels, 64);
    int64_t window = 1, rows = 1;
    for (const std::string &w : r.window) {
        if (w == channels) continue;
        window *= extent_of(sum, w, 1);
        rows = std::max(rows, extent_of(sum, w, 1));
    }
    // If a window skips elements of rows, L1 holds the weights and rows of few channels only.
    // Channels that are the last axis are read in runs, which should not be short.
    const bool skips = !r.dense && !r.nhwc;
    const int64_t read = skips ? 2 * row : row;
    const int64_t bytes = (window * vectors * lanes + rows * read) * sum.type.bytes();
    const int64_t first = cache_bytes(machine, "L1", 32 << 10), second = cache_bytes(machine, "L2", 512 << 10);
    // If results are revisited in L2 (NHWC, or tiles of a pool), operands may take half of it;
    // otherwise an eighth.
    const int64_t share = r.nhwc || p.pool_rows > 0 ? 2 : 8;
    // Weights of wide tiles are used for fewer pixels at a time, and may come from L2.
    const int64_t near = vectors > 2 ? 2 * first : first;
    const int64_t most = window == 1 ? near / (vectors * lanes * sum.type.bytes())
                                     : std::max<int64_t>(16, (skips ? first * 5 / 8 : second / share) / bytes);
    const int64_t unit = channels.empty() ? 1 : unit_of_depth(op, r, ways, machine);
    const int64_t steps = std::lcm(int64_t(4), unit);
    int64_t depth = std::min(all, balanced_block(all, most, steps));
    // Prefers whole blocks, whose weights are contiguous, if they are not much smaller.
    const int64_t whole = all % steps ? 0 : steps * largest_divisor(all / steps, most / steps);
    if (r.nhwc && depth < all && whole >= most / 2 && whole > 0) depth = whole;
    std::vector<int64_t> depths = Tile::sizes(all, std::min<int64_t>(all, 16), all);
    std::erase_if(depths, [&](int64_t d) { return d % unit != 0 || d >= all; });
    depths.insert(depths.end(), {depth, all});
    std::sort(depths.begin(), depths.end());
    depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
    p.depth = Tile(depth, depths);
    p.outer = Choice("filters", {"filters", "rows"});
    // A window that skips elements would load the skipped ones for each vector of filters too.
    // Images that are multiplied in another type are copied in any case.
    std::vector<std::string> images;
    // Whether all weights stay in L2.
    const bool stay = all * window * filters * way.b.bytes() <= second / 2;
    const bool tiles_in_place = reads_tiles_in_place(r) || (stay && fills_tiles_by_rows(r, way));
    if (way.tiles() ? tiles_in_place : way.instruction.empty() || reads_groups(op, r, way)) images.push_back("direct");
    if (r.padding.empty() || narrow) images.push_back("copied");
    if (r.padding.empty() && window == 1 && follow) images.push_back("packed");
    const auto offers = [&](const char *image) {
        return std::find(images.begin(), images.end(), image) != images.end();
    };
    const bool pack = offers("packed") && !r.nhwc && (!r.dense || filters >= sharing_filters);
    const bool copy = offers("copied") && ((!r.dense && window == 1 && !r.nhwc) || p.multiply.is("widened"));
    p.image = Choice(pack ? "packed" : copy ? "copied" : images.front(), images);
    if (way.tiles()) {
        p.outer = Choice(stay ? "rows" : "filters", {"filters", "rows"});
        p.vectors = Tile::nearest(stay ? 2 : 4, up_to(4, (filters + lanes - 1) / lanes));
        p.pool_rows = Tile(0, {0});
    }
    // Weights with filters as the last axis may be read in place, which pays if few results share
    // them.
    std::vector<std::string> orders = {"copied", "ahead"};
    const bool in_place = r.nhwc && way.group == 1 && way.b == op.find_input(r.weights.tensor)->type;
    if (in_place) orders.push_back("direct");
    p.weights = Choice(in_place && pixels_of(sum, r) < fewest_results ? "direct" : "copied", orders);
    // Unrolled columns of a window share image elements if few registers hold results; with wide
    // tiles they would spill these.
    p.unroll = through_window ? Choice(columns <= 11 && !wide ? "kx" : "none", {"none", "kx"})
                              : Choice(way.group > 1 ? "none" : "channels", {"none", "channels"});
    p.parallel = Flag(pays_to_share(op, machine));
    const auto narrow_products = way.instruction.empty() ? std::nullopt : narrow_way_of(op, r, machine);
    p.narrow = narrow_products ? Flag(pixels_of(sum, r) >= fewest_results) : Flag(false, {false});
    return p;
}

} // namespace kumiko::library
