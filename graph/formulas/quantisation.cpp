// Integers with a scale and a zero point.
#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/types.h"
#include "graph/formulas/narrow.h"
#include "graph/formulas/scales.h"
#include "graph/formulas/windows.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kumiko::graph {

bool has_no_zero_point(const Call &c, size_t zero) {
    if (!c.has(zero)) return true;
    if (!c.known(zero)) return false;
    const std::vector<double> all = c.numbers(zero);
    return std::all_of(all.begin(), all.end(), [](double v) { return v == 0; });
}

void require_zero_point(const Call &c, size_t zero, Type type) {
    if (!c.has(zero)) return;
    if (c.type(zero) != type)
        c.fail(fmt::format("its zero point \"{}\" is {}; legal is the type of the numbers, {}", c.node.inputs[zero],
                           type_name(c.type(zero)), type_name(type)));
    if (type == i32 && !has_no_zero_point(c, zero))
        c.fail(fmt::format("its zero point \"{}\" of i32 is not 0; legal is 0", c.node.inputs[zero]));
}

void require_zero_point(const Call &c, size_t zero, size_t of) { require_zero_point(c, zero, c.type(of)); }

void require_scale(const Call &c, size_t scale) {
    if (!is_floating(c.type(scale)))
        c.fail(fmt::format("its scale \"{}\" is {}; legal are floats", c.node.inputs[scale], type_name(c.type(scale))));
    if (!c.known(scale)) return;
    for (const double v : c.numbers(scale)) {
        if (!(v > 0) || !std::isfinite(v))
            c.fail(
                fmt::format("its scale \"{}\" has the element {}; legal are numbers above 0", c.node.inputs[scale], v));
    }
}

Element nearest_byte(const Element &x, const Element &scale, const Element &zero) {
    return cast(u8, round(Element(cast(f32, x) / scale)) + cast(f32, zero));
}

Element dynamic_scale(const Element &least, const Element &most) {
    const Element range = most - least;
    return select(range == 0.f, Element(Expr(1.f)), range / 255.f);
}

Element dynamic_zero_point(const Element &least, const Element &scale) {
    return cast(u8, round(clamp(Element(0.f - least / scale), 0.f, 255.f)));
}

DynamicBytes dynamic_bytes(Call &c, const View &x) {
    std::vector<Axis> loops;
    for (const int64_t e : x.extents) loops.push_back(c.loop(e));
    const Indices at(loops.begin(), loops.end());
    const auto stored = [&](Type type, const std::string &name, const std::function<Element(const Indices &)> &f) {
        return c.stored({type, {}, f}, name);
    };
    const View most = stored(f32, "most", [=](const Indices &) -> Element {
        const Element e = x.at(at);
        return loops.empty() ? max(e, 0.f) : max(Element(maximum(e, loops)), 0.f);
    });
    const View least = stored(f32, "least", [=](const Indices &) -> Element {
        const Element e = x.at(at);
        return loops.empty() ? min(e, 0.f) : min(Element(minimum(e, loops)), 0.f);
    });
    const View scale = stored(f32, "scale", [=](const Indices &) { return dynamic_scale(least.at({}), most.at({})); });
    const View zero =
        stored(u8, "zero", [=](const Indices &) { return dynamic_zero_point(least.at({}), scale.at({})); });
    const View bytes = {u8, x.extents,
                        [=](const Indices &i) { return nearest_byte(x.at(i), scale.at({}), zero.at({})); }};
    return {bytes, scale, zero};
}

namespace {

// A scale or zero point for each element of `extents`: of the whole tensor, along an axis, or of
// blocks along it.
View spread(Call &c, size_t input, const Extents &extents) {
    const View v = c.in(input);
    if (v.elements() == 1 && v.rank() <= 1) return broadcast(reshaped(v, {}), extents);
    const size_t axis = c.axis(c.node.integer("axis", 1), extents.size());
    const int64_t block = c.node.integer("block_size", 0);
    if (block > 0) {
        return {v.type, extents, [=](const Indices &i) {
                    Indices at = i;
                    at[axis] = i[axis] / static_cast<int>(block);
                    return v.at(at);
                }};
    }
    if (v.rank() != 1 || v.extents[0] != extents[axis])
        c.fail(fmt::format("a scale or zero point of other extents than axis {}, which has {}", axis, extents[axis]));
    return {v.type, extents, [=](const Indices &i) { return v.at({i[axis]}); }};
}

// The nearest value of a type; of NaN the least. Casts of floats saturate, and NaN becomes 0.
Element saturated(const Element &whole, Type to) {
    const auto [least, most] = integer_range(to);
    if (is_narrow(to))
        return cast(stored_type(to),
                    clamp(select(whole != whole, number(f32, least), whole), number(f32, least), number(f32, most)));
    if (to.is_uint()) return cast(to, whole);
    return cast(to, select(whole != whole, number(f32, least), whole));
}

// The nearest integer of x / scale, halves to even, and the zero point; saturated. Narrow floats
// are rounded once, after the zero point is added.
Element quantised(const Element &x, const Element &scale, const Element &zero, const Encoding &to) {
    const Element real = cast(f32, x) / cast(f32, scale), offset = cast(f32, zero);
    if (narrow_float(to.type)) return encoded(Element(real + offset), to);
    return saturated(round(real) + offset, to.type);
}

Results quantize_linear(Call &c) {
    const View x = c.in(0);
    Type to = u8;
    if (c.has(2)) {
        to = c.type(2);
    } else if (const int64_t named = c.node.integer("output_dtype", 0)) {
        const auto type = type_of_onnx(static_cast<int>(named));
        if (!type)
            c.unsupported(
                fmt::format("element type {}; supported are narrow floats and integers of up to 16 bits", named));
        to = *type;
    }
    if (is_narrow(x.type)) c.unsupported("an input of narrow floats or integers; supported are other types");
    if (is_floating(to) || to.bits() > 16)
        c.unsupported("a result of other than narrow floats and integers of up to 16 bits");
    require_scale(c, 1), require_zero_point(c, 2, to);
    const View scale = spread(c, 1, x.extents);
    const View zero = c.has(2) ? numbers_of(spread(c, 2, x.extents))
                               : constant_view(f32, x.extents, [](const Indices &) { return number(f32, 0); });
    const Encoding as{to, c.node.integer("saturate", 1) != 0};
    return {View{to, x.extents, [=](const Indices &i) { return quantised(x.at(i), scale.at(i), zero.at(i), as); }}};
}

Results dequantize_linear(Call &c) {
    require_scale(c, 1), require_zero_point(c, 2, 0);
    const Type from = c.type(0), to = c.type(1);
    if (narrow_float(from) && c.has(2) && c.known(2) && !has_no_zero_point(c, 2))
        c.fail(fmt::format("its zero point \"{}\" of {} is not 0; legal is 0", c.node.inputs[2], type_name(from)));
    const View scale = spread(c, 1, c.extents(0));
    const auto numbers = [&](const View &v) {
        return narrow_float(from) ? numbers_of(v) : converted(numbers_of(v), i32);
    };
    View off = numbers(c.in(0));
    if (c.has(2)) off = zipped(c, off, numbers(spread(c, 2, off.extents)), off.type, subtract);
    return {View{to, off.extents,
                 [=](const Indices &i) -> Element { return cast(to, cast(f32, off.at(i)) * cast(f32, scale.at(i))); }}};
}

Results dynamic_quantize_linear(Call &c) {
    const DynamicBytes made = dynamic_bytes(c, c.in(0));
    return {made.bytes, made.scale, made.zero};
}

// Sums of products in i32 as integers of a scale and zero point.
Results requantised(Call &c, const View &sums, const View &scale, size_t scale_to, size_t zero_to) {
    const View by = reshaped(c.in(scale_to), {}), zero = reshaped(c.in(zero_to), {});
    const Type to = zero.type;
    return {View{to, sums.extents, [=](const Indices &i) -> Element {
                     const Element factor = cast(f32, scale.at(i)) / cast(f32, by.at({}));
                     const Element whole = round(Element(cast(f32, sums.at(i)) * factor)) + cast(f32, zero.at({}));
                     return saturated(whole, to);
                 }}};
}

View centred(Call &c, size_t input, size_t zero_point, const std::vector<int64_t> &shape) {
    const View x = converted(c.in(input), i32), zero = converted(c.in(zero_point), i32);
    return zipped(c, x, zero.elements() == 1 ? reshaped(zero, {}) : reshaped(zero, shape), i32, subtract);
}

// Of inputs x, scale, zero point, w, scale, zero point, scale and zero point of the result.
void require_scales_of_product(const Call &c) {
    for (const size_t scale : {1, 4, 6}) require_scale(c, scale);
    require_zero_point(c, 2, 0), require_zero_point(c, 5, 3);
    for (const size_t bytes : {0, 3, 7}) {
        if (c.type(bytes) != u8 && c.type(bytes) != i8)
            c.fail(fmt::format("its input \"{}\" is {}; legal are i8 and u8", c.node.inputs[bytes],
                               type_name(c.type(bytes))));
    }
}

Results qlinear_matmul(Call &c) {
    require_scales_of_product(c);
    const Extents &a = c.extents(0), &b = c.extents(3);
    if (a.size() < 2 || b.size() < 2) c.unsupported("vectors; supported are matrices");
    const Extents rows = {c.in(2).elements(), 1}, columns = {c.in(5).elements()};
    const View x = centred(c, 0, 2, rows), y = centred(c, 3, 5, columns);
    const int64_t k = a.back();
    if (b[b.size() - 2] != k) c.fail("a product of matrices that do not fit");
    const Axis loop = c.loop(k);
    Extents of_a = broadcast(c, {Extents(a.begin(), a.end() - 2), Extents(b.begin(), b.end() - 2)}), of_b = of_a,
            made = of_a;
    made.insert(made.end(), {a[a.size() - 2], b.back()});
    of_a.insert(of_a.end(), {a[a.size() - 2], k}), of_b.insert(of_b.end(), {k, b.back()});
    const View left = broadcast(x, of_a), right = broadcast(y, of_b);
    const View sums = c.stored({i32, made,
                                [=](const Indices &i) -> Element {
                                    Indices row = i, column = i;
                                    row.back() = loop, column[column.size() - 2] = loop;
                                    return sum(Element(left.at(row) * right.at(column)), loop);
                                }},
                               "sums");
    const auto factor = [&](size_t n, const Extents &shape) {
        const View v = converted(c.in(n), f32);
        return v.elements() == 1 ? reshaped(v, {}) : reshaped(v, shape);
    };
    const View scale =
        broadcast(zipped(c, factor(1, {c.in(1).elements(), 1}), factor(4, {c.in(4).elements()}), f32, multiply), made);
    return requantised(c, sums, scale, 6, 7);
}

Results qlinear_conv(Call &c) {
    require_scales_of_product(c);
    const Extents &weights = c.extents(3);
    const Window window = window_of(c, c.extents(0), kernel_of(c, 3));
    const Tensor image = c.stage(centred(c, 0, 2, {}), "image");
    Extents along(weights.size(), 1);
    along[0] = c.in(5).elements();
    const View sums = c.stored(convolved(c, image, centred(c, 3, 5, along), window, i32), "sums");
    const View all = c.has(8) ? with_bias(c, sums, 8) : sums;
    Extents channel(sums.rank(), 1);
    channel[1] = c.in(4).elements();
    const View scale =
        zipped(c, reshaped(converted(c.in(1), f32), {}), reshaped(converted(c.in(4), f32), channel), f32, multiply);
    return requantised(c, all, broadcast(scale, sums.extents), 6, 7);
}

} // namespace

std::vector<Operator> quantisation_operators() {
    return {
        {"QuantizeLinear", 10, quantize_linear, "", Dependence::Pointwise, true},
        {"DequantizeLinear", 10, dequantize_linear, "", Dependence::Pointwise, true},
        {"DynamicQuantizeLinear", 11, dynamic_quantize_linear, "", Dependence::Other, true},
        {"QLinearMatMul", 10, qlinear_matmul, "", Dependence::Other, true},
        {"QLinearConv", 10, qlinear_conv, "", Dependence::Other, true},
    };
}

} // namespace kumiko::graph
