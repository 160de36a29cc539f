#include "dsl/narrow_types.h"

#include <cmath>

namespace kumiko {

const NarrowFloat *narrow_float(Type type) {
    static const NarrowFloat table[] = {
        {f8e4m3fn, "f8e4m3fn", 4, 3, 7, 0x7e, 0x7f, 0x7f}, {f8e4m3fnuz, "f8e4m3fnuz", 4, 3, 8, 0x7f, 0x80, 0x80, true},
        {f8e5m2, "f8e5m2", 5, 2, 15, 0x7b, 0x7c, 0x7e},    {f8e5m2fnuz, "f8e5m2fnuz", 5, 2, 16, 0x7f, 0x80, 0x80, true},
        {f8e8m0, "f8e8m0", 8, 0, 127, 0xfe, 0xff, 0xff},   {f4e2m1, "f4e2m1", 2, 1, 1, 7, 7, 8},
    };
    for (const NarrowFloat &f : table) {
        if (f.type == type) return &f;
    }
    return nullptr;
}

bool is_narrow(Type type) {
    return (type.is_int_or_uint() && type.bits() > 1 && type.bits() < 8) || narrow_float(type);
}

Type stored_type(Type type) {
    if (type.is_handle()) return u64;
    return !is_narrow(type) ? type : type.is_int() ? i8 : u8;
}

Buffer<> retyped(const Buffer<> &array, Type type) {
    Buffer<> made = array;
    made.raw_buffer()->type = type;
    return made;
}

double narrow_value(Type type, uint8_t bits) {
    const NarrowFloat *f = narrow_float(type);
    if (!f) return type.is_int() ? static_cast<int8_t>(bits) : bits;
    if (type == f8e8m0) return bits == f->nan ? NAN : std::ldexp(1.0, bits - f->bias);
    const int magnitude = bits & ((1 << (f->exponent + f->mantissa)) - 1);
    if (f->one_zero && bits == f->nan) return NAN;
    const double sign = bits == magnitude ? 1 : -1;
    if (magnitude > f->largest) return magnitude == f->infinity && f->infinity != f->nan ? sign * INFINITY : NAN;
    const int exponent = magnitude >> f->mantissa, mantissa = magnitude & ((1 << f->mantissa) - 1);
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << f->mantissa);
    return sign * std::ldexp(whole, std::max(exponent, 1) - f->bias - f->mantissa);
}

uint8_t narrow_bits(Type type, double value) {
    const NarrowFloat *f = narrow_float(type);
    if (!f) {
        const auto bits = static_cast<uint8_t>(static_cast<int64_t>(value) << (8 - type.bits()));
        const int unused = 8 - type.bits();
        return static_cast<uint8_t>(type.is_int() ? static_cast<int8_t>(bits) >> unused : bits >> unused);
    }
    int nearest = f->nan;
    double least = INFINITY;
    for (int bits = 0; bits < 1 << type.bits(); bits++) {
        const double distance = std::abs(narrow_value(type, static_cast<uint8_t>(bits)) - value);
        // Of two that are as near, the one with an even mantissa.
        if (distance < least || (distance == least && bits % 2 == 0 && nearest % 2 == 1)) {
            least = distance, nearest = bits;
        }
    }
    return static_cast<uint8_t>(nearest);
}

} // namespace kumiko
