#include "graph/formulas/windows.h"

#include "dsl/halide_passes.h"
#include "dsl/math.h"
#include "dsl/padding.h"
#include "dsl/reduction.h"
#include "dsl/tuple.h"
#include "dsl/types.h"
#include "ops/winograd.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kumiko::graph {

const std::vector<std::string> &paddings() {
    static const std::vector<std::string> all = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    return all;
}

std::vector<int64_t> kernel_of(const Call &c, size_t weights) {
    const Extents &e = c.extents(weights);
    if (e.size() < 3 || e.size() != c.extents(0).size())
        c.fail(fmt::format("an image of {} axes and weights of {}; legal are as many, 3 or more", c.extents(0).size(),
                           e.size()));
    const std::vector<int64_t> kernel(e.begin() + 2, e.end());
    if (c.node.integers("kernel_shape", kernel) != kernel) c.fail("kernel_shape is not that of the weights");
    return kernel;
}

Window window_of(const Call &c, const Extents &image, const std::vector<int64_t> &kernel) {
    if (image.size() < 3) c.fail(fmt::format("an image of {} axes; legal are 3 or more", image.size()));
    const size_t dims = image.size() - 2;
    const std::vector<int64_t> ones(dims, 1);
    Window w;
    w.kernel = c.lengths("kernel_shape", c.node.integers("kernel_shape", kernel), dims, 1);
    w.strides = c.lengths("strides", c.node.integers("strides", ones), dims, 1);
    w.dilations = c.lengths("dilations", c.node.integers("dilations", ones), dims, 1);
    const std::vector<int64_t> pads =
        c.lengths("pads", c.node.integers("pads", std::vector<int64_t>(2 * dims, 0)), 2 * dims, -INT32_MAX);
    const std::string automatic = c.choice("auto_pad", "NOTSET", paddings());
    const bool ceil = c.node.integer("ceil_mode", 0) != 0;
    for (size_t d = 0; d < dims; d++) {
        const int64_t in = image[2 + d], reach = (w.kernel[d] - 1) * w.dilations[d] + 1, s = w.strides[d];
        int64_t before = pads[d], after = pads[d + dims], out;
        if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
            out = (in + s - 1) / s;
            const int64_t total = std::max<int64_t>(0, (out - 1) * s + reach - in);
            before = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
            after = total - before;
        } else {
            if (automatic == "VALID") before = after = 0;
            const int64_t room = in + before + after - reach;
            // Rounded up, a window counts that exceeds the image by less than a stride.
            if (ceil)
                out = std::max<int64_t>(0, (room < 0 ? room : room + s - 1) / s + 1);
            else
                out = room < 0 ? 0 : room / s + 1;
            // The last window begins in the image or in the padding before it.
            if (ceil && out > 0 && (out - 1) * s >= in + before) out--;
        }
        w.before.push_back(before), w.after.push_back(after), w.outputs.push_back(out);
    }
    return w;
}

Expr position(const Window &w, size_t d, const Expr &at, const Expr &loop) {
    const auto times = [](const Expr &e, int64_t factor) { return factor == 1 ? e : e * static_cast<int>(factor); };
    const Expr p = times(at, w.strides[d]) + times(loop, w.dilations[d]);
    return w.before[d] == 0 ? p : p - static_cast<int>(w.before[d]);
}

StoredValue padded(const StoredValue &image, const Window &w, const Expr &value) {
    std::vector<Axis> axes; // along which windows reach beyond the image
    for (size_t d = 0; d < w.kernel.size(); d++) {
        const Axis &axis = image.axis(2 + d);
        const int64_t last = (w.outputs[d] - 1) * w.strides[d] + (w.kernel[d] - 1) * w.dilations[d] - w.before[d];
        if (w.before[d] > 0 || last >= *Halide::Internal::as_const_int(axis.extent())) axes.push_back(axis);
    }
    StoredValue made = image;
    if (!axes.empty()) made.tensor = constant_padded(image.tensor, value, axes);
    return made;
}

Expr in_image(const Window &w, size_t d, const Expr &at, const Expr &loop, int64_t extent) {
    const Expr p = position(w, d, at, loop);
    return p >= 0 && p < static_cast<int>(extent);
}

View convolved(Call &c, const StoredValue &image, const View &weights, const Window &w, Type type, const Expr &around) {
    const int64_t group = c.node.integer("group", 1), outputs = weights.extents[0], channels = weights.extents[1];
    const Extents in = image.extents();
    if (group < 1 || channels * group != in[1] || outputs % group)
        c.fail(fmt::format("{} groups of {} channels and {} outputs over an image of {} channels", group, channels,
                           outputs, in[1]));
    const StoredValue source = padded(image, w, around.defined() ? around : Expr(number(image.type(), 0)));
    const bool one_channel = channels == 1 && group > 1; // has no loop
    std::vector<Axis> loops;
    if (!one_channel) loops.push_back(c.loop(channels));
    for (const int64_t k : w.kernel) loops.push_back(c.loop(k));
    Extents extents = {in[0], outputs};
    extents.insert(extents.end(), w.outputs.begin(), w.outputs.end());
    const Type bits = summing(type, image.type(), weights.type, weights.elements() / std::max<int64_t>(outputs, 1));
    return {type, extents, [=](const Indices &i) -> Element {
                const auto scaled = [](const Expr &e, int64_t by) { return by == 1 ? e : e * static_cast<int>(by); };
                const auto part = [](const Expr &e, int64_t by) { return by == 1 ? e : e / static_cast<int>(by); };
                const Expr channel = one_channel ? Expr(0) : Expr(loops[0]);
                Expr of_image = channel;
                if (group > 1) {
                    of_image = scaled(part(i[1], outputs / group), channels);
                    if (!one_channel) of_image = of_image + channel;
                }
                Indices at = {i[0], of_image}, weight = {i[1], channel};
                for (size_t d = 0; d < w.kernel.size(); d++) {
                    const Axis &loop = loops[loops.size() - w.kernel.size() + d];
                    at.push_back(position(w, d, i[2 + d], loop));
                    weight.push_back(loop);
                }
                const Element x = cast(bits, source.at(at)), y = cast(bits, weights.at(weight));
                return cast(type, sum(x * y, loops));
            }};
}

std::optional<int> winograd_tile_of(const Node &node) {
    const auto found = node.metadata.find(winograd_key);
    if (found == node.metadata.end()) return std::nullopt;
    if (found->second != "2" && found->second != "4")
        throw UserError(
            fmt::format("{}: its metadata {} is \"{}\"; legal are 2 and 4", node.label(), winograd_key, found->second));
    return found->second == "2" ? 2 : 4;
}

View convolved_by_winograd(Call &c, const StoredValue &image, const View &weights, const Window &w, int tile) {
    const std::vector<int64_t> threes = {3, 3}, ones = {1, 1};
    if (image.type() != f32 || weights.type != f32 || w.kernel != threes || w.dilations != ones ||
        w.strides[0] != w.strides[1] || w.strides[0] > 2 || c.node.integer("group", 1) != 1)
        c.fail(fmt::format("its metadata {} is for f32, a window of 3 × 3, dilation 1, stride 1 or 2, and one group",
                           winograd_key));
    const Extents in = image.extents();
    if (weights.extents[1] != in[1])
        c.fail(fmt::format("weights of {} channels over an image of {}", weights.extents[1], in[1]));
    const auto stride = static_cast<int>(w.strides[0]);
    std::vector<Axis> axes; // along which tiles reach beyond the image
    for (size_t d = 0; d < 2; d++) {
        const int64_t tiles = (w.outputs[d] + tile - 1) / tile,
                      last = (tiles * tile - 1) * stride + 2 - w.before[d]; // read by the last tile
        if (w.before[d] > 0 || last >= in[2 + d]) axes.push_back(image.axis(2 + d));
    }
    StoredValue source = image;
    if (!axes.empty()) source.tensor = constant_padded(image.tensor, number(f32, 0), axes);
    const Axis images = c.ranging("n", in[0]), channels = c.loop(in[1]), filters = c.ranging("o", weights.extents[0]);
    const auto shifted = [&](const Expr &e, size_t d) {
        return w.before[d] == 0 ? e : e - static_cast<int>(w.before[d]);
    };
    const Tensor tiles = ops::winograd_tiles(
        {f32, images, channels, filters, static_cast<int>(w.outputs[0]), static_cast<int>(w.outputs[1]), tile, stride,
         [&](const Expr &y, const Expr &x) -> Expr {
             return source.at({Expr(images), Expr(channels), shifted(y, 0), shifted(x, 1)});
         },
         [&](int ky, int kx) -> Expr {
             return weights.at({Expr(filters), Expr(channels), ky, kx});
         },
         [&](const std::string &stage) { return c.stage_name(stage); }});
    return {f32, {in[0], weights.extents[0], w.outputs[0], w.outputs[1]}, [=](const Indices &i) -> Element {
                return tiles.at({i[0], i[2] / tile, i[3] / tile, i[2] % tile, i[3] % tile, i[1]});
            }};
}

namespace {

// The loops over a pool's window, and the indices at which it reads the image.
struct Pooled {
    std::vector<Axis> loops;
    Indices at(const Window &w, const Indices &i) const {
        Indices all = {i[0], i[1]};
        for (size_t d = 0; d < loops.size(); d++) all.push_back(position(w, d, i[2 + d], loops[d]));
        return all;
    }
    // The first index that the window reads.
    Indices first(const Window &w, const Indices &i) const {
        Indices all = {i[0], i[1]};
        for (size_t d = 0; d < loops.size(); d++) all.push_back(position(w, d, i[2 + d], 0));
        return all;
    }
};

Pooled pooled(Call &c, const Window &w) {
    Pooled p;
    for (const int64_t k : w.kernel) p.loops.push_back(c.loop(k));
    return p;
}

Extents pool_extents(const Call &c, const Window &w) {
    Extents extents = {c.extents(0)[0], c.extents(0)[1]};
    extents.insert(extents.end(), w.outputs.begin(), w.outputs.end());
    return extents;
}

Results max_pool(Call &c) {
    const Window w = window_of(c, c.extents(0), c.node.integers("kernel_shape"));
    const Type t = c.type(0);
    const StoredValue source = padded(c.stored_input(0), w, is_floating(t) ? Expr(number(t, -INFINITY)) : t.min());
    const Pooled p = pooled(c, w);
    const Extents extents = pool_extents(c, w);
    // The only element of a window is its result, also if it is NaN.
    const bool single = std::all_of(w.kernel.begin(), w.kernel.end(), [](int64_t k) { return k == 1; });
    Results made = {View{t, extents, [=](const Indices &i) -> Element {
                             return single ? Element(source.at(p.first(w, i)))
                                           : maximum(source.at(p.at(w, i)), p.loops);
                         }}};
    if (!c.wants(1)) return made;
    // The positions of the largest elements in the image, counted over the whole tensor: the first
    // among those that are not padding.
    const Extents own = c.extents(0);
    const auto later = [](Values a, Values b) -> Values {
        const Expr take = b[0] != 0 && (a[0] == 0 || b[1] > a[1]);
        return {Halide::select(take, b[0], a[0]), Halide::select(take, b[1], a[1]), Halide::select(take, b[2], a[2])};
    };
    const View best = c.stored({i32, extents,
                                [=](const Indices &i) -> Element {
                                    Expr inside = Halide::Internal::const_true(), place = 0;
                                    for (size_t d = 0; d < w.kernel.size(); d++) {
                                        inside = inside && in_image(w, d, i[2 + d], p.loops[d], own[2 + d]);
                                        place = place * static_cast<int>(w.kernel[d]) + p.loops[d];
                                    }
                                    const Tuple first = reduce(
                                        later, {Expr(0), Expr(number(t, 0)), Expr(0)},
                                        {Element(cast(i32, inside)), source.at(p.at(w, i)), Element(place)}, p.loops);
                                    return first[2];
                                }},
                               "best");
    const bool columns_first = c.node.integer("storage_order", 0) != 0;
    const Extents image = c.extents(0);
    made.push_back(View{i64, extents, [=](const Indices &i) -> Element {
                            const size_t dims = w.kernel.size();
                            Expr rest = best.at(i);
                            Indices at(dims);
                            for (size_t d = dims; d-- > 0;) {
                                const int k = static_cast<int>(w.kernel[d]);
                                at[d] = position(w, d, i[2 + d], rest % k);
                                rest = rest / k;
                            }
                            Expr linear = i[0] * static_cast<int>(image[1]) + i[1];
                            for (size_t n = 0; n < dims; n++) linear = linear * static_cast<int>(image[2 + n]);
                            Expr inside = 0;
                            for (size_t n = 0; n < dims; n++) {
                                const size_t d = columns_first ? dims - 1 - n : n;
                                inside = inside * static_cast<int>(image[2 + d]) + at[d];
                            }
                            return cast(i64, linear + inside);
                        }});
    return made;
}

Results average_pool(Call &c) {
    const Window w = window_of(c, c.extents(0), c.node.integers("kernel_shape"));
    const bool with_padding = c.node.integer("count_include_pad", 0) != 0;
    const Type t = c.type(0), in = accumulator(t);
    const StoredValue source = padded(c.stored_input(0), w, number(t, 0));
    const Extents image = c.extents(0);
    const Pooled p = pooled(c, w);
    const View sums =
        c.stored({in, pool_extents(c, w),
                  [=](const Indices &i) -> Element { return sum(Element(cast(in, source.at(p.at(w, i)))), p.loops); }},
                 "sums");
    return {View{t, sums.extents, [=](const Indices &i) -> Element {
                     // How many positions of the window count: a product over the axes.
                     Expr count = 1;
                     for (size_t d = 0; d < w.kernel.size(); d++) {
                         const auto extent = static_cast<int>(image[2 + d]);
                         const int low = with_padding ? -static_cast<int>(w.before[d]) : 0,
                                   high = with_padding ? extent + static_cast<int>(w.after[d]) : extent;
                         Expr along = 0;
                         for (int64_t k = 0; k < w.kernel[d]; k++) {
                             const Expr at = position(w, d, i[2 + d], static_cast<int>(k));
                             along = along + cast(i32, at >= low && at < high);
                         }
                         count = count * Halide::Internal::simplify(along);
                     }
                     return cast(t, sums.at(i) / Element(cast(in, count)));
                 }}};
}

Results lp_pool(Call &c) {
    const Window w = window_of(c, c.extents(0), c.node.integers("kernel_shape"));
    const auto power = static_cast<double>(c.node.integer("p", 2));
    const Type t = c.type(0), in = accumulator(t);
    const StoredValue source = padded(c.stored_input(0), w, number(t, 0));
    const Pooled p = pooled(c, w);
    const View sums = c.stored({in, pool_extents(c, w),
                                [=](const Indices &i) -> Element {
                                    const Element e = abs(Element(cast(in, source.at(p.at(w, i)))));
                                    return sum(pow(e, number(in, power)), p.loops);
                                }},
                               "sums");
    return {mapped(sums, t, [=](const Element &e) { return Element(cast(t, pow(e, number(in, 1 / power)))); })};
}

enum class Global { Average, Max, Lp };

Formula global_pool(Global kind) {
    return [=](Call &c) -> Results {
        const View x = c.in(0);
        if (x.rank() < 3) c.fail("an image of fewer than 3 axes");
        const Type t = x.type, in = accumulator(t);
        std::vector<Axis> loops;
        double count = 1;
        Extents extents = {x.extents[0], x.extents[1]};
        for (size_t d = 2; d < x.rank(); d++) {
            loops.push_back(c.loop(x.extents[d]));
            count *= static_cast<double>(x.extents[d]);
            extents.push_back(1);
        }
        const auto power = static_cast<double>(c.node.integer("p", 2));
        const View made = {in, extents, [=](const Indices &i) -> Element {
                               Indices at = {i[0], i[1]};
                               at.insert(at.end(), loops.begin(), loops.end());
                               const Element e = cast(in, x.at(at));
                               if (kind == Global::Max) return maximum(e, loops);
                               if (kind == Global::Average) return sum(e, loops);
                               return sum(pow(Element(abs(e)), number(in, power)), loops);
                           }};
        if (kind == Global::Max) return {converted(made, t)};
        return {mapped(c.stored(made, "sums"), t, [=](const Element &e) -> Element {
            return cast(t, kind == Global::Average ? e / number(in, count) : Element(pow(e, number(in, 1 / power))));
        })};
    };
}

} // namespace

std::vector<Operator> window_operators() {
    return {
        {"MaxPool", 1, max_pool},
        {"AveragePool", 1, average_pool},
        {"LpPool", 2, lp_pool},
        {"GlobalAveragePool", 1, global_pool(Global::Average)},
        {"GlobalMaxPool", 1, global_pool(Global::Max)},
        {"GlobalLpPool", 2, global_pool(Global::Lp)},
    };
}

} // namespace kumiko::graph
