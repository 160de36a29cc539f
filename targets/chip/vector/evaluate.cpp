// What the chip's vector units do with one element, on the host: docs/chip.md, "Operations".
#include "targets/chip/vector/program.h"

#include "support/error.h"
#include "support/half.h"

#include <cmath>

namespace kumiko::chip {

using namespace sim;

namespace {

float as_float(uint32_t bits, sim::Type t) {
    return t == sim::Type::F16 ? float_from_half(uint16_t(bits)) : __builtin_bit_cast(float, bits);
}

uint32_t from_float(float f, sim::Type t) {
    if (t == sim::Type::F16) return half_from_float(f);
    return std::isnan(f) ? 0x7fc00000 : __builtin_bit_cast(uint32_t, f);
}

// Determined by six bits of the significand m, where x = m · 4^e with m in [1, 4): 1/sqrt of the
// interval's middle in steps of 2^-9.
float rsqrt_seed(float x) {
    if (std::isnan(x)) return x;
    if (x == 0) return std::copysign(INFINITY, x);
    if (x < 0) return NAN;
    if (std::isinf(x)) return 0;
    int exponent;
    double m = 2 * std::frexp(double(x), &exponent); // [1, 2)
    exponent--;
    const int odd = exponent & 1;
    m = std::floor(m * 64) / 64 + 1.0 / 128;
    const double seed = std::floor(512 / std::sqrt(odd ? 2 * m : m) + 0.5) / 512;
    return float(std::ldexp(seed, -(exponent - odd) / 2));
}

uint32_t saturated(float f, sim::Type t) {
    const int bits = bits_of(t);
    const float limit = std::ldexp(1.f, bits - 1);
    if (std::isnan(f)) return 0;
    if (f >= limit) return bits == 16 ? 0x7fff : 0x7fffffff;
    if (f <= -limit) return bits == 16 ? 0x8000 : 0x80000000;
    return uint32_t(int32_t(f)) & (bits == 16 ? 0xffffu : ~0u);
}

uint32_t floats(const VectorOp &op, uint32_t a, uint32_t b) {
    const sim::Type t = op.of;
    const float x = as_float(a, t), y = as_float(b, t);
    const uint32_t yes = bits_of(t) == 16 ? 0xffff : ~0u, nan = t == sim::Type::F16 ? 0x7e00 : 0x7fc00000;
    const bool unordered = std::isnan(x) || std::isnan(y);
    switch (op.alu) {
    case AluOp::Max:
        return unordered ? nan : x > y || (x == y && !std::signbit(x)) ? a : b;
    case AluOp::Min:
        return unordered ? nan : x < y || (x == y && std::signbit(x)) ? a : b;
    case AluOp::Eq:
        return x == y ? yes : 0;
    case AluOp::Ne:
        return x == y ? 0 : yes;
    case AluOp::Lt:
        return x < y ? yes : 0;
    case AluOp::Le:
        return x <= y ? yes : 0;
    case AluOp::Relu:
        return std::isnan(x) ? nan : x > 0 ? a : 0;
    case AluOp::Relud:
        return x > 0 ? b : 0;
    case AluOp::Rsqrt:
        return from_float(rsqrt_seed(x), t);
    case AluOp::Widen:
        return from_float(x, sim::Type::F32);
    case AluOp::Narrow:
        return half_from_float(x);
    case AluOp::ToInt:
        return saturated(x, t);
    case AluOp::Round:
        return saturated(std::nearbyint(x), t);
    default:
        throw InternalError("an operation of vectors that floats do not have");
    }
}

uint32_t integers(const VectorOp &op, uint32_t a, uint32_t b) {
    const int bits = bits_of(op.of);
    const uint32_t mask = bits == 16 ? 0xffff : ~0u;
    const bool sign = op.of == sim::Type::I16 || op.of == sim::Type::I32;
    const auto value = [&](uint32_t v) { // as a number
        return sign ? bits == 16 ? int64_t(int16_t(v)) : int64_t(int32_t(v)) : int64_t(v & mask);
    };
    const int64_t x = value(a), y = value(b);
    switch (op.alu) {
    case AluOp::Add:
        return (a + b) & mask;
    case AluOp::Sub:
        return (a - b) & mask;
    case AluOp::Shl:
        return b >= uint32_t(bits) ? 0 : (a << b) & mask;
    case AluOp::Shr:
        return uint32_t(b >= uint32_t(bits) ? (x < 0 ? -1 : 0) : x >> b) & mask;
    case AluOp::Max:
        return x > y ? a : b;
    case AluOp::Min:
        return x < y ? a : b;
    case AluOp::Eq:
        return x == y ? mask : 0;
    case AluOp::Ne:
        return x == y ? 0 : mask;
    case AluOp::Lt:
        return x < y ? mask : 0;
    case AluOp::Le:
        return x <= y ? mask : 0;
    case AluOp::Widen:
        return uint32_t(x);
    case AluOp::Narrow:
        return a & 0xffff;
    case AluOp::ToFloat:
        return from_float(float(x), bits == 16 ? sim::Type::F16 : sim::Type::F32);
    default:
        throw InternalError("an operation of vectors that integers do not have");
    }
}

} // namespace

uint32_t evaluate(const VectorOp &op, uint32_t a, uint32_t b, uint32_t c) {
    switch (op.kind) {
    case VectorOp::Kind::Number:
        return op.bits;
    case VectorOp::Kind::Read:
        throw InternalError("a read has no value of its own");
    case VectorOp::Kind::Alu:
        switch (op.alu) {
        case AluOp::Pass:
            return a;
        case AluOp::Not:
            return bits_of(op.of) == 16 ? ~a & 0xffff : ~a;
        case AluOp::And:
            return a & b;
        case AluOp::Or:
            return a | b;
        case AluOp::Xor:
            return a ^ b;
        case AluOp::Select:
            return c ? a : b;
        default:
            return op.of == sim::Type::F16 || op.of == sim::Type::F32 ? floats(op, a, b) : integers(op, a, b);
        }
    case VectorOp::Kind::Mau: {
        float x = as_float(a, op.of);
        const float y = as_float(b, op.of);
        const float z = as_float(c, op.narrow_c ? sim::Type::F16 : sim::Type::F32);
        if (op.negate) x = -x;
        const float r = op.mau == MauOp::Vadd ? x + z : op.mau == MauOp::Vmul ? x * y : std::fma(x, y, z);
        // Narrowed after rounding to fp32.
        return from_float(r, op.type);
    }
    }
    return 0;
}

} // namespace kumiko::chip
