#include "schedules/library/conv.h"

#include "schedules/library/conv_pool.h"
#include "schedules/library/conv_roles.h"

namespace kumiko::library {

namespace {

// Bytes of the image that one iteration of the outside loops reads, in the sum's type.
int64_t image_of_one(const Op &op, const ConvRoles &r) {
    const Input *input = op.find_input(r.image.tensor);
    const std::vector<Axis> &axes = input ? input->axes : op.stage(r.image.tensor).axes;
    int64_t bytes = r.contraction.sum->type.bytes();
    for (size_t d = 0; d < axes.size(); d++) {
        const auto *v = r.image.indices[d].as<Halide::Internal::Variable>();
        const bool outside = v && std::find(r.outside.begin(), r.outside.end(), v->name) != r.outside.end();
        if (!outside) bytes *= constant_extent(axes[d]).value_or(64);
    }
    return bytes;
}

int64_t weight_bytes(const ConvRoles &r) {
    int64_t bytes = r.contraction.sum->type.bytes();
    for (const std::string &a : r.weights.axes) bytes *= extent_of(*r.contraction.sum, a, 64);
    return bytes;
}

} // namespace

bool is_conv(const Op &op) { return conv_roles(op).has_value(); }

ConvParameters conv_parameters(const Op &op, const Machine &machine) {
    const ConvRoles r = *conv_roles(op);
    const Stage &sum = *r.contraction.sum;
    const int lanes = vector_lanes(machine, sum.type), registers = accumulator_registers(machine);
    const int64_t rows = extent_of(sum, r.row, 64);
    const int64_t run = r.fusable ? rows * extent_of(sum, r.vector, 64) : extent_of(sum, r.vector, 64);
    const int64_t channels = r.other.empty() ? 1 : extent_of(sum, r.other, 64);
    const int64_t needed = std::max<int64_t>(1, (run + lanes - 1) / lanes);

    // Vectors: as few wasted lanes as possible, two or three if registers allow. The other
    // registers go to channels, or to rows if there are no channels to tile.
    const bool wide = has_wide_tiles(machine); // four vectors share a weight
    int64_t vectors = std::min<int64_t>(needed, wide ? 4 : 2);
    if (needed % vectors && needed % 3 == 0 && registers / 3 >= 3) vectors = 3;
    if (needed == 1 || r.other.empty()) vectors = 1; // without channels, rows share the window
    ConvParameters p;
    p.vectors = Tile::nearest(vectors, up_to(4, needed));
    int64_t tile_rows = 1,
            tile_channels = std::min(channels, (wide && vectors > 2 ? wide_tile_registers : registers) / vectors);
    if (r.other.empty()) {
        tile_rows = balanced_block(rows, std::min(14, registers + 2), 1);
        // one vector holds an image row: two rows share weights
    } else if (needed == 1 && !r.row.empty()) {
        tile_rows = std::min<int64_t>(rows, 2);
        tile_channels = std::min(channels, registers / tile_rows);
    }
    p.channels = Tile::nearest(tile_channels, up_to(16, channels));
    p.image_rows = Tile::nearest(r.fusable ? 1 : tile_rows, r.fusable ? std::vector<int64_t>{1} : up_to(14, rows));
    const int64_t weights = weight_bytes(r);
    const int64_t second = cache_bytes(machine, "L2", 512 << 10);
    // An image that stays in L2 beside the results is reread by each tile of channels, whose
    // results are stored in long runs.
    const bool by_channels = weights > second / 2 || (wide && 5 * image_of_one(op, r) <= 4 * second);
    p.outer =
        r.other.empty() ? Choice("rows", {"rows"}) : Choice(by_channels ? "channels" : "rows", {"rows", "channels"});
    // A mask is cheap for dense loads and expensive for strided ones.
    p.pad = r.padding.empty() ? Choice("inline", {"inline"})
            : r.other.empty() ? Choice(r.dense ? "inline" : "channel", {"channel", "whole", "inline"})
                              : Choice("whole", {"whole", "inline"});
    const bool packable = !r.other.empty() && !r.nhwc && r.weights_padding.empty();
    p.pack_weights = packable ? Flag(weights <= second / 2) : Flag(false, {false});
    if (r.fusable)
        p.unroll = Choice("channels", {"none", "channels"});
    else
        p.unroll = Choice(r.other.empty() ? "ky kx" : "kx", {"none", "kx", "ky kx"});
    p.parallel = Flag(pays_to_share(op, machine));
    return p;
}

namespace {

// Unrolls the axes of the window that p.unroll names, if they are short.
void unroll_window(StageHandle Y, const ConvRoles &r, const ConvParameters &p) {
    constexpr int64_t max_unrolled = 11; // columns or rows of a window
    const auto small = [&](const std::string &axis) { return extent_of(*r.contraction.sum, axis, 64) <= max_unrolled; };
    // The window's rows and columns, wherever the channels are among the reduction axes.
    std::vector<std::string> window;
    std::copy_if(r.window.begin(), r.window.end(), std::back_inserter(window),
                 [&](const std::string &w) { return w != channels_of(r); });
    const std::string kx = window.empty() ? r.window.back() : window.back();
    const std::string ky = r.row.empty() || window.size() < 2 ? "" : window[window.size() - 2];
    if (!p.unroll.is("none") && small(kx) && !r.nhwc) Y.unroll(kx);
    if (p.unroll.is("ky kx") && !ky.empty() && small(ky) && !r.nhwc) Y.unroll(ky);
}

// Stages that store a padded image or padded weights. `image`: the loop over images and groups of
// channels.
void schedule_paddings(Schedule &s, const ConvRoles &r, const ConvParameters &p, const LoopName &image, int lanes) {
    if (!r.weights_padding.empty()) {
        StageHandle W = s.stage(r.weights_padding);
        W.compute_root();
        if (lanes > 1 && r.nhwc) W.vectorize(W.state().def.axes.back().name(), lanes);
    }
    if (!r.padding.empty() && !p.pad.is("inline")) {
        StageHandle X = s.stage(r.padding);
        const std::vector<Axis> axes = X.state().def.axes;
        const LoopName last = axes.back().name();
        if (p.pad.is("whole")) {
            X.compute_root();
            if (p.parallel && axes.size() > 2) {
                for (size_t d = 0; d + 2 < axes.size(); d++) {
                    const auto e = Halide::Internal::as_const_int(axes[d].extent());
                    if (!e || *e > 1) {
                        X.parallel(axes[d].name());
                        break;
                    }
                }
            }
        } else {
            X.compute_at(r.contraction.sum->name, image);
        }
        if (lanes > 1) X.vectorize(last, lanes);
    }
}

// Packs the weights in blocks of the channels of a tile, inside of the outermost loops that they do
// not depend on.
void pack_weights(Schedule &s, const ConvRoles &r, const ConvParameters &p, const std::vector<LoopName> &outside) {
    std::string at = outside.empty() ? "" : outside.front().name;
    for (const LoopName &l : outside) {
        if (r.weights.axes.count(l.name)) at = l.name;
    }
    if (at.empty()) return;
    const std::string weights = tensor_by_axes(s, r.contraction.sum->name, r.weights);
    StageHandle W = s.place_in(weights, "L2", r.contraction.sum->name, at);
    std::vector<std::string> layout;
    const std::string block = std::to_string(p.channels.value());
    for (const Axis &a : W.state().def.axes) {
        if (a.name() == r.other)
            layout.insert(layout.begin(), r.other + "/" + block);
        else
            layout.push_back(a.name());
    }
    layout.push_back(r.other + "%" + block);
    W.layout(layout);
}

// A stage that reads the results but is not their epilogue.
void schedule_reader(StageHandle R, const ConvParameters &p, int lanes, int64_t threads) {
    const std::vector<std::string> loops = R.state().order;
    if (p.parallel) distribute_over_cores(R, {loops.begin(), loops.end() - 1}, threads);
    if (lanes > 1) R.vectorize(loops.back(), lanes);
}

} // namespace

Schedule schedule_conv(const Op &op, const Machine &machine, const ConvParameters &p) {
    const ConvRoles r = *conv_roles(op);
    const Contraction &c = r.contraction;
    const int lanes = vector_lanes(machine, c.sum->type);
    Schedule s(op, machine);
    StageHandle Y = s.stage(c.sum->name);

    std::vector<LoopName> outside(r.outside.begin(), r.outside.end()), inside;
    std::vector<LoopName> tiles; // loops over tiles, outermost first
    LoopName run = r.vector;
    LoopName row_tiles = "", other_tiles = "", row_in = "", other_in = "";
    if (r.fusable) {
        if (Y.state().position(r.vector) != Y.state().position(r.row) + 1)
            throw InternalError("rows and columns are not adjacent");
        run = Y.fuse(r.row, r.vector, r.row + r.vector);
    } else if (!r.row.empty()) {
        auto [o, i] = Y.split(r.row, p.image_rows);
        row_tiles = o, row_in = i;
    }
    auto [run_tiles, run_in] = Y.split(run, p.vectors * lanes);
    if (!r.other.empty()) {
        auto [o, i] = Y.split(r.other, p.channels);
        other_tiles = o, other_in = i;
    }
    if (p.outer.is("channels")) tiles.push_back(other_tiles);
    if (!row_tiles.name.empty()) tiles.push_back(row_tiles);
    tiles.push_back(run_tiles);
    if (p.outer.is("rows") && !other_tiles.name.empty()) tiles.push_back(other_tiles);
    std::vector<LoopName> order = outside;
    order.insert(order.end(), tiles.begin(), tiles.end());
    const LoopName innermost_tile = order.back();
    const std::string channels = channels_of(r);
    LoopName channel = channels, copies = "";
    if (p.unroll.is("channels") && !channels.empty()) std::tie(channel, copies) = Y.split(channels, 4);
    for (const std::string &w : r.window) order.push_back(w == channels ? channel : LoopName(w));
    if (!copies.name.empty()) order.push_back(copies);
    if (!other_in.name.empty()) order.push_back(other_in);
    if (!row_in.name.empty()) order.push_back(row_in);
    order.push_back(run_in);
    Y.reorder(order);
    if (!copies.name.empty()) Y.unroll(copies);
    if (!other_in.name.empty()) Y.unroll(other_in);
    if (!row_in.name.empty()) Y.unroll(row_in);
    unroll_window(Y, r, p);
    if (lanes > 1) Y.vectorize(run_in, lanes);

    if (p.parallel) distribute_over_cores(Y, order, threads_of(machine));

    schedule_paddings(s, r, p, outside.empty() ? LoopName("") : outside.back(), lanes);
    if (p.pack_weights) pack_weights(s, r, p, outside);
    s.accumulate_in(Y.name(), "registers", innermost_tile);
    if (!c.consumer.empty()) Y.finish_in(c.consumer);
    schedule_pool(s, c, p.parallel);
    if (!c.reader.empty()) schedule_reader(s.stage(c.reader), p, lanes, threads_of(machine));
    return s;
}

} // namespace kumiko::library
