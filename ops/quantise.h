// Quantisation: real numbers as 8-bit integers with a scale and a zero point, x ≈ (q − zero_point)
// · scale.
#pragma once

#include "dsl/op.h"

namespace kumiko::ops {

// Scale and zero point of quantised numbers.
struct Quantisation {
    double scale = 1;   // greater than 0
    int zero_point = 0; // a value of the 8-bit type
    // If defined, arrays have `rows` rows of N columns, and an f32 input "scale" holds one scale
    // per column.
    Expr rows;
};

// Y(i) = X(i) / scale, rounded to nearest, ties to even, plus zero_point, saturated to `to`, i8 or
// u8. NaN becomes 0. X has N elements of a float type. Throws UserError for other types, scales and
// zero points.
Op quantise(Type from, Type to, const Expr &N, const Quantisation &q = {});

// Y(i) = (X(i) − zero_point) · scale, from i8, u8 or i32 to a float type.
Op dequantise(Type from, Type to, const Expr &N, const Quantisation &q = {});

// Converts the i32 accumulators of a quantised product to 8 bits: Y(i) = X(i) · scale, rounded to
// nearest, ties to even, plus zero_point, saturated to `to`. Computed in f32, so |X| above 2²⁴ is
// rounded first. `scale` is the product of the operands' scales divided by the result's.
Op requantise(Type to, const Expr &N, const Quantisation &q = {});

// The same as an expression, for an epilogue: `x` is i32, `scale` is f32. Throws UserError, naming
// `op`, if `to` is not i8 or u8 or does not have the zero point.
Expr requantised(const char *op, Type to, const Expr &x, const Expr &scale, int zero_point,
                 const std::string &activation = "");

} // namespace kumiko::ops
