// Operators on regions of interest of images: RoiAlign and MaxRoiPool.
#include "dsl/halide_passes.h"
#include "dsl/reduction.h"
#include "graph/formulas/positions.h"

#include <array>
#include <cmath>

namespace kumiko::graph {

namespace {

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

// Along each axis: 0 is the rows, 1 the columns.
struct RoiAlign {
    View x, rois, batches;
    int64_t outputs[2], image[2]; // extents
    int64_t ratio;                // samples of a bin along an axis; 0: from the region's extent
    double scale;                 // factor from positions of a region to positions of the image
    bool half;                    // elements have their centres between positions
    bool maximal;                 // the maximum of samples, else their average
    Type type;                    // of positions and weights
    // Samples of a bin that the loops visit. Several samples are at least half an element apart, so
    // that no more are in the image or one element around it.
    int64_t most(size_t d) const { return ratio > 0 ? ratio : 2 * image[d] + 4; }
    Extents extents() const { return {rois.extents[0], x.extents[1], outputs[0], outputs[1]}; }
    Expr batch(const Expr &region) const {
        return Halide::clamp(cast(i32, batches.at({region})), 0, small(x.extents[0] - 1));
    }
};

RoiAlign read_roi_align(Call &c) {
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
    return {x,
            rois,
            batches,
            {height, width},
            {x.extents[2], x.extents[3]},
            ratio,
            c.node.number("spatial_scale", 1),
            half,
            maximal,
            accumulator(x.type)};
}

// Along one axis of the regions.
struct RoiAxis {
    View begin, bin, count; // [region]: where it begins, the extent of a bin, the samples of a bin
    View first;             // [region, bin]: the first sample that may be in the image
};

RoiAxis roi_axis(Call &c, const RoiAlign &roi, int d) {
    const Type t = roi.type;
    const auto edge = [=](const Indices &i, int side) -> Element {
        const Element e = Element(cast(t, roi.rois.at({i[0], small(2 * side + 1 - d)}))) * number(t, roi.scale);
        return e - number(t, roi.half ? 0.5 : 0);
    };
    const Extents extents = {roi.rois.extents[0]};
    const auto outputs = static_cast<double>(roi.outputs[d]);
    const View begin = c.stored({t, extents, [=](const Indices &i) { return edge(i, 0); }}, "begin");
    const View bin = c.stored({t, extents,
                               [=](const Indices &i) -> Element {
                                   const Element extent = edge(i, 1) - edge(i, 0);
                                   return (roi.half ? extent : max(extent, number(t, 1))) / number(t, outputs);
                               }},
                              "bin");
    const View count = c.stored({t, extents,
                                 [=](const Indices &i) -> Element {
                                     return roi.ratio > 0 ? number(t, static_cast<double>(roi.ratio))
                                                          : Element(max(Element(ceil(bin.at(i))), number(t, 0)));
                                 }},
                                "count");
    return {begin, bin, count, {}};
}

View first_samples(const RoiAlign &roi, const RoiAxis &axis, int d) {
    const Type t = roi.type;
    return {t, {roi.rois.extents[0], roi.outputs[d]}, [=](const Indices &i) -> Element {
                if (roi.ratio > 0) return number(t, 0);
                const Element bin = axis.bin.at({i[0]}), count = axis.count.at({i[0]});
                const Element begin = axis.begin.at({i[0]}) + Element(cast(t, i[1])) * bin;
                const Element step = bin / max(count, number(t, 1));
                const Element skipped = ceil(Element((number(t, -1) - begin) / step - number(t, 0.5))) - number(t, 1);
                return select(step > number(t, 0), max(skipped, number(t, 0)), number(t, 0));
            }};
}

struct RoiSample {
    Sample sample;
    Element exists; // the bin has the sample
};

// A sample of a bin, counted from the first that may be in the image.
RoiSample roi_sample(const RoiAxis &axis, const Expr &region, const Expr &bin_index, const Expr &loop, int64_t image) {
    const Type t = axis.bin.type;
    const Element bin = axis.bin.at({region}), count = axis.count.at({region});
    const Element n = axis.first.at({region, bin_index}) + Element(cast(t, loop));
    const Element at = axis.begin.at({region}) + Element(cast(t, bin_index)) * bin +
                       (n + number(t, 0.5)) * bin / max(count, number(t, 1));
    return {sample_at(at, image), n < count};
}

using RoiAxes = std::array<RoiAxis, 2>;

Element samples_of_bin(const RoiAxes &axes, const Expr &region) {
    const Type t = axes[0].count.type;
    return max(axes[0].count.at({region}) * axes[1].count.at({region}), number(t, 1));
}

// The four elements around a sample with their weights: the sum, or the largest product.
Element around_sample(const RoiAlign &roi, const Indices &i, const Sample &y, const Sample &x) {
    const Type t = roi.type;
    std::optional<Element> joined;
    for (int corner = 0; corner < 4; corner++) {
        const bool down = corner >= 2, right = corner % 2 == 1;
        const Expr row = whole_index(down ? y.far : y.near, roi.image[0]);
        const Expr column = whole_index(right ? x.far : x.near, roi.image[1]);
        const Element wy = down ? y.weight : Element(number(t, 1) - y.weight);
        const Element wx = right ? x.weight : Element(number(t, 1) - x.weight);
        const Element e = wy * wx * Element(cast(t, roi.x.at({roi.batch(i[0]), i[1], row, column})));
        joined = !joined ? e : roi.maximal ? Element(max(*joined, e)) : Element(*joined + e);
    }
    return *joined;
}

// Visits all samples of a bin.
View align_by_samples(Call &c, const RoiAlign &roi, const RoiAxes &axes) {
    const Axis ky = c.loop(roi.most(0)), kx = c.loop(roi.most(1));
    const Type type = roi.x.type, t = roi.type;
    return {type, roi.extents(), [=](const Indices &i) -> Element {
                const RoiSample y = roi_sample(axes[0], i[0], i[2], ky, roi.image[0]),
                                x = roi_sample(axes[1], i[0], i[3], kx, roi.image[1]);
                const Element exists = y.exists && x.exists;
                const Element inside = exists && y.sample.inside && x.sample.inside;
                const Element term = select(inside, around_sample(roi, i, y.sample, x.sample), number(t, 0));
                if (!roi.maximal) return cast(type, sum(term, {ky, kx}) / samples_of_bin(axes, i[0]));
                // Samples that no loop visits are zeros beyond the image.
                const auto unseen = [&](size_t d, const Expr &bin) -> Element {
                    const Element skipped = axes[d].first.at({i[0], bin});
                    const Element count = axes[d].count.at({i[0]});
                    return skipped > number(t, 0) || skipped + number(t, static_cast<double>(roi.most(d))) < count;
                };
                const Element most = maximum(select(exists, term, number(t, -INFINITY)), {ky, kx});
                const Element none =
                    axes[0].count.at({i[0]}) <= number(t, 0) || axes[1].count.at({i[0]}) <= number(t, 0);
                const Element with_zeros = select(unseen(0, i[2]) || unseen(1, i[3]), max(most, number(t, 0)), most);
                return cast(type, select(none, number(t, 0), with_zeros));
            }};
}

// The average as two products, with the weight of each row of the image for a bin and of each
// column. Elements without weight do not count, whatever they are.
View align_by_products(Call &c, const RoiAlign &roi, const RoiAxes &axes) {
    const Type type = roi.x.type, t = roi.type;
    std::vector<View> weights;
    for (size_t d = 0; d < 2; d++) {
        const Axis loop = c.loop(roi.most(d));
        weights.push_back(c.stored({t,
                                    {roi.rois.extents[0], roi.outputs[d], roi.image[d]},
                                    [=](const Indices &i) -> Element {
                                        const RoiSample p = roi_sample(axes[d], i[0], i[1], loop, roi.image[d]);
                                        const Element own = cast(t, i[2]), zero = number(t, 0);
                                        const Element part =
                                            select(own == p.sample.near, number(t, 1) - p.sample.weight, zero) +
                                            select(own == p.sample.far, p.sample.weight, zero);
                                        return sum(select(p.exists && p.sample.inside, part, zero), loop);
                                    }},
                                   "weights"));
    }
    const auto weighted = [=](const Element &w, const Element &e) -> Element {
        return select(w == number(t, 0), number(t, 0), w * e);
    };
    const Axis rows = c.loop(roi.image[0]), columns = c.loop(roi.image[1]);
    const View down = c.stored({t,
                                {roi.rois.extents[0], roi.x.extents[1], roi.outputs[0], roi.image[1]},
                                [=](const Indices &i) -> Element {
                                    const Element e = cast(t, roi.x.at({roi.batch(i[0]), i[1], rows, i[3]}));
                                    return sum(weighted(weights[0].at({i[0], i[2], rows}), e), rows);
                                }},
                               "down");
    return {type, roi.extents(), [=](const Indices &i) -> Element {
                const Element e = down.at({i[0], i[1], i[2], columns});
                const Element total = sum(weighted(weights[1].at({i[0], i[3], columns}), e), columns);
                return cast(type, total / samples_of_bin(axes, i[0]));
            }};
}

Results roi_align(Call &c) {
    const RoiAlign roi = read_roi_align(c);
    RoiAxes axes;
    for (int d = 0; d < 2; d++) axes[size_t(d)] = roi_axis(c, roi, d);
    for (int d = 0; d < 2; d++) axes[size_t(d)].first = c.stored(first_samples(roi, axes[size_t(d)], d), "first");
    return {roi.maximal || roi.ratio > 0 ? align_by_samples(c, roi, axes) : align_by_products(c, roi, axes)};
}

Results max_roi_pool(Call &c) {
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

} // namespace

std::vector<Operator> region_operators() { return {{"RoiAlign", 10, roi_align}, {"MaxRoiPool", 1, max_roi_pool}}; }

} // namespace kumiko::graph
