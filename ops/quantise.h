// Real numbers as 8-bit integers with a scale and a zero point: x ≈ (q − zero_point) · scale.
#pragma once

#include "dsl/op.h"

namespace kumiko::ops {

struct Quantisation {
    double scale = 1;   // above 0
    int zero_point = 0; // a value of the 8-bit type
    // With it arrays have M rows of N columns, and an f32 input "scale" has one scale for each column.
    Expr rows;
};

// Y(i) = X(i) / scale rounded to nearest, halves to even, plus zero_point, saturated to the type `to`, i8 or u8; a NaN becomes 0.
// X is of a float type, N elements. Throws UserError for other types, scales and zero points.
Op quantise(Type from, Type to, const Expr &N, const Quantisation &q = {});

// Y(i) = (X(i) − zero_point) · scale, from i8, u8 or i32 to a float type.
Op dequantise(Type from, Type to, const Expr &N, const Quantisation &q = {});

// What a product of quantised numbers is summed in, i32, as 8-bit numbers: Y(i) = X(i) · scale rounded to nearest, halves to even, plus
// zero_point, saturated to `to`; in f32, so |X| above 2²⁴ is rounded first. `scale` is the product of the operands' by the result's.
Op requantise(Type to, const Expr &N, const Quantisation &q = {});

// The expression of it, at the end of another formula: `x` is of i32, `scale` of f32. Throws UserError for another `to` than i8 and u8 and
// for a zero point that it does not have; `op` is named there.
Expr requantised(const char *op, Type to, const Expr &x, const Expr &scale, int zero_point,
                 const std::string &activation = "");

} // namespace kumiko::ops
