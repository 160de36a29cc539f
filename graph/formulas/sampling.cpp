// Images read at positions that are data: GridSample, deformable convolutions; and operators that
// put windows together: Col2Im, MaxUnpool.
#include "dsl/halide_passes.h"
#include "dsl/reduction.h"
#include "dsl/tuple.h"
#include "graph/formulas/positions.h"

#include <cmath>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

// f32, or f64 if one of the types is.
Type position_type(Type a, Type b) { return a == f64 || b == f64 ? f64 : f32; }

// --- GridSample and AffineGrid ---

enum class Outside { Zeros, Border, Reflection };

// The limits between which positions are reflected.
struct Limits {
    double low, high;
};

Element reflected(const Element &position, const Limits &limits) {
    const Type t = position.type();
    const Element low = number(t, limits.low), high = number(t, limits.high);
    const double span = limits.high - limits.low;
    if (span <= 0) return low;
    const Element beyond = select(position < low, low - position, position - high);
    const Element times = trunc(Element(beyond / number(t, span)));
    const Element rest = beyond - times * number(t, span);
    const Element even = times - number(t, 2) * floor(Element(times / number(t, 2))) == number(t, 0);
    const Element below = select(even, low + rest, high - rest), above = select(even, high - rest, low + rest);
    return select(position<low, below, position> high, above, position);
}

// The weights of the elements around a position whose fraction is x.
std::vector<Element> interpolation(const std::string &mode, const Element &x) {
    const Type t = x.type();
    const auto real = [t](double v) { return number(t, v); };
    const Element one = real(1);
    if (mode == "linear") return {one - x, x};
    const double a = -0.75;
    const auto near = [&](const Element &d) -> Element { return ((real(a + 2) * d - real(a + 3)) * d) * d + one; };
    const auto far = [&](const Element &d) -> Element {
        return ((real(a) * d - real(5 * a)) * d + real(8 * a)) * d - real(4 * a);
    };
    return {far(Element(x + one)), near(x), near(Element(one - x)), far(Element(real(2) - x))};
}

struct GridSample {
    View x, grid;
    std::string mode; // linear, nearest or cubic
    Outside outside;
    bool aligned; // positions −1 and 1 are the centres of border elements, not their edges
    Type type;    // of positions and weights
    size_t dims() const { return x.rank() - 2; }
    Limits limits(size_t d) const {
        const auto extent = static_cast<double>(x.extents[2 + d]);
        return aligned ? Limits{0, extent - 1} : Limits{-0.5, extent - 0.5};
    }
};

GridSample read_grid_sample(Call &c) {
    const View x = c.in(0), grid = c.in(1);
    const size_t dims = x.rank() < 3 ? 0 : x.rank() - 2;
    if (dims == 0 || grid.rank() != x.rank() || grid.extents.back() != static_cast<int64_t>(dims) ||
        grid.extents[0] != x.extents[0])
        c.fail(fmt::format("an image of {} axes and a grid of {}; legal are [batch, channels, …] and [batch, …, axes "
                           "of the image without these two]",
                           x.rank(), grid.rank()));
    for (size_t d = 0; d < dims; d++) {
        if (x.extents[2 + d] == 0) c.fail("an image without elements");
    }
    std::string mode = c.choice("mode", c.node.opset < 20 ? "bilinear" : "linear",
                                {"linear", "nearest", "cubic", "bilinear", "bicubic"});
    if (mode.rfind("bi", 0) == 0) mode = mode.substr(2);
    const std::string padding = c.choice("padding_mode", "zeros", {"zeros", "border", "reflection"});
    const Outside outside = padding == "zeros"    ? Outside::Zeros
                            : padding == "border" ? Outside::Border
                                                  : Outside::Reflection;
    const bool aligned = c.node.integer("align_corners", 0) != 0;
    return {x, grid, mode, outside, aligned, position_type(x.type, grid.type)};
}

// The position along an axis of the image, in elements, over [batch, …].
View grid_positions(const GridSample &s, size_t d) {
    Extents extents = s.grid.extents;
    extents.pop_back();
    const Type t = s.type;
    const auto extent = static_cast<double>(s.x.extents[2 + d]);
    const Limits limits = s.limits(d);
    return {t, extents, [=](const Indices &i) -> Element {
                Indices from = i;
                // The innermost axis is first.
                from.push_back(small(static_cast<int64_t>(s.dims() - 1 - d)));
                const Element n = Element(cast(t, s.grid.at(from))) + number(t, 1);
                Element p = s.aligned ? Element(n / number(t, 2) * number(t, extent - 1))
                                      : Element((n * number(t, extent) - number(t, 1)) / number(t, 2));
                if (s.mode == "nearest") p = round(p);
                // Cubic interpolation repeats the border itself, as in PyTorch.
                if (s.outside == Outside::Border && s.mode != "cubic")
                    p = select(p < number(t, limits.low) || p > number(t, limits.high),
                               min(max(p, number(t, 0)), number(t, extent - 1)), p);
                return s.outside == Outside::Reflection ? reflected(p, limits) : p;
            }};
}

// An element of the image that a sample reads, along one axis.
struct Tap {
    Expr index;
    Element weight, inside; // inside: of the image
};

std::vector<Tap> taps_of(const GridSample &s, size_t d, const Element &position) {
    const Type t = s.type;
    const bool nearest = s.mode == "nearest";
    const int64_t extent = s.x.extents[2 + d];
    const Element first = nearest ? position : Element(floor(position));
    std::vector<Element> weights = {number(t, 1)};
    if (!nearest) weights = interpolation(s.mode, Element(position - first));
    const double before = weights.size() == 4 ? 1 : 0;
    std::vector<Tap> taps;
    for (size_t n = 0; n < weights.size(); n++) {
        const Element own = first + number(t, static_cast<double>(n) - before);
        const Element inner = s.outside == Outside::Reflection ? reflected(own, s.limits(d)) : own;
        taps.push_back({whole_index(inner, extent), weights[n], is_inside(own, extent)});
    }
    return taps;
}

Results grid_sample(Call &c) {
    const GridSample s = read_grid_sample(c);
    const Type t = s.type, type = s.x.type;
    const size_t dims = s.dims();
    std::vector<View> at;
    for (size_t d = 0; d < dims; d++) at.push_back(c.stored(grid_positions(s, d), "at"));
    Extents extents = {s.x.extents[0], s.x.extents[1]};
    extents.insert(extents.end(), s.grid.extents.begin() + 1, s.grid.extents.end() - 1);
    return {View{type, extents, [=](const Indices &i) -> Element {
                     Indices place = {i[0]};
                     place.insert(place.end(), i.begin() + 2, i.end());
                     std::vector<std::vector<Tap>> taps;
                     size_t all = 1;
                     for (size_t d = 0; d < dims; d++) {
                         taps.push_back(taps_of(s, d, at[d].at(place)));
                         all *= taps[d].size();
                     }
                     std::optional<Element> total;
                     for (size_t n = 0; n < all; n++) {
                         Indices from = {i[0], i[1]};
                         Element weight = number(t, 1), inside = cast(boolean, Expr(1));
                         size_t rest = n;
                         for (size_t d = 0; d < dims; d++) {
                             const Tap &tap = taps[d][rest % taps[d].size()];
                             rest /= taps[d].size();
                             from.push_back(tap.index);
                             weight = d == 0 ? tap.weight : Element(weight * tap.weight);
                             inside = d == 0 ? tap.inside : Element(inside && tap.inside);
                         }
                         Element e = s.x.at(from);
                         if (s.outside == Outside::Zeros) e = select(inside, e, number(type, 0));
                         if (s.mode == "nearest") return e;
                         const Element term = weight * Element(cast(t, e));
                         total = total ? *total + term : term;
                     }
                     return cast(type, *total);
                 }}};
}

Results affine_grid(Call &c) {
    const View theta = c.in(0);
    const std::vector<int64_t> size = c.integers(1);
    const size_t dims = size.size() < 4 ? 0 : size.size() - 2;
    if (dims != 2 && dims != 3) c.fail(fmt::format("a size of {} numbers; legal are 4 and 5", size.size()));
    const auto n = static_cast<int64_t>(dims);
    if (theta.extents != Extents{size[0], n, n + 1})
        c.fail(fmt::format("theta has the extents [{}]; legal are [{}, {}, {}]", fmt::join(theta.extents, ", "),
                           size[0], n, n + 1));
    const bool aligned = c.node.integer("align_corners", 0) != 0;
    const Type type = theta.type, t = accumulator(type);
    Extents extents = {size[0]};
    for (size_t d = 0; d < dims; d++) {
        if (size[2 + d] < 0) c.fail(fmt::format("the extent {}", size[2 + d]));
        extents.push_back(size[2 + d]);
    }
    extents.push_back(n);
    return {View{type, extents, [=](const Indices &i) -> Element {
                     const auto entry = [&](int64_t column) {
                         return Element(cast(t, theta.at({i[0], i.back(), small(column)})));
                     };
                     Element made = entry(n);
                     for (size_t d = 0; d < dims; d++) {
                         const auto extent = static_cast<double>(extents[1 + d]);
                         const Element place = cast(t, i[1 + d]);
                         const Element at =
                             !aligned     ? (place * number(t, 2) + number(t, 1)) / number(t, extent) - number(t, 1)
                             : extent > 1 ? place * number(t, 2 / (extent - 1)) - number(t, 1)
                                          : number(t, 0); // one element: the centre
                         made = made + entry(n - 1 - static_cast<int64_t>(d)) * at;
                     }
                     return cast(type, made);
                 }}};
}

// --- windows ---

// A convolution whose window reads the image at positions with offsets that are data, and zeros
// outside. A cell is an element of the window, numbered in row-major order.
struct DeformConv {
    View x, w, offset;
    std::optional<View> mask;
    int64_t groups, offset_groups, cells = 1;
    std::vector<int64_t> strides, dilations, pads, kernel, outputs;
    size_t dims() const { return kernel.size(); }
    // The extents [a, b, outputs…].
    Extents over_outputs(Extents extents) const {
        extents.insert(extents.end(), outputs.begin(), outputs.end());
        return extents;
    }
};

DeformConv read_deform_conv(Call &c) {
    DeformConv v{c.in(0), c.in(1), c.in(2), {}, c.node.integer("group", 1), c.node.integer("offset_group", 1)};
    const View &x = v.x, &w = v.w;
    const size_t dims = x.rank() < 3 ? 0 : x.rank() - 2;
    if (dims == 0 || w.rank() != x.rank() || v.offset.rank() != x.rank())
        c.fail("an image, weights and offsets of different numbers of axes, or below 3");
    if (v.groups < 1 || v.offset_groups < 1 || w.extents[1] * v.groups != x.extents[1] || w.extents[0] % v.groups ||
        x.extents[1] % v.offset_groups)
        c.fail(fmt::format("{} groups and {} groups of offsets of {} channels, with {} outputs of {} channels",
                           v.groups, v.offset_groups, x.extents[1], w.extents[0], w.extents[1]));
    const std::vector<int64_t> ones(dims, 1);
    v.strides = c.lengths("strides", c.node.integers("strides", ones), dims, 1);
    v.dilations = c.lengths("dilations", c.node.integers("dilations", ones), dims, 1);
    v.pads = c.lengths("pads", c.node.integers("pads", std::vector<int64_t>(2 * dims, 0)), 2 * dims, -INT32_MAX);
    v.kernel.assign(w.extents.begin() + 2, w.extents.end());
    if (c.node.integers("kernel_shape", v.kernel) != v.kernel) c.fail("kernel_shape is not that of the weights");
    for (size_t d = 0; d < dims; d++) {
        const int64_t room = x.extents[2 + d] + v.pads[d] + v.pads[dims + d] - (v.kernel[d] - 1) * v.dilations[d] - 1;
        if (v.kernel[d] < 1 || room < 0) c.fail("an empty kernel, or one larger than the image");
        v.outputs.push_back(room / v.strides[d] + 1);
        v.cells *= v.kernel[d];
    }
    const Extents masks = v.over_outputs({x.extents[0], v.offset_groups * v.cells});
    Extents offsets = masks;
    offsets[1] *= static_cast<int64_t>(dims);
    if (v.offset.extents != offsets || (c.has(4) && c.extents(4) != masks))
        c.fail(fmt::format("offsets or masks of other extents than [{}] and [{}]", fmt::join(offsets, ", "),
                           fmt::join(masks, ", ")));
    if (c.has(4)) v.mask = c.in(4);
    return v;
}

// The image at positions, by linear interpolation; i: batch and channel.
Element interpolated(const View &x, const Indices &i, const std::vector<Element> &positions) {
    const Type t = positions[0].type();
    std::vector<Element> first, fraction;
    for (const Element &p : positions) {
        first.push_back(floor(p));
        fraction.push_back(p - first.back());
    }
    std::optional<Element> total;
    for (size_t corner = 0; corner < size_t(1) << positions.size(); corner++) {
        Indices from = {i[0], i[1]};
        Element weight = number(t, 1), inside = cast(boolean, Expr(1));
        for (size_t d = 0; d < positions.size(); d++) {
            const bool after = (corner >> d & 1) != 0;
            const Element at = after ? Element(first[d] + number(t, 1)) : first[d];
            const Element own = after ? fraction[d] : Element(number(t, 1) - fraction[d]);
            from.push_back(whole_index(at, x.extents[2 + d]));
            weight = d == 0 ? own : Element(weight * own);
            inside = d == 0 ? is_inside(at, x.extents[2 + d]) : Element(inside && is_inside(at, x.extents[2 + d]));
        }
        const Element e = select(inside, weight * Element(cast(t, x.at(from))), number(t, 0));
        total = total ? *total + e : e;
    }
    return *total;
}

// What the windows read, over [batch, channel, cell, outputs…].
View deformed_samples(const DeformConv &v, Type t) {
    Extents extents = v.over_outputs({v.x.extents[0], v.x.extents[1], v.cells});
    return {t, extents, [=](const Indices &i) -> Element {
                const size_t dims = v.dims();
                const Expr row = i[1] / small(v.x.extents[1] / v.offset_groups) * small(v.cells) + i[2];
                Expr rest = i[2];
                std::vector<Expr> cell(dims);
                for (size_t d = dims; d-- > 0;) {
                    cell[d] = d == 0 ? rest : rest % small(v.kernel[d]);
                    rest = rest / small(v.kernel[d]);
                }
                std::vector<Element> positions;
                for (size_t d = 0; d < dims; d++) {
                    Indices from = {i[0], row * small(static_cast<int64_t>(dims)) + small(static_cast<int64_t>(d))};
                    from.insert(from.end(), i.begin() + 3, i.end());
                    const Expr base =
                        i[3 + d] * small(v.strides[d]) - small(v.pads[d]) + cell[d] * small(v.dilations[d]);
                    positions.push_back(Element(cast(t, base)) + Element(cast(t, v.offset.at(from))));
                }
                const Element e = interpolated(v.x, i, positions);
                if (!v.mask) return e;
                Indices from = {i[0], row};
                from.insert(from.end(), i.begin() + 3, i.end());
                return e * Element(cast(t, v.mask->at(from)));
            }};
}

Results deform_conv(Call &c) {
    const DeformConv v = read_deform_conv(c);
    const Type type = v.x.type, t = accumulator(type);
    const View samples = c.stored(deformed_samples(v, t), "samples");
    const Axis channel = c.loop(v.w.extents[1]), cell = c.loop(v.cells);
    const View weights = reshaped(v.w, {v.w.extents[0], v.w.extents[1], v.cells});
    View made = {
        t, v.over_outputs({v.x.extents[0], v.w.extents[0]}), [=](const Indices &i) -> Element {
            const int per_group = small(v.w.extents[0] / v.groups);
            const Expr from_channel =
                v.groups == 1 ? Expr(channel) : i[1] / per_group * small(v.w.extents[1]) + channel;
            Indices from = {i[0], from_channel, cell};
            from.insert(from.end(), i.begin() + 2, i.end());
            return sum(samples.at(from) * Element(cast(t, weights.at({i[1], channel, cell}))), {channel, cell});
        }};
    if (c.has(3)) made = with_bias(c, made, 3);
    return {converted(made, type)};
}

// Each element of the image is the sum of the cells of windows that meet it.
Results col2im(Call &c) {
    const View x = c.in(0);
    const size_t dims = c.integers(1).size();
    if (x.rank() != 3 || dims == 0) c.fail("its input has not 3 axes, or its image has none");
    const std::vector<int64_t> ones(dims, 1), zeros(2 * dims, 0);
    const auto image = c.lengths("image_shape", c.integers(1), dims, 0),
               block = c.lengths("block_shape", c.integers(2), dims, 1),
               strides = c.lengths("strides", c.node.integers("strides", ones), dims, 1),
               dilations = c.lengths("dilations", c.node.integers("dilations", ones), dims, 1),
               pads = c.lengths("pads", c.node.integers("pads", zeros), 2 * dims, -INT32_MAX);
    std::vector<int64_t> counts;
    for (size_t d = 0; d < dims; d++) {
        const int64_t room = image[d] + pads[d] + pads[dims + d] - dilations[d] * (block[d] - 1) - 1;
        counts.push_back(room < 0 ? 0 : room / strides[d] + 1);
    }
    const int64_t cells = elements_of(block), windows = elements_of(counts);
    if (x.extents[1] % cells || x.extents[2] != windows)
        c.fail(fmt::format("an input of {} rows and {} windows; legal are multiples of {} rows and {} windows",
                           x.extents[1], x.extents[2], cells, windows));
    std::vector<Axis> loops;
    for (const int64_t b : block) loops.push_back(c.loop(b));
    Extents extents = {x.extents[0], x.extents[1] / cells};
    extents.insert(extents.end(), image.begin(), image.end());
    const Type type = x.type, t = accumulator(type), bits = wrapping(t);
    return {View{type, extents, [=](const Indices &i) -> Element {
                     if (windows == 0) return number(type, 0);
                     Expr cell = i[1], window = 0, meets = Halide::Internal::const_true();
                     for (size_t d = 0; d < dims; d++) {
                         const int s = small(strides[d]), n = small(counts[d]);
                         const Expr at = i[2 + d] + small(pads[d]) - loops[d] * small(dilations[d]);
                         meets = meets && at >= 0 && at % s == 0 && at / s < n;
                         cell = cell * small(block[d]) + loops[d];
                         window = window * n + Halide::clamp(at / s, 0, n - 1);
                     }
                     const Element term = cast(bits, x.at({i[0], cell, window}));
                     return cast(type, sum(select(Element(meets), term, number(bits, 0)), loops));
                 }}};
}

// Puts elements where MaxPool's second output says that they were.
Results max_unpool(Call &c) {
    const View x = c.in(0), places = c.in(1);
    const size_t dims = x.rank() < 3 ? 0 : x.rank() - 2;
    const std::vector<int64_t> ones(dims, 1), zeros(2 * dims, 0);
    const auto kernel = c.lengths("kernel_shape", c.node.integers("kernel_shape"), dims, 1),
               strides = c.lengths("strides", c.node.integers("strides", ones), dims, 1),
               pads = c.lengths("pads", c.node.integers("pads", zeros), 2 * dims, -INT32_MAX);
    if (dims == 0 || places.extents != x.extents)
        c.fail("an input of fewer than 3 axes, or indices of another shape than it");
    // The image that was pooled: indices count its elements. A larger output is filled with zeros.
    Extents image = {x.extents[0], x.extents[1]}, one = image;
    for (size_t d = 0; d < dims; d++)
        image.push_back(
            std::max<int64_t>(0, (x.extents[2 + d] - 1) * strides[d] - pads[d] - pads[dims + d] + kernel[d]));
    const Extents extents = c.has(2) ? c.integers(2) : image;
    if (extents.size() != image.size() || extents[0] != image[0] || extents[1] != image[1])
        c.fail(fmt::format("output_shape is [{}]; legal are {} extents that begin with {} and {}",
                           fmt::join(extents, ", "), image.size(), image[0], image[1]));
    if (x.elements() > 0 && elements_of(image) > INT32_MAX) c.unsupported("an image of more than 2^31 elements");
    std::vector<Axis> loops;
    for (size_t d = 0; d < dims; d++) loops.push_back(c.loop(x.extents[2 + d]));
    const Type type = x.type;
    return {View{type, extents, [=](const Indices &i) -> Element {
                     if (x.elements() == 0) return number(type, 0);
                     Indices from = {i[0], i[1]};
                     from.insert(from.end(), loops.begin(), loops.end());
                     Expr own = i[0] * small(image[1]) + i[1], known = Halide::Internal::const_true();
                     for (size_t d = 0; d < dims; d++) {
                         own = own * small(image[2 + d]) + i[2 + d];
                         if (extents[2 + d] > image[2 + d]) known = known && i[2 + d] < small(image[2 + d]);
                     }
                     const Element meets = Element(known) && places.at(from) == Element(cast(i64, own));
                     // Windows that overlap may name an element twice, with one value.
                     const auto later = [](Values a, Values b) -> Values {
                         return {Halide::select(b[0] != 0, b[0], a[0]), Halide::select(b[0] != 0, b[1], a[1])};
                     };
                     const Tuple last = reduce(later, {Expr(0), Expr(number(type, 0))},
                                               {Element(cast(i32, meets)), x.at(from)}, loops);
                     return last[1];
                 }}};
}

} // namespace

std::vector<Operator> sampling_operators() {
    return {
        {"GridSample", 16, grid_sample}, {"AffineGrid", 20, affine_grid}, {"DeformConv", 19, deform_conv},
        {"Col2Im", 18, col2im},          {"MaxUnpool", 9, max_unpool},
    };
}

} // namespace kumiko::graph
