// Loops over rows, and the C++ storage types of elements.
#pragma once

#include "dsl/half.h"

#include <type_traits>

namespace kumiko::interpreter {

// d[l] = f(a[l], b[l]); uniform operands do not advance.
template<typename D, typename A, typename B, typename F>
void map2(D *d, int64_t n, const A *a, bool a_row, const B *b, bool b_row, F f) {
    if (a_row && b_row) {
        for (int64_t l = 0; l < n; l++) d[l] = f(a[l], b[l]);
    } else if (a_row) {
        const B y = *b;
        for (int64_t l = 0; l < n; l++) d[l] = f(a[l], y);
    } else if (b_row) {
        const A x = *a;
        for (int64_t l = 0; l < n; l++) d[l] = f(x, b[l]);
    } else {
        const D v = f(*a, *b);
        for (int64_t l = 0; l < n; l++) d[l] = v;
    }
}

// d[l] = f(a[l]); a uniform operand does not advance.
template<typename D, typename A, typename F>
void map1(D *d, int64_t n, const A *a, bool a_row, F f) {
    if (a_row) {
        for (int64_t l = 0; l < n; l++) d[l] = f(a[l]);
    } else {
        const D v = f(*a);
        for (int64_t l = 0; l < n; l++) d[l] = v;
    }
}

// Calls f with a null pointer to the C++ storage type of `t`.
template<typename F>
void with_storage(Type t, F f) {
    if (t.is_float()) {
        if (t.bits() == 64) return f(static_cast<double *>(nullptr));
        if (t.bits() == 32) return f(static_cast<float *>(nullptr));
        if (t.is_bfloat()) return f(static_cast<bfloat16_t *>(nullptr));
        return f(static_cast<float16_t *>(nullptr));
    }
    if (t.is_uint()) {
        if (t.bits() <= 8) return f(static_cast<uint8_t *>(nullptr));
        if (t.bits() == 16) return f(static_cast<uint16_t *>(nullptr));
        if (t.bits() == 32) return f(static_cast<uint32_t *>(nullptr));
        return f(static_cast<uint64_t *>(nullptr));
    }
    if (t.bits() == 8) return f(static_cast<int8_t *>(nullptr));
    if (t.bits() == 16) return f(static_cast<int16_t *>(nullptr));
    if (t.bits() == 32) return f(static_cast<int32_t *>(nullptr));
    return f(static_cast<int64_t *>(nullptr));
}

// The value converted to another storage type, rounded once.
template<typename To, typename From>
To value_as(From v) {
    constexpr bool half = std::is_same_v<From, float16_t> || std::is_same_v<From, bfloat16_t>;
    constexpr bool to_half = std::is_same_v<To, float16_t> || std::is_same_v<To, bfloat16_t>;
    if constexpr (half) {
        return static_cast<To>(static_cast<float>(v));
    } else if constexpr (to_half) {
        const Type t = std::is_same_v<To, float16_t> ? Float(16) : BFloat(16);
        if constexpr (std::is_floating_point_v<From>) {
            return To::make_from_bits(half_bits(t, static_cast<double>(v)));
        } else if constexpr (std::is_signed_v<From>) {
            return To::make_from_bits(half_bits(t, static_cast<int64_t>(v)));
        } else {
            return To::make_from_bits(half_bits(t, static_cast<uint64_t>(v)));
        }
    } else {
        return static_cast<To>(v);
    }
}

} // namespace kumiko::interpreter
