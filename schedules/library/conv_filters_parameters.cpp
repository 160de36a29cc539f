#include "dsl/reads.h"
#include "machine/machine.h"
#include "schedules/library/conv_filters_plan.h"
#include "schedules/library/conv_pool.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kumiko::library {

namespace {

constexpr int64_t min_filters = 8, min_results = 40, min_steps = 32;
constexpr int64_t max_pixels = 256, long_sum = 64; // for windows of one element
constexpr int64_t sharing_filters = 128;           // that pay for reordering an image

// Whether operands are of a type narrower than the sum's.
bool is_narrow(const Op &op, const ConvRoles &r) {
    return op.find_input(r.weights.tensor)->type != r.contraction.sum->type;
}

// The number of results that share the weights of a filter.
int64_t pixels_of(const Stage &sum, const ConvRoles &r) {
    int64_t results = 1;
    for (const Axis &a : sum.axes) {
        if (!r.weights.axes.count(a.name())) results *= constant_extent(a).value_or(min_results);
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
    if (extent_of(sum, r->other, 0) < min_filters) return false;
    if (r->nhwc) return true; // results are stored in vectors of filters, as computed
    int64_t steps = 1;        // short sums do not pay for the transposition of results
    for (const Axis &a : sum.reduction_axes) steps *= constant_extent(a).value_or(min_steps);
    const bool cheap =
        // either the transposition, or relative to the alternatives
        !r->dense || is_narrow(op, *r) || pays_to_pool_by_tiles(op, *r);
    if (steps < (cheap ? min_steps / 2 : min_steps)) return false;
    // If few results share the weights, packing these costs more than vectors of pixels waste.
    const int64_t results = pixels_of(sum, *r);
    if (is_narrow(op, *r)) return true; // copies are made anyway, in any order
    // If few pixels share long sums, vectors along pixels would be cut at the end of each channel.
    if (r->fusable) return results <= max_pixels && steps >= long_sum;
    return !r->dense || results >= min_results;
}

namespace {

// How many tensors the epilogue reads at the indices of the results, as a residual.
int operands_of_results(const Op &op, const ConvRoles &r) {
    if (r.contraction.consumer.empty()) return 0;
    int operands = 0;
    for (const Expr &e : op.stage(r.contraction.consumer).expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            const auto uses = [&](const std::string &axis) {
                return std::any_of(read->args.begin(), read->args.end(),
                                   [&](const Expr &i) { return Halide::Internal::expr_uses_var(i, axis); });
            };
            operands += read->name != r.contraction.sum->name && uses(r.vector) && uses(r.other);
        }
    }
    return operands;
}

} // namespace

bool prefers_vectors_of_pixels(const Op &op, const Machine &machine) {
    const ConvRoles r = *conv_filters_roles(op);
    const Stage &sum = *r.contraction.sum;
    // Instructions for narrow types have vectors of their own, and images with channels last have
    // no vectors of pixels.
    if (r.nhwc || is_narrow(op, r) || !r.contraction.pool.empty()) return false;
    const int64_t lanes = vector_lanes(machine, sum.type);
    const auto filled = [&](int64_t extent) { return double(extent) / double((extent + lanes - 1) / lanes * lanes); };
    int64_t pixels = extent_of(sum, r.vector, lanes);
    if (r.fusable) pixels *= extent_of(sum, r.row, 1);
    // Costs of a result, in products at full speed. Vectors of pixels shuffle strided loads.
    // Vectors of filters are transposed, as is each operand of the results. The numbers are fitted
    // to layers of the models of `kumiko bench models` on AVX-512.
    constexpr double strided = 0.8, transposition = 4, transposed_operand = 11, least_gain = 1.1;
    int64_t products = 1;
    for (const Axis &a : sum.reduction_axes) products *= constant_extent(a).value_or(min_steps);
    const double by_pixels = double(products) / (filled(pixels) * (r.dense ? 1 : strided));
    const double by_filters = double(products) / filled(extent_of(sum, r.other, lanes)) + transposition +
                              transposed_operand * operands_of_results(op, r);
    return by_filters >= least_gain * by_pixels;
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
bool takes_steps(const Op &op, const ConvRoles &r, const std::string &strategy, const Machine &machine) {
    const Product by = product(strategy, r.contraction, op, r.image, r.weights, machine);
    return by.tiles() ? fits_tiles(op, r, by) : by.group == 1 || !grouped_axis(r, by).empty();
}

// Whether weights can be pre-packed for a multiplication strategy. Grouped steps require constant
// extents.
bool packs_groups(const Op &op, const ConvRoles &r, const std::string &strategy, const Machine &machine) {
    const Product by = product(strategy, r.contraction, op, r.image, r.weights, machine);
    const Input *weights = op.find_input(r.weights.tensor);
    return by.group == 1 || (weights && std::all_of(weights->axes.begin(), weights->axes.end(),
                                                    [](const Axis &a) { return constant_extent(a).has_value(); }));
}

} // namespace

std::optional<NarrowStrategy> narrow_strategy_of(const Op &op, const ConvRoles &r, const Machine &machine) {
    auto strategy = narrow_strategy(r.contraction, op, r.image, r.weights, machine, true);
    if (!strategy || strategy->needs.input != r.weights.tensor || !takes_steps(op, r, strategy->instruction, machine))
        return std::nullopt;
    return strategy;
}

namespace {

// Blocks of channels are multiples of the group size of every instruction that may be used.
int64_t unit_of_depth(const Op &op, const ConvRoles &r, std::vector<std::string> strategies, const Machine &machine) {
    if (const auto narrow = narrow_strategy_of(op, r, machine)) strategies.push_back(narrow->instruction);
    int64_t unit = 1;
    for (const std::string &w : strategies) {
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

// The default parameters. choose() takes the decisions in order; each reads those before it.
class ConvFiltersDefaults {
public:
    ConvFiltersDefaults(const Op &op, const Machine &machine, PackedBy packed_by)
        : op_(op), machine_(machine), packed_by_(packed_by), r_(*conv_filters_roles(op)) {}

    ConvFiltersParameters choose() {
        choose_multiply();
        choose_tile();
        choose_depth();
        p_.outer = Choice("filters", {"filters", "rows"});
        choose_image();
        choose_weights();
        // Unrolled columns of a window share image elements if few registers hold results; with
        // wide tiles they would spill these.
        constexpr int64_t max_unrolled = 11; // columns
        p_.unroll = through_window_ ? Choice(columns_ <= max_unrolled && !wide_ ? "kx" : "none", {"none", "kx"})
                                    : Choice(product_.group > 1 ? "none" : "channels", {"none", "channels"});
        p_.parallel = Flag(pays_to_share(op_, machine_));
        const auto narrow = product_.instruction.empty() ? std::nullopt : narrow_strategy_of(op_, r_, machine_);
        p_.narrow = narrow ? Flag(pixels_of(sum_, r_) >= min_results) : Flag(false, {false});
        return p_;
    }

private:
    void choose_multiply() {
        strategies_ = multiply_strategies(r_.contraction, op_, r_.image, r_.weights, machine_, true);
        std::erase_if(strategies_, [&](const std::string &w) {
            return !takes_steps(op_, r_, w, machine_) ||
                   (packed_by_ == PackedBy::Caller && !packs_groups(op_, r_, w, machine_));
        });
        p_.multiply = Choice(strategies_.front(), strategies_);
        product_ = product(p_.multiply, r_.contraction, op_, r_.image, r_.weights, machine_);
    }

    void choose_tile() {
        const int64_t filter_vectors = (filters_ + lanes_ - 1) / lanes_;
        // An instruction's sum of products is added to the accumulator by another instruction; with
        // unrolled steps, that takes registers in between.
        through_window_ = columns_ > 1 && !r_.nhwc;
        const bool in_two = product_.group > 1 && !sum_.type.is_float();
        // a copy of every other pixel, in runs as long as the image's
        const bool gathered = !r_.dense && !through_window_;
        const int between = !in_two ? 0 : wide_ && !gathered ? 4 : through_window_ ? 2 : 0;
        vectors_ =
            std::min<int64_t>(wide_ && in_two && through_window_ ? 3 : 2, std::max<int64_t>(1, filters_ / lanes_));
        // Tiles may be as wide as high if results are stored as they are summed, or if few are.
        if (wide_ && (r_.nhwc || (!in_two && !gathered))) vectors_ = balanced_vectors(filter_vectors);
        const int registers = vectors_ > 2 ? wide_tile_registers : accumulator_registers(machine_) - between;
        p_.vectors = Tile::nearest(vectors_, up_to(4, filter_vectors));
        follow_ = rows_follow(sum_, r_);
        p_.pool_rows = follow_ ? rows_of_pool(op_, r_, machine_, vectors_ * lanes_) : Tile(0, {0});
        // Runs of results that continue in the next row waste less, and their neighbours share no
        // element that registers would have to keep.
        const int64_t tile = registers / vectors_, height = follow_ ? rows_together(op_, r_, p_.pool_rows) : 1;
        p_.through_rows = follow_ ? Flag(true) : Flag(false, {false});
        p_.pixels = Tile::nearest(best_run(row_ * height, std::min(row_ * height, tile), vectors_).pixels,
                                  up_to(16, row_ * height));
    }

    // The most channels in a block. The next run of pixels reads the weights of a tile, and its
    // rows of the image, again; until then they stay in L2.
    int64_t max_channels() const {
        int64_t rows = 1;
        for (const std::string &w : r_.window) {
            if (w != channels_) rows = std::max(rows, extent_of(sum_, w, 1));
        }
        // If a window skips elements of rows, L1 holds the weights and rows of few channels only.
        // Channels that are the last axis are read in runs, which should not be short.
        const bool skips = !r_.dense && !r_.nhwc;
        const int64_t read = skips ? 2 * row_ : row_;
        const int64_t bytes = (window_ * vectors_ * lanes_ + rows * read) * sum_.type.bytes();
        const int64_t first = cache_bytes(machine_, "L1", 32 << 10);
        // If results are revisited in L2 (NHWC, or tiles of a pool), operands may take half of it;
        // otherwise an eighth.
        const int64_t share = r_.nhwc || p_.pool_rows > 0 ? 2 : 8;
        // Weights of wide tiles are used for fewer pixels at a time, and may come from L2.
        const int64_t near = vectors_ > 2 ? 2 * first : first;
        constexpr int64_t fewest = 16; // channels that pay for another visit of the results
        return window_ == 1 ? near / (vectors_ * lanes_ * sum_.type.bytes())
                            : std::max(fewest, (skips ? first * 5 / 8 : l2_ / share) / bytes);
    }

    void choose_depth() {
        for (const std::string &w : r_.window) {
            if (w != channels_) window_ *= extent_of(sum_, w, 1);
        }
        const int64_t most = max_channels();
        const int64_t unit = channels_.empty() ? 1 : unit_of_depth(op_, r_, strategies_, machine_);
        const int64_t steps = std::lcm(int64_t(4), unit);
        int64_t depth = std::min(all_channels_, balanced_block(all_channels_, most, steps));
        // Prefers whole blocks, whose weights are contiguous, if they are not much smaller.
        const int64_t whole = all_channels_ % steps ? 0 : steps * largest_divisor(all_channels_ / steps, most / steps);
        if (r_.nhwc && depth < all_channels_ && whole >= most / 2 && whole > 0) depth = whole;
        std::vector<int64_t> depths = Tile::sizes(all_channels_, std::min<int64_t>(all_channels_, 16), all_channels_);
        std::erase_if(depths, [&](int64_t d) { return d % unit != 0 || d >= all_channels_; });
        depths.insert(depths.end(), {depth, all_channels_});
        std::sort(depths.begin(), depths.end());
        depths.erase(std::unique(depths.begin(), depths.end()), depths.end());
        p_.depth = Tile(depth, depths);
    }

    // A window that skips elements would load the skipped ones for each vector of filters too.
    // Images that are multiplied in another type are copied in any case.
    void choose_image() {
        std::vector<std::string> images;
        // Whether all weights stay in L2.
        const bool stay = all_channels_ * window_ * filters_ * product_.b.bytes() <= l2_ / 2;
        const bool tiles_in_place = reads_tiles_in_place(r_) || (stay && fills_tiles_by_rows(r_, product_));
        if (product_.tiles() ? tiles_in_place : product_.instruction.empty() || reads_groups(op_, r_, product_))
            images.push_back("direct");
        if (r_.padding.empty() || is_narrow(op_, r_)) images.push_back("copied");
        if (r_.padding.empty() && window_ == 1 && follow_) images.push_back("packed");
        const auto offers = [&](const char *image) {
            return std::find(images.begin(), images.end(), image) != images.end();
        };
        const bool pack = offers("packed") && !r_.nhwc && (!r_.dense || filters_ >= sharing_filters);
        const bool copy = offers("copied") && ((!r_.dense && window_ == 1 && !r_.nhwc) || p_.multiply.is("widened"));
        p_.image = Choice(pack ? "packed" : copy ? "copied" : images.front(), images);
        if (!product_.tiles()) return;
        p_.outer = Choice(stay ? "rows" : "filters", {"filters", "rows"});
        p_.vectors = Tile::nearest(stay ? 2 : 4, up_to(4, (filters_ + lanes_ - 1) / lanes_));
        p_.pool_rows = Tile(0, {0});
    }

    // Weights with filters as the last axis may be read in place, which pays if few results share
    // them.
    void choose_weights() {
        std::vector<std::string> orders = {"copied", "ahead"};
        const bool in_place = r_.nhwc && product_.group == 1 && product_.b == op_.find_input(r_.weights.tensor)->type;
        if (in_place) orders.push_back("direct");
        p_.weights = Choice(in_place && pixels_of(sum_, r_) < min_results ? "direct" : "copied", orders);
    }

    const Op &op_;
    const Machine &machine_;
    const PackedBy packed_by_;
    const ConvRoles r_;
    const Stage &sum_ = *r_.contraction.sum;
    static constexpr int64_t unknown = 64; // stands for an extent that only a run knows
    const int64_t filters_ = extent_of(sum_, r_.other, unknown), row_ = extent_of(sum_, r_.vector, unknown),
                  columns_ = extent_of(sum_, window_columns(r_), unknown); // of the window
    const std::string channels_ = channels_of(r_);
    const int64_t all_channels_ = channels_.empty() ? 1 : extent_of(sum_, channels_, unknown);
    const int lanes_ = vector_lanes(machine_, sum_.type);
    const bool wide_ = has_wide_tiles(machine_);
    const int64_t l2_ = cache_bytes(machine_, "L2", 512 << 10);
    ConvFiltersParameters p_;
    std::vector<std::string> strategies_; // multiplication strategies
    Product product_;                     // by the chosen one
    int64_t vectors_ = 1;                 // of a tile
    int64_t window_ = 1;                  // elements of the window in one channel
    bool through_window_ = false;         // the window's columns are steps beside the channels
    bool follow_ = false;                 // rows and columns of results are adjacent
};

} // namespace

bool is_conv_for_filters(const Op &op) { return conv_filters_roles(op).has_value(); }

ConvFiltersParameters conv_filters_parameters(const Op &op, const Machine &machine, PackedBy packed_by) {
    return ConvFiltersDefaults(op, machine, packed_by).choose();
}

} // namespace kumiko::library
