// Operators that move elements without computing with them, and those that make constants.
//
// One file, because it is one table: a short formula for each operator.
#include "dsl/halide_passes.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"

#include <fmt/format.h>
#include <numeric>

namespace kumiko::graph {

namespace {

// An index that is inside of the extent, whatever it is.
Expr inside(const Expr &index, int64_t extent) {
    return Halide::clamp(index, 0, static_cast<int>(std::max<int64_t>(extent, 1) - 1));
}

Results reshape(Call &c) {
    const View x = c.in(0);
    Extents extents = c.integers(1, "shape");
    const bool allow_zero = c.node.integer("allowzero", 0) != 0;
    std::optional<size_t> open;
    for (size_t d = 0; d < extents.size(); d++) {
        if (extents[d] == 0 && !allow_zero) {
            if (d >= x.rank())
                c.fail(fmt::format("extent {} of the new shape is that of an axis that the input lacks", d));
            extents[d] = x.extents[d];
        }
        if (extents[d] == -1 && !open) {
            open = d;
            extents[d] = 1;
        } else if (extents[d] < 0) {
            c.fail(
                fmt::format("the new shape has the extent {}; legal are numbers from 0 on, and -1 once", extents[d]));
        }
    }
    const int64_t all = x.elements();
    if (open) {
        const int64_t known = elements_of(extents);
        extents[*open] = known == 0 ? 0 : all / known;
    }
    if (elements_of(extents) != all) c.fail(fmt::format("{} elements do not fill the new shape", all));
    return {reshaped(x, extents)};
}

Results flatten(Call &c) {
    const View x = c.in(0);
    const int64_t axis = c.node.integer("axis", 1);
    const size_t at = axis == int64_t(x.rank()) ? x.rank() : c.axis(axis, x.rank());
    return {reshaped(x, {elements_of(x.extents, 0, at), elements_of(x.extents, at, x.rank())})};
}

Results transpose(Call &c) {
    const View x = c.in(0);
    std::vector<size_t> order;
    for (const int64_t d : c.node.integers("perm")) order.push_back(c.axis(d, x.rank()));
    if (!c.node.has("perm")) {
        for (size_t d = x.rank(); d-- > 0;) order.push_back(d);
    }
    if (order.size() != x.rank()) c.fail(fmt::format("perm has {} of {} axes", order.size(), x.rank()));
    return {transposed(x, order)};
}

Results squeeze(Call &c) {
    const View x = c.in(0);
    const bool named = c.has(1) || c.node.has("axes");
    const std::vector<size_t> gone = c.axes(c.integers(1, "axes"), x.rank());
    Extents extents;
    for (size_t d = 0; d < x.rank(); d++) {
        const bool listed = std::binary_search(gone.begin(), gone.end(), d);
        if (listed && x.extents[d] != 1)
            c.fail(fmt::format("axis {} has {} elements; only axes of one go", d, x.extents[d]));
        if (named ? !listed : x.extents[d] != 1) extents.push_back(x.extents[d]);
    }
    return {reshaped(x, extents)};
}

Results unsqueeze(Call &c) {
    const View x = c.in(0);
    const std::vector<int64_t> named = c.integers(1, "axes");
    const size_t rank = x.rank() + named.size();
    const std::vector<size_t> added = c.axes(named, rank);
    Extents extents;
    size_t from = 0;
    for (size_t d = 0; d < rank; d++)
        extents.push_back(std::binary_search(added.begin(), added.end(), d) ? 1 : x.extents[from++]);
    return {reshaped(x, extents)};
}

Results expand(Call &c) {
    const View x = c.in(0);
    return {broadcast(x, broadcast(c, {x.extents, c.integers(1)}))};
}

Results tile(Call &c) {
    const View x = c.in(0);
    const std::vector<int64_t> times = c.integers(1);
    if (times.size() != x.rank()) c.fail(fmt::format("{} repeats of {} axes", times.size(), x.rank()));
    Extents extents = x.extents;
    for (size_t d = 0; d < x.rank(); d++) extents[d] *= times[d];
    return {View{x.type, extents, [=](const Indices &i) {
                     Indices own = i;
                     for (size_t d = 0; d < own.size(); d++) {
                         if (times[d] != 1)
                             own[d] = x.extents[d] == 1 ? Expr(0) : i[d] % static_cast<int>(x.extents[d]);
                     }
                     return x.at(own);
                 }}};
}

// Joins views along an axis.
View joined(const std::vector<View> &parts, size_t axis) {
    Extents extents = parts.front().extents;
    extents[axis] = 0;
    std::vector<View> filled;
    for (const View &p : parts) {
        extents[axis] += p.extents[axis];
        if (p.elements() > 0) filled.push_back(p);
    }
    return {parts.front().type, extents, [=](const Indices &i) -> Element {
                std::optional<Element> made;
                int64_t end = extents[axis];
                for (size_t n = filled.size(); n-- > 0;) {
                    const int64_t extent = filled[n].extents[axis], begin = end - extent;
                    Indices own = i;
                    own[axis] = filled.size() == 1 ? i[axis] : inside(i[axis] - static_cast<int>(begin), extent);
                    const Element e = filled[n].at(own);
                    made = made ? select(Element(i[axis] < static_cast<int>(end)), e, *made) : e;
                    end = begin;
                }
                return *made;
            }};
}

Results concat(Call &c) {
    if (!c.node.has("axis")) c.fail("no axis is named");
    std::vector<View> parts = {c.in(0)};
    for (size_t n = 1; n < c.size(); n++) parts.push_back(c.in(n));
    const size_t rank = parts[0].rank(), axis = c.axis(c.node.integer("axis", 1), rank);
    for (const View &p : parts) {
        for (size_t d = 0; d < rank; d++) {
            if (p.rank() != rank || (d != axis && p.extents[d] != parts[0].extents[d]))
                c.fail(fmt::format("its inputs differ in an axis other than {}", axis));
        }
    }
    return {joined(parts, axis)};
}

View part(const View &x, size_t axis, int64_t begin, int64_t extent) {
    Extents extents = x.extents;
    extents[axis] = extent;
    return {x.type, extents, [=](const Indices &i) {
                Indices own = i;
                own[axis] = i[axis] + static_cast<int>(begin);
                return x.at(own);
            }};
}

Results split(Call &c) {
    const View x = c.in(0);
    const size_t axis = c.axis(c.node.integer("axis", 0), x.rank()), count = c.node.outputs.size();
    std::vector<int64_t> parts = c.integers(1, "split");
    const int64_t all = x.extents[axis];
    if (parts.empty()) { // equal parts; the last one may be smaller
        const int64_t each = (all + int64_t(count) - 1) / int64_t(count);
        for (size_t n = 0; n < count; n++) parts.push_back(std::clamp<int64_t>(all - int64_t(n) * each, 0, each));
    }
    parts = c.lengths("split", parts, count, 0);
    if (std::accumulate(parts.begin(), parts.end(), int64_t(0)) != all)
        c.fail(fmt::format("its {} parts do not add up to the {} elements of the axis", parts.size(), all));
    Results made;
    int64_t begin = 0;
    for (const int64_t p : parts) {
        made.push_back(part(x, axis, begin, p));
        begin += p;
    }
    return made;
}

Results slice(Call &c) {
    const View x = c.in(0);
    const std::vector<int64_t> starts = c.integers(1, "starts"), ends = c.integers(2, "ends");
    std::vector<int64_t> axes = c.integers(3, "axes"), steps = c.has(4) ? c.integers(4) : std::vector<int64_t>{};
    if (axes.empty()) {
        axes.resize(starts.size());
        std::iota(axes.begin(), axes.end(), 0);
    }
    if (steps.empty()) steps.assign(starts.size(), 1);
    if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
        c.fail("starts, ends, axes and steps have different lengths");
    std::vector<int64_t> first(x.rank(), 0), step(x.rank(), 1);
    Extents extents = x.extents;
    for (size_t n = 0; n < starts.size(); n++) {
        const size_t d = c.axis(axes[n], x.rank());
        const int64_t e = x.extents[d];
        const int64_t s = std::clamp<int64_t>(steps[n], -INT32_MAX, INT32_MAX); // beyond extents
        if (s == 0) c.fail("a step of 0");
        const auto bound = [&](int64_t v, int64_t low, int64_t high) {
            return std::clamp(v < 0 ? v + e : v, low, high);
        };
        const int64_t begin = s > 0 ? bound(starts[n], 0, e) : bound(starts[n], -1, e - 1);
        const int64_t end = s > 0 ? bound(ends[n], 0, e) : bound(ends[n], -1, e - 1);
        extents[d] = std::max<int64_t>(0, s > 0 ? (end - begin + s - 1) / s : (begin - end - s - 1) / -s);
        first[d] = begin, step[d] = s;
    }
    return {View{x.type, extents, [=](const Indices &i) {
                     Indices own;
                     for (size_t d = 0; d < i.size(); d++)
                         own.push_back(step[d] == 1 && first[d] == 0
                                           ? i[d]
                                           : i[d] * static_cast<int>(step[d]) + static_cast<int>(first[d]));
                     return x.at(own);
                 }}};
}

Results pad(Call &c) {
    const View x = c.in(0);
    const std::string mode = c.choice("mode", "constant", {"constant", "reflect", "edge", "wrap"});
    std::vector<int64_t> axes = c.has(3) ? c.integers(3) : std::vector<int64_t>{};
    if (!c.has(3)) {
        axes.resize(x.rank());
        std::iota(axes.begin(), axes.end(), 0);
    }
    const auto pads = c.lengths("pads", c.integers(1, "pads"), 2 * axes.size(), -INT32_MAX);
    std::vector<int64_t> before(x.rank(), 0);
    Extents extents = x.extents;
    for (size_t n = 0; n < axes.size(); n++) {
        const size_t d = c.axis(axes[n], x.rank());
        before[d] = pads[n];
        extents[d] += pads[n] + pads[n + axes.size()];
        if (extents[d] < 0) c.fail("negative pads that leave less than nothing");
        if (mode != "constant" && x.extents[d] == 0 && extents[d] > 0)
            c.fail(fmt::format("pads by the elements of axis {}, which has none; legal is the mode \"constant\"", d));
    }
    const Type t = x.type;
    View value = constant_view(
        t, {}, [=, number = c.node.number("value", 0)](const Indices &) { return kumiko::graph::number(t, number); });
    if (c.has(2)) value = reshaped(c.in(2), {});
    View::Padding padding{{}, before, {}};
    if (mode == "constant" && x.elements() > 0 && (!c.has(2) || c.known(2)) && c.is_input(0) &&
        std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p >= 0; }))
        padding.inner = c.tensor(0), padding.number = Halide::Internal::simplify(value.at({}));
    const auto around = padding.inner.defined() ? std::make_shared<const View::Padding>(padding) : nullptr;
    return {View{t, extents,
                 [=](const Indices &i) -> Element {
                     Indices own = i;
                     Expr known = Halide::Internal::const_true();
                     for (size_t d = 0; d < i.size(); d++) {
                         const int e = static_cast<int>(x.extents[d]);
                         if (before[d] == 0 && extents[d] == e) continue;
                         const Expr at = i[d] - static_cast<int>(before[d]);
                         if (mode == "wrap") {
                             own[d] = inside(at % std::max(e, 1), e);
                         } else if (mode == "reflect") {
                             const int period = std::max(2 * e - 2, 1);
                             const Expr phase = at % period;
                             own[d] = inside(Halide::min(phase, period - phase), e);
                         } else {
                             own[d] = inside(at, e);
                             if (mode == "constant") known = known && at >= 0 && at < e;
                         }
                     }
                     if (mode != "constant") return x.at(own);
                     if (x.elements() == 0) return value.at({});
                     return select(Element(known), x.at(own), value.at({}));
                 },
                 around}};
}

Results depth_to_space(Call &c) {
    const View x = c.in(0);
    const int64_t b = c.node.integer("blocksize", 1);
    const bool columns_first = c.node.text("mode", "DCR") == "CRD";
    if (x.rank() != 4 || b < 1 || x.extents[1] % (b * b)) c.fail("its input is no image whose channels are blocks");
    const int64_t n = x.extents[0], depth = x.extents[1] / (b * b), h = x.extents[2], w = x.extents[3];
    if (columns_first)
        return {
            reshaped(transposed(reshaped(x, {n, depth, b, b, h, w}), {0, 1, 4, 2, 5, 3}), {n, depth, h * b, w * b})};
    return {reshaped(transposed(reshaped(x, {n, b, b, depth, h, w}), {0, 3, 4, 1, 5, 2}), {n, depth, h * b, w * b})};
}

Results space_to_depth(Call &c) {
    const View x = c.in(0);
    const int64_t b = c.node.integer("blocksize", 1);
    if (x.rank() != 4 || b < 1 || x.extents[2] % b || x.extents[3] % b) c.fail("its input is no image of whole blocks");
    const int64_t n = x.extents[0], depth = x.extents[1], h = x.extents[2] / b, w = x.extents[3] / b;
    if (c.node.text("mode", "DCR") == "CRD")
        return {
            reshaped(transposed(reshaped(x, {n, depth, h, b, w, b}), {0, 1, 3, 5, 2, 4}), {n, depth * b * b, h, w})};
    return {reshaped(transposed(reshaped(x, {n, depth, h, b, w, b}), {0, 3, 5, 1, 2, 4}), {n, depth * b * b, h, w})};
}

Results trilu(Call &c) {
    const View x = c.in(0);
    const bool upper = c.node.integer("upper", 1) != 0;
    const int64_t k = c.has(1) ? c.integers(1).at(0) : 0;
    if (x.rank() < 2) c.fail("a tensor of less than two axes");
    const int shift = static_cast<int>(std::clamp<int64_t>(k, -(1 << 30), 1 << 30));
    return {View{x.type, x.extents, [=](const Indices &i) -> Element {
                     const Expr row = i[i.size() - 2] + shift, column = i.back();
                     return select(Element(upper ? column >= row : column <= row), x.at(i), number(x.type, 0));
                 }}};
}

Results shape(Call &c) {
    const Extents &e = c.extents(0);
    const auto rank = static_cast<int64_t>(e.size());
    const auto bound = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
    const int64_t start = bound(c.node.integer("start", 0)), end = std::max(start, bound(c.node.integer("end", rank)));
    return {int64_tensor({e.begin() + start, e.begin() + end}, {end - start})};
}

Results size(Call &c) { return {int64_tensor({elements_of(c.extents(0))}, {})}; }

Results constant(Call &c) {
    if (const auto tensor = c.node.tensor("value")) return {*tensor};
    if (c.node.has("value_int")) return {int64_tensor({c.node.integer("value_int", 0)}, {})};
    if (c.node.has("value_ints")) {
        const std::vector<int64_t> values = c.node.integers("value_ints");
        return {int64_tensor(values, {int64_t(values.size())})};
    }
    const bool one = c.node.has("value_float");
    if (!one && !c.node.has("value_floats"))
        c.unsupported("a constant of texts or of a sparse tensor; supported are dense tensors and numbers");
    const std::vector<float> values =
        one ? std::vector<float>{c.node.number("value_float", 0)} : c.node.numbers("value_floats");
    Buffer<> b(f32, one ? Extents{} : Extents{int64_t(values.size())});
    std::copy(values.begin(), values.end(), static_cast<float *>(b.data()));
    return {b};
}

Results constant_of_shape(Call &c) {
    const Extents extents = c.integers(0);
    for (const int64_t e : extents) {
        if (e < 0) c.fail(fmt::format("the extent {}", e));
    }
    const auto value = c.node.tensor("value");
    const Type t = value ? Type(value->type()) : f32;
    if (!value) return {constant_view(t, extents, [](const Indices &) { return Expr(0.f); })};
    return {constant_view(t, extents, [bits = *value, t](const Indices &) -> Expr {
        const void *data = bits.data();
        switch (t.bytes()) { // the bits, whatever the type
        case 1: {
            const int v = *static_cast<const uint8_t *>(data);
            return t == boolean ? Halide::Internal::make_bool(v != 0) : reinterpret(t, cast(u8, Expr(v)));
        }
        case 2:
            return reinterpret(t, cast(u16, Expr(int(*static_cast<const uint16_t *>(data)))));
        case 4:
            return reinterpret(t, Halide::Internal::make_const(u32, int64_t(*static_cast<const uint32_t *>(data))));
        default:
            return reinterpret(t, Halide::Internal::UIntImm::make(u64, *static_cast<const uint64_t *>(data)));
        }
    })};
}

Results range(Call &c) {
    const Type t = c.type(0);
    if (!is_floating(t)) {
        const int64_t start = c.integers(0).at(0), limit = c.integers(1).at(0), delta = c.integers(2).at(0);
        if (delta == 0) c.fail("a step of 0");
        const __int128 span = __int128(limit) - start;
        const __int128 steps = delta > 0 ? (span + delta - 1) / delta : (span + delta + 1) / delta;
        if (steps > INT32_MAX) c.fail(fmt::format("more than {} elements", INT32_MAX));
        const auto whole = [t](int64_t v) { return Element(cast(t, Halide::Internal::make_const(i64, v))); };
        return {constant_view(t, {std::max<int64_t>(0, static_cast<int64_t>(steps))}, [=](const Indices &i) -> Expr {
            return add(whole(start), multiply(Element(cast(t, i[0])), whole(delta)));
        })};
    }
    const double start = c.numbers(0).at(0), limit = c.numbers(1).at(0), delta = c.numbers(2).at(0);
    if (delta == 0) c.fail("a step of 0");
    const double count = std::max(0.0, std::ceil((limit - start) / delta));
    if (!(count <= INT32_MAX)) c.fail(fmt::format("{} elements; legal are at most {}", count, INT32_MAX));
    return {constant_view(t, {static_cast<int64_t>(count)}, [=](const Indices &i) -> Expr {
        const Type in = accumulator(t);
        return cast(t, add(number(in, start), multiply(Element(cast(in, i[0])), number(in, delta))));
    })};
}

Results eye_like(Call &c) {
    const Extents &e = c.extents(0);
    const auto type = c.node.has("dtype") ? type_of_onnx(static_cast<int>(c.node.integer("dtype", 1))) : c.type(0);
    if (e.size() != 2 || !type) c.unsupported("a tensor of other than two axes, or of other types than numbers");
    const int k = static_cast<int>(std::clamp<int64_t>(c.node.integer("k", 0), -(1 << 30), 1 << 30));
    return {constant_view(*type, e, [=](const Indices &i) -> Expr {
        return select(Element(i[1] - i[0] == k), number(*type, 1), number(*type, 0));
    })};
}

// Tensors are optionals that have a value; an input that is not given has none.
Results optional_has_element(Call &c) {
    Buffer<> has(boolean, {});
    *static_cast<uint8_t *>(has.data()) = c.has(0);
    return {has};
}

Results reverse_sequence(Call &c) {
    const View x = c.in(0), lengths = c.in(1);
    const size_t batch = c.axis(c.node.integer("batch_axis", 1), x.rank()),
                 time = c.axis(c.node.integer("time_axis", 0), x.rank());
    return {View{x.type, x.extents, [=](const Indices &i) {
                     const Expr length = cast(i32, lengths.at({i[batch]}));
                     Indices own = i;
                     own[time] =
                         inside(Halide::select(i[time] < length, length - 1 - i[time], i[time]), x.extents[time]);
                     return x.at(own);
                 }}};
}

Results center_crop_pad(Call &c) {
    View x = c.in(0);
    const std::vector<int64_t> wanted = c.integers(1);
    std::vector<int64_t> axes = c.node.integers("axes");
    if (!c.node.has("axes")) {
        axes.resize(x.rank());
        std::iota(axes.begin(), axes.end(), 0);
    }
    const View source = x;
    std::vector<int64_t> before(x.rank(), 0);
    Extents extents = x.extents;
    for (size_t n = 0; n < axes.size(); n++) {
        const size_t d = c.axis(axes[n], x.rank());
        const int64_t more = wanted.at(n) - x.extents[d];
        before[d] = more >= 0 ? more / 2 : -(-more / 2);
        extents[d] = wanted[n];
    }
    return {View{x.type, extents, [=](const Indices &i) -> Element {
                     if (source.elements() == 0) return number(source.type, 0);
                     Indices own = i;
                     Expr known = Halide::Internal::const_true();
                     for (size_t d = 0; d < i.size(); d++) {
                         const Expr at = i[d] - static_cast<int>(before[d]);
                         own[d] = inside(at, source.extents[d]);
                         known = known && at >= 0 && at < static_cast<int>(source.extents[d]);
                     }
                     return select(Element(Halide::Internal::simplify(known)), source.at(own), number(source.type, 0));
                 }}};
}

} // namespace

std::vector<Operator> move_operators() {
    return {
        {"Reshape", 1, reshape},
        {"Flatten", 1, flatten},
        {"Transpose", 1, transpose},
        {"Squeeze", 1, squeeze},
        {"Unsqueeze", 1, unsqueeze},
        {"Expand", 8, expand},
        {"Tile", 6, tile},
        {"Concat", 4, concat},
        {"Split", 2, split},
        {"Slice", 1, slice},
        {"Pad", 2, pad},
        {"DepthToSpace", 1, depth_to_space},
        {"SpaceToDepth", 1, space_to_depth},
        {"Trilu", 14, trilu},
        {"Shape", 1, shape},
        {"Size", 1, size},
        {"Constant", 1, constant},
        {"ConstantOfShape", 9, constant_of_shape},
        {"Range", 11, range},
        {"EyeLike", 9, eye_like},
        {"ReverseSequence", 10, reverse_sequence},
        {"CenterCropPad", 18, center_crop_pad},
        {"OptionalHasElement", 15, optional_has_element},
        {"OptionalGetElement", 15, [](Call &c) -> Results { return {c.in(0)}; }},
    };
}

} // namespace kumiko::graph
