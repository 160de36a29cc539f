// Private to targets/cpu: arithmetic and casts of values.
#pragma once

#include "targets/cpu/vectors.h"

#include <limits>

namespace kumiko::cpu {

// Operations whose meaning differs from LLVM's instructions (README.md, Integers and Floats).
class Arithmetic : protected Vectors {
protected:
    using Vectors::Vectors;

    // a > b ? a : b for the maximum, with < for the minimum; NaN gives b.
    Value *minmax(Type type, Value *a, Value *b, bool maximum);

    // ---- Division (division.cpp): Euclidean, x/0 = x%0 = 0
    Value *divide(Type type, Value *a, Value *b, bool nonnegative = false);
    Value *modulo(Type type, Value *a, Value *b, bool nonnegative = false);

    // ---- Casts (casts.cpp, half.cpp)
    // Values of a float, NaN apart.
    struct FloatRange {
        double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
        bool may_be_nan = true;
    };
    static FloatRange range_of_clamped(const Expr &e);
    Value *limited(Value *x, double low, double high, double number, const FloatRange &range);
    // A cast among any two types. A float has the given range.
    Value *cast(Value *v, Type from, Type to, const FloatRange &range);
    Value *cast(Value *v, Type from, Type to) { return cast(v, from, to, {}); }
    Value *widen_half(Value *v, Type from);   // f16, bf16 → f32
    Value *narrow_to_half(Value *v, Type to); // f32 → f16, bf16, to nearest even

private:
    // Quotient and remainder by a divisor that is not constant.
    std::pair<Value *, Value *> divide_floor(Type type, Value *a, Value *b);
    // Truncates and saturates; NaN gives 0.
    Value *float_to_int(Value *v, Type from, Type to, const FloatRange &range);
    // f32 → bf16, to nearest even.
    Value *narrow_to_bfloat(Value *v);
    // The same by the AVX-512 instruction, for 16 or 32 lanes.
    Value *narrow_by_instruction(Value *v);
    Value *round_to_odd(Value *f64); // f64 → f32 so that a second rounding is harmless
    // An integer rounded once to a 16-bit float.
    Value *int_to_half(Value *v, Type from, Type to);
};

} // namespace kumiko::cpu
