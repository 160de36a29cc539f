#include "schedules/library/conv_filters.h"

#include "machine/machine.h"
#include "schedules/library/conv_roles.h"

namespace kumiko::library {

namespace {

constexpr int64_t fewest_filters = 8, fewest_results = 100, fewest_steps = 32;

std::optional<ConvRoles> roles(const Op &op) {
    auto r = conv_roles(op);
    if (!r || r->nhwc || r->other.empty() || r->fusable || !r->weights_padding.empty()) return std::nullopt;
    if (!r->contraction.reader.empty() || !op.find_input(r->weights.tensor)) return std::nullopt;
    const Stage &sum = *r->contraction.sum;
    if (extent_of(sum, r->other, 0) < fewest_filters) return std::nullopt;
    int64_t steps = 1; // short sums do not pay for results that go to their planes one by one
    for (const Axis &a : sum.reduction_axes) steps *= constant_extent(a).value_or(fewest_steps);
    if (steps < fewest_steps) return std::nullopt;
    // Where few results share the weights, bringing those into order costs more than vectors of pixels waste.
    int64_t results = 1;
    for (const Axis &a : sum.axes) {
        if (!r->weights.axes.count(a.name())) results *= constant_extent(a).value_or(fewest_results);
    }
    if (r->dense && results < fewest_results) return std::nullopt;
    return r;
}

struct Run {
    int64_t pixels = 1;
    double time = INFINITY; // of all results, in steps of the reduction of one vector each
};

// The run of neighbouring results that computes a row in the least time: a tile of few takes as long as one of as many as hide
// the additions' latency.
Run best_run(int64_t row, int64_t most, int64_t vectors) {
    constexpr int64_t in_flight = 8; // additions that one core keeps going
    const double least = double(in_flight) / double(vectors);
    const auto of_tile = [&](int64_t n) { return std::max<double>(double(n), least) + 0.5; };
    Run best;
    for (int64_t n = 1; n <= most; n++) {
        const double time = double(row / n) * of_tile(n) + (row % n ? of_tile(row % n) : 0);
        if (time <= best.time) best = {n, time};
    }
    return best;
}

// The nearest cache of which so many bytes leave half free; the memory where none has that room.
std::string smallest_level(const Machine &machine, int64_t bytes) {
    for (const char *cache : {"L2", "L3"}) {
        if (machine.find_level(cache) && 2 * bytes <= cache_bytes(machine, cache, 0)) return cache;
    }
    return machine.memory.back().name;
}

// Of one image's elements that the window reads, as many as there may be.
int64_t image_bytes(const ConvRoles &r, const Stage &sum) {
    int64_t bytes = sum.type.bytes();
    for (const std::string &a : r.image.axes) {
        if (std::find(r.outside.begin(), r.outside.end(), a) == r.outside.end()) bytes *= extent_of(sum, a, 64);
    }
    return bytes;
}

// Filters become neighbours: blocks of as many filters as a vector has lanes and as many of their weights, which lie in one run before
// and after, are transposed in registers.
void transpose_weights(StageHandle W, const ConvRoles &r, int lanes) {
    std::vector<LoopName> order;
    LoopName run = "";
    const std::vector<Axis> axes = W.state().def.axes;
    for (const Axis &a : axes) {
        if (a.name() == r.other) continue;
        if (std::find(r.window.begin(), r.window.end(), a.name()) == r.window.end())
            order.push_back(a.name());
        else
            run = run.name.empty() ? LoopName(a.name()) : LoopName(W.fuse(run, a.name(), run.name + a.name()));
    }
    if (lanes == 1 || run.name.empty()) return;
    auto [fo, fi] = W.split(r.other, lanes);
    auto [ro, ri] = W.split(run, lanes);
    order.insert(order.end(), {fo, ro, ri, fi});
    W.reorder(order).unroll(ri).vectorize(fi);
}

const std::string &window_axis(const ConvRoles &r, size_t from_last) {
    return r.window[r.window.size() - 1 - from_last];
}

} // namespace

bool is_conv_by_filters(const Op &op) { return roles(op).has_value(); }

ConvFiltersParameters conv_filters_parameters(const Op &op, const Machine &machine) {
    const ConvRoles r = *roles(op);
    const Stage &sum = *r.contraction.sum;
    const int lanes = vector_lanes(machine, sum.type), registers = accumulator_registers(machine);
    const int64_t filters = extent_of(sum, r.other, 64), row = extent_of(sum, r.vector, 64);
    const int64_t vectors = std::min<int64_t>(2, std::max<int64_t>(1, filters / lanes));
    ConvFiltersParameters p;
    p.vectors = Tile::nearest(vectors, up_to(4, (filters + lanes - 1) / lanes));
    const bool rows_follow = !r.row.empty() && sum.axes[sum.axes.size() - 2].name() == r.row;
    // Runs that go on in the next row waste less, but each result of a tile has an address of its own.
    const int64_t tile = registers / vectors, height = extent_of(sum, r.row, 64);
    const Run in_row = best_run(row, std::min(row, tile), vectors), through = best_run(row * height, tile, vectors);
    const bool on = rows_follow && 1.1 * through.time < in_row.time * double(height);
    p.through_rows = rows_follow ? Flag(on) : Flag(false, {false});
    p.pixels = Tile::nearest(on ? through.pixels : in_row.pixels, up_to(16, row * height));
    // The weights of a tile, and the rows of the image that it reads, are met again at the next run of pixels, and stay in the
    // second cache till then.
    const std::string channels = channels_of(r);
    const int64_t all = channels.empty() ? 1 : extent_of(sum, channels, 64);
    int64_t window = 1, rows = 1;
    for (const std::string &w : r.window) {
        if (w == channels) continue;
        window *= extent_of(sum, w, 1);
        rows = std::max(rows, extent_of(sum, w, 1));
    }
    const int64_t bytes = (window * vectors * lanes + rows * row) * sum.type.bytes();
    const int64_t most = std::max<int64_t>(16, cache_bytes(machine, "L2", 512 << 10) / 4 / bytes);
    std::vector<int64_t> depths = Tile::sizes(all, std::min<int64_t>(all, 16), all);
    const int64_t depth = even_block(all, most, std::min<int64_t>(all, 4));
    p.depth = Tile::nearest(depth >= all ? all : depth, depths);
    p.outer = Choice("filters", {"filters", "rows"});
    // A window that skips elements of the image would bring lines of them into the caches for each vector of filters.
    const bool copyable = r.padding.empty() && !r.outside.empty();
    p.copy_image = copyable ? Flag(!r.dense && window == 1) : Flag(false, {false});
    p.weights = Choice("copied", {"copied", "ahead"});
    p.unroll = extent_of(sum, window_axis(r, 0), 64) > 1
                   ? Choice(extent_of(sum, window_axis(r, 0), 64) <= 11 ? "kx" : "none", {"none", "kx"})
                   : Choice("channels", {"none", "channels"});
    p.parallel = Flag(threads_of(machine) > 1);
    return p;
}

Schedule schedule_conv_filters(const Op &op, const Machine &machine, const ConvFiltersParameters &p) {
    const ConvRoles r = *roles(op);
    const Stage &sum = *r.contraction.sum;
    const int lanes = vector_lanes(machine, sum.type);
    Schedule s(op, machine);
    StageHandle Y = s.stage(sum.name);
    const int64_t wide = p.vectors * lanes;
    auto [filters, filter] = Y.split(r.other, wide);
    LoopName run = r.vector;
    if (p.through_rows) run = Y.fuse(r.row, r.vector, r.row + r.vector);
    auto [runs, pixel] = Y.split(run, p.pixels);
    std::vector<LoopName> order(r.outside.begin(), r.outside.end());
    if (p.outer.is("filters")) order.push_back(filters);
    const std::string channels = channels_of(r);
    LoopName channel = channels, copies = "";
    if (!channels.empty() && p.depth < extent_of(sum, channels, 64)) {
        auto [o, i] = Y.split(channels, p.depth);
        order.push_back(o);
        channel = i;
    }
    if (!r.row.empty() && !p.through_rows) order.push_back(r.row);
    if (p.outer.is("rows")) order.push_back(filters);
    order.push_back(runs);
    if (p.unroll.is("channels") && !channels.empty()) std::tie(channel, copies) = Y.split(channel, 4);
    for (const std::string &w : r.window) order.push_back(w == channels ? channel : LoopName(w));
    if (!copies.name.empty()) order.push_back(copies);
    order.insert(order.end(), {pixel, filter});
    Y.reorder(order).unroll(pixel);
    if (!copies.name.empty()) Y.unroll(copies);
    if (p.unroll.is("kx")) Y.unroll(window_axis(r, 0));
    if (lanes > 1) Y.vectorize(filter, lanes);
    if (p.parallel) share_out(Y, order, threads_of(machine));
    if (!r.padding.empty()) {
        StageHandle X = s.stage(r.padding);
        X.compute_root();
        const std::vector<Axis> axes = X.state().def.axes;
        if (p.parallel) share_out(X, {axes[0].name(), axes[1].name()}, threads_of(machine));
        if (lanes > 1) X.vectorize(axes.back().name(), lanes);
    }
    if (p.copy_image) {
        StageHandle X =
            s.place_in(r.image.tensor, smallest_level(machine, image_bytes(r, sum)), Y.name(), r.outside.back());
        if (lanes > 1) X.vectorize(X.state().def.axes.back().name(), lanes);
    }
    const std::string block = std::to_string(wide);
    std::vector<std::string> layout;
    int64_t bytes = sum.type.bytes();
    for (const Axis &a : s.state().axes_of(r.weights.tensor)) {
        bytes *= constant_extent(a).value_or(64);
        if (a.name() == r.other)
            layout.push_back(r.other + "/" + block);
        else
            layout.push_back(a.name());
    }
    layout.push_back(r.other + "%" + block);
    if (p.weights.is("ahead")) {
        s.prepack(r.weights.tensor, layout);
    } else if (!r.outside.empty()) { // once, outside of all that reads other weights
        std::string at = r.outside.front();
        for (const std::string &l : r.outside) {
            if (r.weights.axes.count(l)) at = l;
        }
        StageHandle W = s.place_in(r.weights.tensor, smallest_level(machine, bytes), Y.name(), at);
        W.layout(layout);
        transpose_weights(W, r, lanes);
    }
    s.accumulate_in(Y.name(), "registers", runs);
    if (!r.contraction.consumer.empty()) Y.finish_in(r.contraction.consumer);
    return s;
}

} // namespace kumiko::library
