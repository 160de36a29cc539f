#include "graph/formulas/narrow.h"

#include "dsl/math.h"
#include "graph/ir/strings.h"

#include <cmath>
#include <set>

namespace kumiko::graph {

namespace {

constexpr int mantissa_of_f32 = 23, bias_of_f32 = 127;
constexpr double infinity_of_f32 = 0x7f800000; // its bits
constexpr double nan_of_f32 = 0x7fc00000;      // a quiet one, which copies do not change

Element bits(double value) { return number(u32, value); }
Element as_float(const Element &e) { return reinterpret(f32, e); }
Element as_bits(const Element &e) { return reinterpret(u32, e); }
Element shifted_left(const Element &e, int by) { return e << bits(by); }
Element shifted_right(const Element &e, int by) { return e >> bits(by); }

// The bits of f32 of the number that the magnitude of a narrow float means.
Element decoded_magnitude(const Element &magnitude, const NarrowFloat &f) {
    const Element normal =
        shifted_left(magnitude, mantissa_of_f32 - f.mantissa) + bits(std::ldexp(bias_of_f32 - f.bias, mantissa_of_f32));
    const Element subnormal =
        as_bits(Element(cast(f32, magnitude) * number(f32, std::ldexp(1.0, 1 - f.bias - f.mantissa))));
    const Element value = select(magnitude < bits(1 << f.mantissa), subnormal, normal);
    const Element special =
        select(magnitude == bits(f.infinity == f.nan ? -1.0 : f.infinity), bits(infinity_of_f32), bits(nan_of_f32));
    return select(magnitude > bits(f.largest), special, value);
}

Element decoded(const Element &stored, const NarrowFloat &f) {
    const Element all = cast(u32, stored);
    if (f.type == f8e8m0) { // 2^-127 is subnormal in f32
        const Element value =
            select(all == bits(0), bits(1 << (mantissa_of_f32 - 1)), shifted_left(all, mantissa_of_f32));
        return as_float(select(all == bits(f.nan), bits(nan_of_f32), value));
    }
    const int sign = f.exponent + f.mantissa;
    Element value = decoded_magnitude(all & bits((1 << sign) - 1), f) | shifted_left(shifted_right(all, sign), 31);
    if (f.one_zero) value = select(all == bits(f.nan), bits(nan_of_f32), value);
    return as_float(value);
}

// The exponent of a number of f32 as f8e8m0, which has no sign.
Element encoded_exponent(const Element &all, const Encoding &to) {
    const Element exponent = shifted_right(all, mantissa_of_f32) & bits(0xff), fraction = all & bits(0x7fffff);
    // Subnormal numbers of f32 lie around 2^-127, the least number. A tie goes up.
    const bool nearest = to.round_mode == "nearest";
    const Element up =
        fraction > select(exponent == bits(0), bits(nearest ? 0x5fffff : 0x400000), bits(nearest ? 0x3fffff : 0));
    Element next = exponent + bits(1);
    if (to.saturate) next = min(next, bits(0xfe));
    const Element rounded = to.round_mode == "down" ? exponent : Element(select(up, next, exponent));
    return cast(u8, select(exponent == bits(0xff), exponent, rounded));
}

} // namespace

bool takes(const Operator &op, Type type) {
    static const std::set<std::string> moves = {"Cast",         "CastLike",
                                                "Concat",       "Constant",
                                                "DepthToSpace", "Expand",
                                                "Flatten",      "Gather",
                                                "GatherND",     "GatherElements",
                                                "Identity",     "If",
                                                "Loop",         "OptionalGetElement",
                                                "Reshape",      "ReverseSequence",
                                                "Shape",        "Size",
                                                "Slice",        "SpaceToDepth",
                                                "Split",        "Squeeze",
                                                "Tile",         "Transpose",
                                                "Unsqueeze",    "Where"};
    static const std::set<std::string> quantisations = {"DequantizeLinear", "QuantizeLinear"};
    static const std::set<std::string> of_strings = {"Equal",          "LabelEncoder",     "RegexFullMatch",
                                                     "StringConcat",   "StringNormalizer", "StringSplit",
                                                     "TfIdfVectorizer"};
    if (type == stored_type(type)) return true;
    if (op.domain != "com.microsoft" && moves.count(op.op)) return true;
    return (type == string_type ? of_strings : quantisations).count(op.op) > 0;
}

Element encoded(const Element &x, const Encoding &to) {
    const NarrowFloat &f = *narrow_float(to.type);
    const Element all = as_bits(x), magnitude = all & bits(0x7fffffff);
    if (f.type == f8e8m0) return encoded_exponent(all, to);
    const int dropped = mantissa_of_f32 - f.mantissa, sign = f.exponent + f.mantissa;
    const Element half = bits((1 << (dropped - 1)) - 1) + (shifted_right(magnitude, dropped) & bits(1));
    const Element normal =
        shifted_right(magnitude + half, dropped) - bits(std::ldexp(bias_of_f32 - f.bias, f.mantissa));
    const Element steps = as_float(magnitude) * number(f32, std::ldexp(1.0, f.bias - 1 + f.mantissa));
    const Element subnormal = cast(u32, round(min(steps, number(f32, 1 << f.mantissa))));
    Element made = select(magnitude < bits(std::ldexp(bias_of_f32 + 1 - f.bias, mantissa_of_f32)), subnormal, normal);
    made = select(made > bits(f.largest), bits(to.saturate ? f.largest : f.infinity), made);
    made = select(magnitude > bits(infinity_of_f32), bits(f.nan), made);
    const Element minus = shifted_left(shifted_right(all, 31), sign);
    return cast(u8, f.one_zero ? Element(select(made == bits(0), made, made | minus)) : Element(made | minus));
}

View numbers_of(const View &v) {
    if (const NarrowFloat *f = narrow_float(v.type))
        return mapped(v, f32, [f](const Element &e) { return decoded(e, *f); });
    View same = v;
    same.type = stored_type(v.type);
    return same;
}

View encoded(const View &numbers, const Encoding &to) {
    if (narrow_float(to.type)) {
        const View floats = converted(numbers, f32);
        return mapped(floats, to.type, [to](const Element &e) { return encoded(e, to); });
    }
    const int count = 1 << to.type.bits();
    return mapped(numbers, to.type, [to, count](const Element &e) -> Element {
        const Element whole = is_floating(e.type()) ? Element(cast(i32, e)) : e;
        const Element low = cast(u8, whole) & number(u8, count - 1);
        if (to.type.is_uint()) return low;
        // Inverted and subtracted, the sign's bit becomes all higher bits.
        const Element sign = number(u8, count / 2);
        return cast(i8, (low ^ sign) - sign);
    });
}

std::pair<double, double> integer_range(Type type) {
    const double count = std::ldexp(1.0, type.bits());
    return type.is_uint() ? std::pair(0.0, count - 1) : std::pair(-count / 2, count / 2 - 1);
}

} // namespace kumiko::graph
