// What the chip's vector units do with one element, on the host: docs/chip.md, "Operations".
#include "targets/chip/vector/program.h"

#include "sim/operations.h"
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

} // namespace

uint32_t evaluate(const VectorOp &op, uint32_t a, uint32_t b, uint32_t c) {
    switch (op.kind) {
    case VectorOp::Kind::Number:
        return op.bits;
    case VectorOp::Kind::Read:
        throw InternalError("a read has no value of its own");
    case VectorOp::Kind::Alu:
        if (op.alu == AluOp::Select) return c ? a : b;
        return alu_lane(op.alu, op.of, a, b);
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
