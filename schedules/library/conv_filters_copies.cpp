#include "schedules/library/conv_filters_copies.h"

#include "machine/machine.h"
#include "schedules/traits.h"

namespace kumiko::library {

namespace {

Type type_of(const Schedule &s, const std::string &tensor) { return s.state().type_of(tensor); }

// Stores the channel steps that an instruction takes at once side by side, as the innermost term.
std::vector<std::string> with_steps(std::vector<std::string> terms, const std::string &channels, int group) {
    if (group == 1) return terms;
    for (std::string &t : terms) {
        if (t == channels) t += "/" + std::to_string(group);
    }
    terms.push_back(channels + "%" + std::to_string(group));
    return terms;
}

// Vectorizes along `last`; the steps of a group are interleaved as they are stored.
void in_lanes(StageHandle X, std::vector<LoopName> order, const std::string &channels, const LoopName &last, int group,
              int lanes) {
    if (group > 1) {
        auto [o, i] = X.split(channels, group);
        for (LoopName &l : order) {
            if (l.name == channels) l = o;
        }
        if (lanes > 1) {
            auto [v, l] = X.split(last, lanes);
            order.back() = v;
            order.insert(order.end(), {i, l});
            X.reorder(order).unroll(i).vectorize(l);
        } else {
            order.push_back(i);
            X.reorder(order);
        }
        return;
    }
    X.reorder(order);
    if (lanes > 1) X.vectorize(last, lanes);
}

// Bytes of one image's elements that the windows read, at most.
int64_t image_bytes(const ConvRoles &r, const Stage &sum) {
    int64_t bytes = sum.type.bytes();
    for (const std::string &a : r.image.axes) {
        if (std::find(r.outside.begin(), r.outside.end(), a) == r.outside.end()) bytes *= extent_of(sum, a, 64);
    }
    return bytes;
}

// Copies weights for an instruction that takes several channels at once. A contiguous run of each
// filter, some channels with their whole window, becomes interleaved vectors of filters.
void interleave_weights(StageHandle W, const ConvRoles &r, const Product &product) {
    // elements of a filter that are transposed at once, about
    constexpr int64_t run = 16, largest = 40;
    const std::string channels = channels_of(r);
    int64_t window = product.group;
    for (const std::string &w : r.window) window *= w == channels ? 1 : extent_of(*r.contraction.sum, w, largest);
    auto [steps, step] = W.split(channels, product.group);
    auto [vectors, lane] = W.split(r.other, product.lanes);
    std::vector<LoopName> order, unrolled;
    for (const Axis &a : W.state().def.axes) {
        const bool inside = std::find(r.window.begin(), r.window.end(), a.name()) != r.window.end();
        if (a.name() != r.other && !inside) order.push_back(a.name());
    }
    order.insert(order.end(), {vectors, steps});
    if (window < run) {
        auto [blocks, block] = W.split(steps, run / window);
        order.back() = blocks;
        unrolled.push_back(block);
    }
    for (const std::string &w : r.window) {
        if (w != channels) unrolled.push_back(w);
    }
    unrolled.push_back(step);
    order.insert(order.end(), unrolled.begin(), unrolled.end());
    order.push_back(lane);
    W.reorder(order);
    if (window <= largest) {
        for (const LoopName &l : unrolled) W.unroll(l);
    }
    if (product.lanes > 1) W.vectorize(lane);
}

// Copies whole vectors of filters, which are contiguous already. The channels that an instruction
// takes at once are interleaved.
void copy_filters_last(StageHandle W, const FiltersPlan &plan, int lanes) {
    const ConvRoles &r = plan.r;
    std::vector<LoopName> order;
    for (const Axis &a : W.state().def.axes) {
        if (a.name() != r.other) order.push_back(a.name());
    }
    order.push_back(r.other);
    in_lanes(W, order, plan.grouped, r.other, plan.product.group, lanes);
}

void share_loops(StageHandle X, int64_t threads) {
    const std::vector<std::string> loops = X.state().order;
    distribute_over_cores(X, {loops.begin(), loops.end()}, threads);
}

// The image's axis of channels, if it is an index of its own; else "".
std::string image_channels(const ConvRoles &r, const std::vector<Axis> &axes) {
    for (size_t d = 0; d < axes.size(); d++) {
        const auto *v = r.image.indices[d].as<Halide::Internal::Variable>();
        if (v && v->name == channels_of(r)) return axes[d].name();
    }
    return "";
}

// Makes filters contiguous. Blocks of as many filters as a vector has lanes, and as many of their
// weights, contiguous before and after, are transposed in registers.
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

// Copies a tensor in the innermost loop outside of the tiles, or whole at the root if there is
// none.
StageHandle copy_outside(Schedule &s, const std::string &tensor, int64_t bytes, const StageHandle &Y,
                         const ConvRoles &r) {
    const std::string at = r.outside.empty() ? Y.state().order.front() : r.outside.back();
    StageHandle X = s.place_in(tensor, smallest_level(s.machine(), bytes), Y.name(), at);
    if (r.outside.empty()) X.compute_root();
    return X;
}

// Copies the elements of an image that are read, in one run per tile of pixels.
void pack_image(Schedule &s, StageHandle Y, const FiltersPlan &plan) {
    const ConvRoles &r = plan.r;
    const ConvFiltersParameters &p = plan.p;
    const Stage &sum = plan.sum();
    int64_t bytes = sum.type.bytes();
    for (const std::string &a : {channels_of(r), r.row, r.vector}) bytes *= a.empty() ? 1 : extent_of(sum, a, 64);
    std::vector<std::string> groups = axes_in(r.image, r.outside);
    std::vector<std::string> layout = groups;
    std::string window;
    for (const std::string &w : r.window) window += (window.empty() ? "" : " ") + w;
    groups.insert(groups.end(), {window, r.row + " " + r.vector});
    const StageHandle by = s.reindex(r.image.tensor, Y.name(), groups);
    StageHandle X = copy_outside(s, by.name(), bytes, Y, r);
    const std::vector<Axis> axes = X.state().def.axes;
    const std::string step = axes[axes.size() - 2].name(), pixel = axes.back().name(), run = std::to_string(p.pixels);
    layout.insert(layout.end(), {pixel + "/" + run, step, pixel + "%" + run});
    X.layout(with_steps(layout, step, plan.product.group));
    if (plan.product.a != type_of(s, r.image.tensor)) X.hold_as(type_name(plan.product.a));
    auto [tiles, one] = X.split(pixel, p.pixels);
    std::vector<LoopName> order;
    for (size_t d = 0; d + 2 < axes.size(); d++) order.push_back(axes[d].name());
    order.insert(order.end(), {tiles, step, one});
    in_lanes(X, order, step, one, plan.product.group, static_cast<int>(p.pixels));
    if (p.parallel) share_loops(X, threads_of(s.machine()));
}

// Copies the elements of an image that are read, in the order of the image.
void gather_image(Schedule &s, StageHandle Y, const FiltersPlan &plan) {
    const ConvRoles &r = plan.r;
    StageHandle X = copy_outside(s, r.image.tensor, image_bytes(r, plan.sum()), Y, r);
    if (plan.product.a != type_of(s, r.image.tensor)) X.hold_as(type_name(plan.product.a));
    std::vector<std::string> terms;
    std::vector<LoopName> order;
    for (const Axis &a : X.state().def.axes) terms.push_back(a.name()), order.push_back(a.name());
    const std::string channels = image_channels(r, s.state().axes_of(r.image.tensor));
    const bool interleaved = plan.product.group > 1 && plan.grouped == channels_of(r);
    if (interleaved) X.layout(with_steps(terms, channels, plan.product.group));
    // The last axis is contiguous already.
    const int steps = !interleaved || order.back().name == channels ? 1 : plan.product.group;
    in_lanes(X, order, channels, order.back(), steps, vector_lanes(s.machine(), plan.sum().type));
    if (plan.p.parallel) share_loops(X, threads_of(s.machine()));
}

} // namespace

void copy_image(Schedule &s, StageHandle Y, const FiltersPlan &plan) {
    if (plan.p.image.is("packed"))
        pack_image(s, Y, plan);
    else if (plan.p.image.is("copied"))
        gather_image(s, Y, plan);
}

namespace {

// The storage order of weights: neighbouring filters side by side, and the steps that the product
// takes at once.
std::vector<std::string> weights_layout(const Schedule &s, const FiltersPlan &plan, const Product &product) {
    const ConvRoles &r = plan.r;
    const std::string side_by_side = std::to_string(plan.p.vectors * product.lanes);
    std::vector<std::string> layout;
    for (const Axis &a : s.state().axes_of(r.weights.tensor)) {
        if (a.name() != r.other)
            layout.push_back(a.name());
        else
            layout.insert(r.nhwc ? layout.begin() : layout.end(), r.other + "/" + side_by_side);
    }
    layout.push_back(r.other + "%" + side_by_side);
    // Weights read between two visits to the results are contiguous if the blocks of channels have
    // equal size.
    const std::string channels = channels_of(r);
    const int64_t all = channels.empty() ? 0 : constant_extent(*find_axis(plan.sum(), channels)).value_or(0);
    if (r.nhwc && product.group == 1 && plan.p.depth < all && all % plan.p.depth == 0) {
        const std::string depth = std::to_string(plan.p.depth);
        std::replace(layout.begin(), layout.end(), channels, channels + "%" + depth);
        layout.insert(layout.begin() + 1, channels + "/" + depth);
    }
    return with_steps(layout, plan.grouped, product.group);
}

} // namespace

void copy_weights(Schedule &s, StageHandle Y, const FiltersPlan &plan) {
    const ConvRoles &r = plan.r;
    if (plan.p.weights.is("direct")) return;
    const Type own = type_of(s, r.weights.tensor);
    const bool ahead = plan.p.weights.is("ahead");
    std::string from = r.weights.tensor;
    if (ahead) {
        const StageState *made = s.state().find(from);
        const bool computed = made && !is_view(s.state(), *made); // keeps its type
        if (made) s.stage(from).compute_root();
        StageHandle W = s.prepack(from, weights_layout(s, plan, plan.ahead));
        from = W.name();
        if (plan.ahead.b != own && !computed) W.hold_as(type_name(plan.ahead.b));
        if (plan.ahead.group == plan.product.group && plan.ahead.lanes == plan.product.lanes &&
            s.state().type_of(from) == plan.product.b)
            return;
    }
    int64_t bytes = plan.product.b.bytes();
    for (const Axis &a : s.state().axes_of(from)) {
        const int64_t block = a.name() == r.other ? plan.wide : a.name() == channels_of(r) ? plan.p.depth.value() : 1;
        bytes *= (constant_extent(a).value_or(64) + block - 1) / block * block;
    }
    // One copy, at the outermost loop whose iterations all read the same weights.
    std::string at = r.outside.empty() ? Y.state().order.front() : r.outside.front();
    for (const std::string &l : r.outside) {
        if (r.weights.axes.count(l)) at = l;
    }
    StageHandle W = s.place_in(from, smallest_level(s.machine(), bytes), Y.name(), at);
    if (r.outside.empty()) W.compute_root();
    if (plan.product.b != s.state().type_of(from)) W.hold_as(type_name(plan.product.b));
    W.layout(weights_layout(s, plan, plan.product));
    if (r.nhwc || ahead || plan.grouped != channels_of(r))
        copy_filters_last(W, plan, vector_lanes(s.machine(), plan.sum().type));
    else if (plan.product.group == 1)
        transpose_weights(W, r, vector_lanes(s.machine(), plan.sum().type));
    else
        interleave_weights(W, r, plan.product);
}

void sum_weights(Schedule &s, const std::string &name, const FiltersPlan &plan) {
    const ConvRoles &r = plan.r;
    const Product &by = plan.product;
    StageHandle W = s.stage(name);
    const int lanes = vector_lanes(s.machine(), plan.sum().type);
    std::vector<LoopName> order;
    for (const Axis &a : W.state().def.axes) {
        if (a.name() != r.other) order.push_back(a.name());
    }
    if (plan.p.weights.is("ahead") && by.group > 1) { // by the same instruction, in packed order
        auto [filters, filter] = W.split(r.other, plan.wide);
        auto [vectors, lane] = W.split(filter, by.lanes);
        auto [steps, step] = W.split(plan.grouped, by.group);
        order.push_back(filters);
        for (const Axis &a : W.state().def.reduction_axes)
            order.push_back(a.name() == plan.grouped ? steps : LoopName(a.name()));
        order.insert(order.end(), {vectors, lane, step});
        W.reorder(order).unroll(vectors).accumulate_in("registers", filters).tensorize(lane, by.instruction);
    } else if (r.nhwc) {
        for (const Axis &a : W.state().def.reduction_axes) order.push_back(a.name());
        order.push_back(r.other);
        W.reorder(order);
        if (lanes > 1) W.vectorize(r.other, lanes);
    } else {
        reduce_row(s, name, lanes, 4);
    }
}

} // namespace kumiko::library
