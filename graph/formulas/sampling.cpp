// Images read at positions that are data: GridSample, regions of interest, deformable
// convolutions; and operators that put windows together: Col2Im, MaxUnpool.
#include "dsl/halide_passes.h"
#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/tuple.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"

#include <cmath>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

int small(int64_t v) { return static_cast<int>(v); }

// f32, or f64 if one of the types is.
Type position_type(Type a, Type b) { return a == f64 || b == f64 ? f64 : f32; }

// An index of a position that is a whole number. One outside of the extent reads the border.
Expr whole_index(const Element &position, int64_t extent) {
    return Halide::clamp(cast(i32, position), 0, small(std::max<int64_t>(extent, 1) - 1));
}

Element is_inside(const Element &position, int64_t extent) {
    const Type t = position.type();
    return position >= number(t, 0) && position <= number(t, static_cast<double>(extent - 1));
}

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

Made grid_sample(Call &c) {
    const View x = c.in(0), grid = c.in(1);
    const size_t dims = x.rank() < 3 ? 0 : x.rank() - 2;
    if (dims == 0 || grid.rank() != x.rank() || grid.extents.back() != static_cast<int64_t>(dims) ||
        grid.extents[0] != x.extents[0])
        c.fail(fmt::format("an image of {} axes and a grid of {}; legal are [batch, channels, …] and [batch, …, axes "
                           "of the image without these two]",
                           x.rank(), grid.rank()));
    std::string mode = c.choice("mode", c.node.opset < 20 ? "bilinear" : "linear",
                                {"linear", "nearest", "cubic", "bilinear", "bicubic"});
    if (mode.rfind("bi", 0) == 0) mode = mode.substr(2);
    const std::string padding = c.choice("padding_mode", "zeros", {"zeros", "border", "reflection"});
    const Outside outside = padding == "zeros"    ? Outside::Zeros
                            : padding == "border" ? Outside::Border
                                                  : Outside::Reflection;
    const bool aligned = c.node.integer("align_corners", 0) != 0;
    const Type t = position_type(x.type, grid.type), type = x.type;
    Extents extents = {x.extents[0], x.extents[1]}, positions = {x.extents[0]};
    for (size_t d = 0; d < dims; d++) {
        extents.push_back(grid.extents[1 + d]), positions.push_back(grid.extents[1 + d]);
        if (x.extents[2 + d] == 0) c.fail("an image without elements");
    }
    std::vector<View> at;
    std::vector<Limits> limits;
    for (size_t d = 0; d < dims; d++) {
        const auto extent = static_cast<double>(x.extents[2 + d]);
        const Limits own = aligned ? Limits{0, extent - 1} : Limits{-0.5, extent - 0.5};
        limits.push_back(own);
        at.push_back(c.stored({t, positions,
                               [=](const Indices &i) -> Element {
                                   Indices from = i;
                                   // The innermost axis is first.
                                   const auto entry = static_cast<int64_t>(dims - 1 - d);
                                   from.push_back(small(entry));
                                   const Element n = Element(cast(t, grid.at(from))) + number(t, 1);
                                   Element p = aligned ? Element(n / number(t, 2) * number(t, extent - 1))
                                                       : Element((n * number(t, extent) - number(t, 1)) / number(t, 2));
                                   if (mode == "nearest") p = round(p);
                                   // Cubic interpolation repeats the border itself, as in
                                   // PyTorch.
                                   if (outside == Outside::Border && mode != "cubic")
                                       p = select(p < number(t, own.low) || p > number(t, own.high),
                                                  min(max(p, number(t, 0)), number(t, extent - 1)), p);
                                   return outside == Outside::Reflection ? reflected(p, own) : p;
                               }},
                              "at"));
    }
    return {View{type, extents, [=](const Indices &i) -> Element {
                     Indices place = {i[0]};
                     place.insert(place.end(), i.begin() + 2, i.end());
                     // Of each axis: the index, the weight, and whether it is inside of the image.
                     struct Tap {
                         Expr index;
                         Element weight, inside;
                     };
                     std::vector<std::vector<Tap>> taps(dims);
                     for (size_t d = 0; d < dims; d++) {
                         const int64_t extent = x.extents[2 + d];
                         const Element p = at[d].at(place), first = mode == "nearest" ? p : Element(floor(p));
                         std::vector<Element> weights = {number(t, 1)};
                         if (mode != "nearest") weights = interpolation(mode, Element(p - first));
                         const double before = weights.size() == 4 ? 1 : 0;
                         for (size_t n = 0; n < weights.size(); n++) {
                             const Element own = first + number(t, static_cast<double>(n) - before);
                             const Element inner = outside == Outside::Reflection ? reflected(own, limits[d]) : own;
                             taps[d].push_back({whole_index(inner, extent), weights[n], is_inside(own, extent)});
                         }
                     }
                     std::optional<Element> total;
                     const size_t each = taps[0].size();
                     size_t all = 1;
                     for (size_t d = 0; d < dims; d++) all *= each;
                     for (size_t n = 0; n < all; n++) {
                         Indices from = {i[0], i[1]};
                         Element weight = number(t, 1), inside = cast(boolean, Expr(1));
                         size_t rest = n;
                         for (size_t d = 0; d < dims; d++) {
                             const Tap &tap = taps[d][rest % each];
                             rest /= each;
                             from.push_back(tap.index);
                             weight = d == 0 ? tap.weight : Element(weight * tap.weight);
                             inside = d == 0 ? tap.inside : Element(inside && tap.inside);
                         }
                         Element e = x.at(from);
                         if (outside == Outside::Zeros) e = select(inside, e, number(type, 0));
                         if (mode == "nearest") return e;
                         const Element term = weight * Element(cast(t, e));
                         total = total ? *total + term : term;
                     }
                     return cast(type, *total);
                 }}};
}

Made affine_grid(Call &c) {
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

// --- regions of interest ---

// A sample between four elements of an image, zero beyond one element around it.
struct Sample {
    Element near, far; // the elements before and after, as whole numbers
    Element weight;    // of the one after
    Element inside;
};

Sample sample_at(const Element &position, int64_t extent) {
    const Type t = position.type();
    const Element last = number(t, static_cast<double>(extent - 1));
    const Element from_zero = max(position, number(t, 0));
    const Element floor_ = floor(from_zero), at_end = floor_ >= last;
    const Element near = select(at_end, last, floor_);
    return {near, select(at_end, last, floor_ + number(t, 1)), select(at_end, number(t, 0), from_zero - floor_),
            position >= number(t, -1) && position <= number(t, static_cast<double>(extent))};
}

Made roi_align(Call &c) {
    const View x = c.in(0), rois = c.in(1), batches = c.in(2);
    if (x.rank() != 4 || rois.rank() != 2 || rois.extents[1] != 4 || batches.extents != Extents{rois.extents[0]})
        c.fail("its inputs are not an image of 4 axes, regions [count, 4] and batch indices [count]");
    if (x.elements() == 0) c.fail("an image without elements");
    const bool maximal = c.choice("mode", "avg", {"avg", "max"}) == "max";
    const bool half = c.node.opset >= 16 && c.choice("coordinate_transformation_mode", "half_pixel",
                                                     {"half_pixel", "output_half_pixel"}) == "half_pixel";
    const int64_t height = c.node.integer("output_height", 1), width = c.node.integer("output_width", 1),
                  ratio = c.node.integer("sampling_ratio", 0);
    if (height < 1 || width < 1 || ratio < 0) c.fail("an output or a sampling ratio below what is legal: 1 and 0");
    const double scale = c.node.number("spatial_scale", 1);
    const Type type = x.type, t = accumulator(type);
    const int64_t outputs[2] = {height, width}, image[2] = {x.extents[2], x.extents[3]};
    // Along an axis (0: rows) of each region: where it begins, the extent of a bin, and the samples
    // in a bin.
    struct Along {
        View begin, bin, count;
    };
    std::vector<Along> along;
    for (int d = 0; d < 2; d++) {
        const auto edge = [=](const Indices &i, int side) -> Element {
            const Element e = Element(cast(t, rois.at({i[0], small(2 * side + 1 - d)}))) * number(t, scale);
            return e - number(t, half ? 0.5 : 0);
        };
        const Extents extents = {rois.extents[0]};
        const auto outs = static_cast<double>(outputs[d]);
        const View begin = c.stored({t, extents, [=](const Indices &i) { return edge(i, 0); }}, "begin");
        const View bin = c.stored({t, extents,
                                   [=](const Indices &i) -> Element {
                                       const Element extent = edge(i, 1) - edge(i, 0);
                                       return (half ? extent : max(extent, number(t, 1))) / number(t, outs);
                                   }},
                                  "bin");
        const View count = c.stored({t, extents,
                                     [=](const Indices &i) -> Element {
                                         return ratio > 0 ? number(t, static_cast<double>(ratio))
                                                          : Element(max(Element(ceil(bin.at(i))), number(t, 0)));
                                     }},
                                    "count");
        along.push_back({begin, bin, count});
    }
    // Samples of a bin are at least half an element apart if there are several, so that so many
    // meet the image and the element around it.
    const auto most = [&](int d) { return ratio > 0 ? ratio : 2 * image[d] + 4; };
    const std::vector<View> first = [&] { // by region and bin: the first sample that may meet it
        std::vector<View> all;
        for (int d = 0; d < 2; d++) {
            const Along a = along[size_t(d)];
            all.push_back(c.stored({t,
                                    {rois.extents[0], outputs[d]},
                                    [=](const Indices &i) -> Element {
                                        if (ratio > 0) return number(t, 0);
                                        const Element bin = a.bin.at({i[0]}), count = a.count.at({i[0]});
                                        const Element begin = a.begin.at({i[0]}) + Element(cast(t, i[1])) * bin;
                                        const Element step = bin / max(count, number(t, 1));
                                        const Element skipped =
                                            ceil(Element((number(t, -1) - begin) / step - number(t, 0.5))) -
                                            number(t, 1);
                                        return select(step > number(t, 0), max(skipped, number(t, 0)), number(t, 0));
                                    }},
                                   "first"));
        }
        return all;
    }();
    struct Place {
        Sample sample;
        Element exists;
    };
    const auto place = [=](int d, const Expr &region, const Expr &bin_index, const Expr &loop) -> Place {
        const Along a = along[size_t(d)];
        const Element bin = a.bin.at({region}), count = a.count.at({region});
        const Element n = first[size_t(d)].at({region, bin_index}) + Element(cast(t, loop));
        const Element at = a.begin.at({region}) + Element(cast(t, bin_index)) * bin +
                           (n + number(t, 0.5)) * bin / max(count, number(t, 1));
        return {sample_at(at, image[d]), n < count};
    };
    const Extents extents = {rois.extents[0], x.extents[1], height, width};
    const auto batch = [=](const Expr &region) {
        return Halide::clamp(cast(i32, batches.at({region})), 0, small(x.extents[0] - 1));
    };
    const auto divisor = [=](const Expr &region) -> Element {
        return max(along[0].count.at({region}) * along[1].count.at({region}), number(t, 1));
    };
    if (maximal || ratio > 0) {
        const Axis ky = c.loop(most(0)), kx = c.loop(most(1));
        return {View{type, extents, [=](const Indices &i) -> Element {
                         const Place y = place(0, i[0], i[2], ky), across = place(1, i[0], i[3], kx);
                         const Element exists = y.exists && across.exists;
                         const Element inside = exists && y.sample.inside && across.sample.inside;
                         std::optional<Element> joined;
                         for (int corner = 0; corner < 4; corner++) {
                             const bool down = corner >= 2, right = corner % 2 == 1;
                             const Expr row = whole_index(down ? y.sample.far : y.sample.near, image[0]);
                             const Expr column = whole_index(right ? across.sample.far : across.sample.near, image[1]);
                             const Element wy = down ? y.sample.weight : Element(number(t, 1) - y.sample.weight);
                             const Element wx =
                                 right ? across.sample.weight : Element(number(t, 1) - across.sample.weight);
                             const Element e = wy * wx * Element(cast(t, x.at({batch(i[0]), i[1], row, column})));
                             joined = !joined ? e : maximal ? Element(max(*joined, e)) : Element(*joined + e);
                         }
                         const Element term = select(inside, *joined, number(t, 0));
                         if (!maximal) return cast(type, sum(term, {ky, kx}) / divisor(i[0]));
                         // Samples that no loop visits are zeros beyond the image.
                         const auto unseen = [&](int d, const Expr &bin) -> Element {
                             const Element skipped = first[size_t(d)].at({i[0], bin});
                             const Element count = along[size_t(d)].count.at({i[0]});
                             return skipped > number(t, 0) || skipped + number(t, static_cast<double>(most(d))) < count;
                         };
                         const Element most_ = maximum(select(exists, term, number(t, -INFINITY)), {ky, kx});
                         const Element none =
                             along[0].count.at({i[0]}) <= number(t, 0) || along[1].count.at({i[0]}) <= number(t, 0);
                         const Element with_zeros =
                             select(unseen(0, i[2]) || unseen(1, i[3]), max(most_, number(t, 0)), most_);
                         return cast(type, select(none, number(t, 0), with_zeros));
                     }}};
    }
    // The weight of each row of the image for a bin, and of each column; then two products.
    std::vector<View> weights;
    for (int d = 0; d < 2; d++) {
        const Axis loop = c.loop(most(d));
        weights.push_back(c.stored({t,
                                    {rois.extents[0], outputs[d], image[d]},
                                    [=](const Indices &i) -> Element {
                                        const Place p = place(d, i[0], i[1], loop);
                                        const Element own = cast(t, i[2]), zero = number(t, 0);
                                        const Element part =
                                            select(own == p.sample.near, number(t, 1) - p.sample.weight, zero) +
                                            select(own == p.sample.far, p.sample.weight, zero);
                                        return sum(select(p.exists && p.sample.inside, part, zero), loop);
                                    }},
                                   "weights"));
    }
    // Elements without weight do not count, whatever they are.
    const auto weighted = [=](const Element &w, const Element &e) -> Element {
        return select(w == number(t, 0), number(t, 0), w * e);
    };
    const Axis rows = c.loop(image[0]), columns = c.loop(image[1]);
    const View down = c.stored({t,
                                {rois.extents[0], x.extents[1], height, image[1]},
                                [=](const Indices &i) -> Element {
                                    const Element e = cast(t, x.at({batch(i[0]), i[1], rows, i[3]}));
                                    return sum(weighted(weights[0].at({i[0], i[2], rows}), e), rows);
                                }},
                               "down");
    return {View{type, extents, [=](const Indices &i) -> Element {
                     const Element e = down.at({i[0], i[1], i[2], columns});
                     const Element total = sum(weighted(weights[1].at({i[0], i[3], columns}), e), columns);
                     return cast(type, total / divisor(i[0]));
                 }}};
}

Made max_roi_pool(Call &c) {
    const View x = c.in(0), rois = c.in(1);
    const std::vector<int64_t> pooled = c.node.integers("pooled_shape");
    if (x.rank() != 4 || rois.rank() != 2 || rois.extents[1] != 5 || pooled.size() != 2 || pooled[0] < 1 ||
        pooled[1] < 1)
        c.fail("its inputs are not an image of 4 axes and regions [count, 5], or pooled_shape is not two sizes");
    if (x.elements() == 0) c.fail("an image without elements");
    const double scale = c.node.number("spatial_scale", 1);
    const Type type = x.type, t = accumulator(type);
    // By region and bin: the first row and the one behind the last.
    struct Bounds {
        View begin, end;
    };
    std::vector<Bounds> bounds;
    for (int d = 0; d < 2; d++) {
        const int64_t extent = x.extents[2 + size_t(d)], count = pooled[size_t(d)];
        const auto bound = [=](const Indices &i, bool end) -> Element {
            const auto edge = [&](int column) -> Element { // half away from zero
                const Element e = Element(cast(t, rois.at({i[0], column}))) * number(t, scale);
                return select(e < number(t, 0), ceil(Element(e - number(t, 0.5))), floor(Element(e + number(t, 0.5))));
            };
            const Element begin = edge(2 - d), size = max(edge(4 - d) - begin + number(t, 1), number(t, 1));
            const Element bin = size / number(t, static_cast<double>(count)), n = cast(t, i[1]);
            const Element at =
                end ? Element(ceil(Element((n + number(t, 1)) * bin))) : Element(floor(Element(n * bin)));
            return min(max(Element(at + begin), number(t, 0)), number(t, static_cast<double>(extent)));
        };
        const Extents extents = {rois.extents[0], count};
        bounds.push_back({c.stored({t, extents, [=](const Indices &i) { return bound(i, false); }}, "begin"),
                          c.stored({t, extents, [=](const Indices &i) { return bound(i, true); }}, "end")});
    }
    const auto within = [=](const Bounds &b, const Expr &region, const Expr &bin, const Expr &loop) -> Element {
        const Element at = cast(t, loop);
        return at >= b.begin.at({region, bin}) && at < b.end.at({region, bin});
    };
    const Axis rows = c.loop(x.extents[2]), columns = c.loop(x.extents[3]);
    const Element least = number(t, -INFINITY);
    const View down =
        c.stored({t,
                  {rois.extents[0], x.extents[1], pooled[0], x.extents[3]},
                  [=](const Indices &i) -> Element {
                      const Expr batch = Halide::clamp(cast(i32, rois.at({i[0], 0})), 0, small(x.extents[0] - 1));
                      const Element e = cast(t, x.at({batch, i[1], rows, i[3]}));
                      return maximum(select(within(bounds[0], i[0], i[2], rows), e, least), rows);
                  }},
                 "down");
    return {View{type, {rois.extents[0], x.extents[1], pooled[0], pooled[1]}, [=](const Indices &i) -> Element {
                     const Element e = down.at({i[0], i[1], i[2], columns});
                     const Element made = maximum(select(within(bounds[1], i[0], i[3], columns), e, least), columns);
                     const auto empty = [&](int d) -> Element {
                         const Bounds &b = bounds[size_t(d)];
                         return b.end.at({i[0], i[2 + d]}) <= b.begin.at({i[0], i[2 + d]});
                     };
                     return cast(type, select(empty(0) || empty(1), number(t, 0), made));
                 }}};
}

// --- windows ---

// The image is read beside the window's positions, by offsets that are data, and zero around.
Made deform_conv(Call &c) {
    const View x = c.in(0), w = c.in(1), offset = c.in(2);
    const size_t dims = x.rank() < 3 ? 0 : x.rank() - 2;
    const int64_t group = c.node.integer("group", 1), offsets = c.node.integer("offset_group", 1);
    if (dims == 0 || w.rank() != x.rank() || offset.rank() != x.rank())
        c.fail("an image, weights and offsets of different numbers of axes, or below 3");
    if (group < 1 || offsets < 1 || w.extents[1] * group != x.extents[1] || w.extents[0] % group ||
        x.extents[1] % offsets)
        c.fail(fmt::format("{} groups and {} groups of offsets of {} channels, with {} outputs of {} channels", group,
                           offsets, x.extents[1], w.extents[0], w.extents[1]));
    const std::vector<int64_t> ones(dims, 1), strides = c.node.integers("strides", ones),
                                              dilations = c.node.integers("dilations", ones),
                                              pads = c.node.integers("pads", std::vector<int64_t>(2 * dims, 0)),
                                              kernel(w.extents.begin() + 2, w.extents.end());
    if (strides.size() != dims || dilations.size() != dims || pads.size() != 2 * dims)
        c.fail(fmt::format("strides, dilations or pads are not those of {} axes", dims));
    if (c.node.integers("kernel_shape", kernel) != kernel) c.fail("kernel_shape is not that of the weights");
    int64_t cells = 1;
    Extents out;
    for (size_t d = 0; d < dims; d++) {
        const int64_t room = x.extents[2 + d] + pads[d] + pads[dims + d] - (kernel[d] - 1) * dilations[d] - 1;
        if (strides[d] < 1 || dilations[d] < 1 || kernel[d] < 1 || room < 0)
            c.fail("a stride, dilation or kernel below 1, or a kernel larger than the image");
        out.push_back(room / strides[d] + 1);
        cells *= kernel[d];
    }
    Extents wanted = {x.extents[0], offsets * cells * static_cast<int64_t>(dims)},
            masks = {x.extents[0], offsets * cells};
    wanted.insert(wanted.end(), out.begin(), out.end()), masks.insert(masks.end(), out.begin(), out.end());
    if (offset.extents != wanted || (c.has(4) && c.extents(4) != masks))
        c.fail(fmt::format("offsets or masks of other extents than [{}] and [{}]", fmt::join(wanted, ", "),
                           fmt::join(masks, ", ")));
    const Type type = x.type, t = accumulator(type);
    // Over [batch, channel, cell of the window, …].
    Extents sampled = {x.extents[0], x.extents[1], cells};
    sampled.insert(sampled.end(), out.begin(), out.end());
    const int64_t per_offset = x.extents[1] / offsets;
    const std::optional<View> mask = c.has(4) ? std::optional(c.in(4)) : std::nullopt;
    const View samples = c.stored(
        {t, sampled,
         [=](const Indices &i) -> Element {
             const Expr row = i[1] / small(per_offset) * small(cells) + i[2];
             std::vector<Element> first, fraction;
             Expr rest = i[2];
             std::vector<Expr> cell(dims);
             for (size_t d = dims; d-- > 0;) {
                 cell[d] = d == 0 ? rest : rest % small(kernel[d]);
                 rest = rest / small(kernel[d]);
             }
             for (size_t d = 0; d < dims; d++) {
                 Indices from = {i[0], row * small(static_cast<int64_t>(dims)) + small(static_cast<int64_t>(d))};
                 from.insert(from.end(), i.begin() + 3, i.end());
                 const Expr base = i[3 + d] * small(strides[d]) - small(pads[d]) + cell[d] * small(dilations[d]);
                 const Element at = Element(cast(t, base)) + Element(cast(t, offset.at(from)));
                 first.push_back(floor(at));
                 fraction.push_back(at - first.back());
             }
             std::optional<Element> total;
             for (size_t corner = 0; corner < size_t(1) << dims; corner++) {
                 Indices from = {i[0], i[1]};
                 Element weight = number(t, 1), inside = cast(boolean, Expr(1));
                 for (size_t d = 0; d < dims; d++) {
                     const bool after = (corner >> d & 1) != 0;
                     const Element at = after ? Element(first[d] + number(t, 1)) : first[d];
                     const Element own = after ? fraction[d] : Element(number(t, 1) - fraction[d]);
                     from.push_back(whole_index(at, x.extents[2 + d]));
                     weight = d == 0 ? own : Element(weight * own);
                     inside =
                         d == 0 ? is_inside(at, x.extents[2 + d]) : Element(inside && is_inside(at, x.extents[2 + d]));
                 }
                 const Element e = select(inside, weight * Element(cast(t, x.at(from))), number(t, 0));
                 total = total ? *total + e : e;
             }
             if (!mask) return *total;
             Indices from = {i[0], row};
             from.insert(from.end(), i.begin() + 3, i.end());
             return *total * Element(cast(t, mask->at(from)));
         }},
        "samples");
    const Axis channel = c.loop(w.extents[1]), cell = c.loop(cells);
    const View weights = reshaped(w, {w.extents[0], w.extents[1], cells});
    Extents extents = {x.extents[0], w.extents[0]};
    extents.insert(extents.end(), out.begin(), out.end());
    const int64_t per_group = w.extents[0] / group;
    View made = {
        t, extents, [=](const Indices &i) -> Element {
            const Expr first = group == 1 ? Expr(0) : i[1] / small(per_group) * small(w.extents[1]);
            Indices from = {i[0], group == 1 ? Expr(channel) : first + channel, cell};
            from.insert(from.end(), i.begin() + 2, i.end());
            return sum(samples.at(from) * Element(cast(t, weights.at({i[1], channel, cell}))), {channel, cell});
        }};
    if (c.has(3)) made = with_bias(c, made, 3);
    return {converted(made, type)};
}

// Each element of the image is the sum of the cells of windows that meet it.
Made col2im(Call &c) {
    const View x = c.in(0);
    const std::vector<int64_t> image = c.integers(1), block = c.integers(2);
    const size_t dims = image.size();
    const std::vector<int64_t> ones(dims, 1), strides = c.node.integers("strides", ones),
                                              dilations = c.node.integers("dilations", ones),
                                              pads = c.node.integers("pads", std::vector<int64_t>(2 * dims, 0));
    if (x.rank() != 3 || dims == 0 || block.size() != dims || strides.size() != dims || dilations.size() != dims ||
        pads.size() != 2 * dims)
        c.fail(fmt::format("its input has not 3 axes, or block_shape, strides, dilations or pads are not those of an "
                           "image of {} axes",
                           dims));
    int64_t cells = 1, windows = 1;
    std::vector<int64_t> counts;
    for (size_t d = 0; d < dims; d++) {
        if (image[d] < 0 || block[d] < 1 || strides[d] < 1 || dilations[d] < 1)
            c.fail("an extent, block, stride or dilation below what is legal: 0, 1, 1 and 1");
        const int64_t room = image[d] + pads[d] + pads[dims + d] - dilations[d] * (block[d] - 1) - 1;
        counts.push_back(room < 0 ? 0 : room / strides[d] + 1);
        cells *= block[d], windows *= counts[d];
    }
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
Made max_unpool(Call &c) {
    const View x = c.in(0), places = c.in(1);
    const size_t dims = x.rank() < 3 ? 0 : x.rank() - 2;
    const std::vector<int64_t> kernel = c.node.integers("kernel_shape"),
                               strides = c.node.integers("strides", std::vector<int64_t>(dims, 1)),
                               pads = c.node.integers("pads", std::vector<int64_t>(2 * dims, 0));
    if (dims == 0 || places.extents != x.extents || kernel.size() != dims || strides.size() != dims ||
        pads.size() != 2 * dims)
        c.fail("its indices have another shape than its input, or kernel_shape, strides or pads another size");
    // The image that was pooled: indices count its elements. A larger output is filled with zeros.
    Extents image = {x.extents[0], x.extents[1]}, one = image;
    int64_t plane = 1;
    for (size_t d = 0; d < dims; d++) {
        image.push_back(
            std::max<int64_t>(0, (x.extents[2 + d] - 1) * strides[d] - pads[d] - pads[dims + d] + kernel[d]));
        plane *= image.back();
    }
    const Extents extents = c.has(2) ? c.integers(2) : image;
    if (extents.size() != image.size() || extents[0] != image[0] || extents[1] != image[1])
        c.fail(fmt::format("output_shape is [{}]; legal are {} extents that begin with {} and {}",
                           fmt::join(extents, ", "), image.size(), image[0], image[1]));
    if (x.elements() > 0 && x.extents[0] * x.extents[1] * plane > INT32_MAX)
        c.unsupported("an image of more than 2^31 elements");
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
        {"GridSample", 16, grid_sample}, {"AffineGrid", 20, affine_grid}, {"RoiAlign", 10, roi_align},
        {"MaxRoiPool", 1, max_roi_pool}, {"DeformConv", 19, deform_conv}, {"Col2Im", 18, col2im},
        {"MaxUnpool", 9, max_unpool},
    };
}

} // namespace kumiko::graph
