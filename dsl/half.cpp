#include "dsl/half.h"

#include "support/half.h"

namespace kumiko {

namespace {

const HalfFormat &format_of(Type t) { return t.is_bfloat() ? bf16_format : fp16_format; }

} // namespace

uint16_t half_bits(Type t, double v) { return half_bits(format_of(t), v); }

uint16_t half_bits(Type t, int64_t v) { return half_bits(format_of(t), v); }

uint16_t half_bits(Type t, uint64_t v) { return half_bits(format_of(t), v); }

float half_value(Type t, uint16_t bits) {
    return t.is_bfloat() ? static_cast<float>(bfloat16_t::make_from_bits(bits))
                         : static_cast<float>(float16_t::make_from_bits(bits));
}

} // namespace kumiko
