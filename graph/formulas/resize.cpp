// Resampling of images: Resize and Upsample, axis by axis.
#include "dsl/halide_passes.h"
#include "dsl/math.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"

#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace kumiko::graph {

namespace {

struct Axes {
    std::vector<size_t> axes;
    std::vector<double> scales;
    Extents outputs;
    std::vector<double> begin, end; // of the region, for tf_crop_and_resize
};

struct Sampling {
    std::string mode, coordinates, nearest;
    double cubic, extrapolation;
    bool antialias, exclude_outside;
};

Element real(double v) { return number(f64, v); }

// The position in the input that output element i of an axis stands for.
Element source(const Sampling &s, const Axes &a, size_t n, int64_t in, const Expr &i) {
    const double scale = a.scales[n];
    const auto out = static_cast<double>(a.outputs[n]), extent = static_cast<double>(in);
    const Element x = cast(f64, i);
    if (s.coordinates == "asymmetric") return x / real(scale);
    if (s.coordinates == "align_corners")
        return out == 1 ? x * real(0) : x * real(extent - 1) / real(scale * extent - 1);
    if (s.coordinates == "pytorch_half_pixel" && scale * extent <= 1) return x * real(0) - real(0.5);
    if (s.coordinates == "half_pixel_symmetric") {
        const double adjusted = out / (scale * extent), centre = extent / 2, offset = centre * (1 - adjusted);
        return real(offset) + (x + real(0.5)) / real(scale) - real(0.5);
    }
    if (s.coordinates == "tf_half_pixel_for_nn") return (x + real(0.5)) / real(scale);
    if (s.coordinates == "tf_crop_and_resize") {
        if (out <= 1) return x * real(0) + real(0.5 * (a.begin[n] + a.end[n]) * (extent - 1));
        return real(a.begin[n] * (extent - 1)) + x * real((a.end[n] - a.begin[n]) * (extent - 1) / (out - 1));
    }
    return (x + real(0.5)) / real(scale) - real(0.5); // half_pixel
}

// The weight of an element at a distance from the position.
Element weight(const Sampling &s, const Element &distance) {
    const Element d = abs(distance);
    if (s.mode == "linear") return max(Element(real(1) - d), real(0));
    const double a = s.cubic;
    const Element near = ((real(a + 2) * d - real(a + 3)) * d) * d + real(1);
    const Element far = ((real(a) * d - real(5 * a)) * d + real(8 * a)) * d - real(4 * a);
    return select(d <= real(1), near, d < real(2), far, real(0));
}

View resampled(Call &c, const View &x, const Sampling &s, const Axes &a, size_t n) {
    const size_t axis = a.axes[n];
    const int64_t in = x.extents[axis];
    const double scale = a.scales[n];
    Extents extents = x.extents;
    extents[axis] = a.outputs[n];
    if (s.mode == "nearest") {
        return {x.type, extents, [=](const Indices &i) -> Element {
                    const Element at = source(s, a, n, in, i[axis]);
                    const Element whole = s.coordinates == "tf_half_pixel_for_nn" || s.nearest == "floor"
                                              ? Element(floor(at))
                                          : s.nearest == "ceil"              ? Element(ceil(at))
                                          : s.nearest == "round_prefer_ceil" ? Element(floor(Element(at + real(0.5))))
                                                                             : Element(ceil(Element(at - real(0.5))));
                    Indices own = i;
                    own[axis] = Halide::clamp(cast(i32, whole), 0, static_cast<int>(in - 1));
                    if (s.coordinates != "tf_crop_and_resize") return x.at(own);
                    const Element outside = at < real(0) || at > real(static_cast<double>(in - 1));
                    return select(outside, number(x.type, s.extrapolation), x.at(own));
                }};
    }
    // A filter wider by 1 / scale averages what falls together.
    const double stretch = s.antialias && scale < 1 ? 1 / scale : 1;
    const auto reach = static_cast<int>(std::ceil((s.mode == "linear" ? 1 : 2) * stretch));
    const View made = {f64, extents, [=](const Indices &i) -> Element {
                           const Element at = source(s, a, n, in, i[axis]);
                           const Element first = floor(at) - real(reach - 1);
                           Element total = real(0), sum = real(0);
                           for (int t = 0; t < 2 * reach; t++) {
                               const Element place = first + real(t);
                               Element w = weight(s, Element((place - at) / real(stretch)));
                               if (s.exclude_outside) {
                                   const Element outside = place < real(0) || place > real(static_cast<double>(in - 1));
                                   w = select(outside, real(0), w);
                               }
                               Indices own = i;
                               own[axis] = Halide::clamp(cast(i32, place), 0, static_cast<int>(in - 1));
                               total = total + w;
                               sum = sum + w * cast(f64, x.at(own));
                           }
                           const Element e = sum / total;
                           if (s.coordinates != "tf_crop_and_resize") return e;
                           const Element outside = at < real(0) || at > real(static_cast<double>(in - 1));
                           return select(outside, real(s.extrapolation), e);
                       }};
    return c.stored(made, "along");
}

Results resize(Call &c) {
    const View x = c.in(0);
    const bool old = c.node.opset < 11, upsample = c.node.op == "Upsample";
    const size_t scales_at = old ? 1 : 2, rank = x.rank();
    std::vector<int64_t> axes = c.node.integers("axes");
    if (!c.node.has("axes")) {
        axes.resize(rank);
        std::iota(axes.begin(), axes.end(), 0);
    }
    Sampling s{c.choice("mode", "nearest", {"nearest", "linear", "cubic"}),
               c.choice("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel",
                        {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                         "tf_half_pixel_for_nn", "tf_crop_and_resize"}),
               c.choice("nearest_mode", old ? "floor" : "round_prefer_floor",
                        {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}),
               c.node.number("cubic_coeff_a", -0.75f),
               c.node.number("extrapolation_value", 0),
               c.node.integer("antialias", 0) != 0,
               c.node.integer("exclude_outside", 0) != 0};
    std::vector<double> scales;
    if (upsample && c.node.has("scales")) {
        for (const float v : c.node.numbers("scales")) scales.push_back(v);
    } else if (c.has(scales_at)) {
        scales = c.numbers(scales_at);
    }
    const std::vector<int64_t> sizes = c.has(3) ? c.integers(3) : std::vector<int64_t>{};
    if ((scales.empty() ? sizes.size() : scales.size()) != axes.size())
        c.fail("scales or sizes of another number of axes");
    const std::vector<double> roi =
        c.has(1) && !old && s.coordinates == "tf_crop_and_resize" ? c.numbers(1) : std::vector<double>{};
    for (const int64_t e : x.extents) {
        if (e == 0) c.fail("an image without elements");
    }
    Axes a;
    const std::string policy = c.node.text("keep_aspect_ratio_policy", "stretch");
    std::vector<double> ratios;
    for (size_t n = 0; n < sizes.size() && scales.empty(); n++)
        ratios.push_back(static_cast<double>(sizes[n]) / static_cast<double>(x.extents[c.axis(axes[n], rank)]));
    const double common = ratios.empty() || policy == "stretch" ? 0
                          : policy == "not_larger"              ? *std::min_element(ratios.begin(), ratios.end())
                                                                : *std::max_element(ratios.begin(), ratios.end());
    for (size_t n = 0; n < axes.size(); n++) {
        const size_t d = c.axis(axes[n], rank);
        const auto in = static_cast<double>(x.extents[d]);
        const double scale = !scales.empty() ? scales[n] : common > 0 ? common : ratios[n];
        const double out = !scales.empty() ? std::floor(in * scale)
                           : common > 0    ? std::round(in * scale)
                                           : static_cast<double>(sizes[n]);
        if (!(out >= 0 && out <= INT32_MAX)) c.fail(fmt::format("axis {} becomes {} elements", d, out));
        if (scale == 1 && roi.empty()) continue;
        a.axes.push_back(d), a.scales.push_back(scale), a.outputs.push_back(static_cast<int64_t>(out));
        a.begin.push_back(roi.empty() ? 0 : roi.at(n)), a.end.push_back(roi.empty() ? 1 : roi.at(n + axes.size()));
    }
    View made = x;
    for (size_t n = 0; n < a.axes.size(); n++) made = resampled(c, made, s, a, n);
    // Sums of weights are not exact: integers are rounded.
    if (!is_floating(x.type) && made.type == f64)
        made = mapped(made, f64, [](const Element &e) -> Element { return round(e); });
    return {converted(made, x.type)};
}

} // namespace

std::vector<Operator> image_operators() {
    return {
        {"Resize", 10, resize},
        {"Upsample", 7, resize},
    };
}

} // namespace kumiko::graph
