// Unary and binary functions by name, and the ops that apply them elementwise.
#pragma once

#include "dsl/op.h"

#include <string>
#include <vector>

namespace kumiko::ops {

// A function of one value, by name.
struct UnaryFunction {
    std::string name, summary;
    bool integers; // also for integers; all accept floats
    double units;  // error bound for f32, in ulp of the exact result
    Element (*apply)(const Element &x);
};

// A function of two values, by name.
struct BinaryFunction {
    std::string name, summary;
    bool integers;
    Element (*apply)(const Element &a, const Element &b);
};

// All functions of that kind.
const std::vector<UnaryFunction> &unary_functions();
const std::vector<BinaryFunction> &binary_functions();

// The function of that name at x, in x's type. f16 and bf16 are computed in f32 and rounded once.
// The error of a unary function is at most `units` ulp for f32, and so at most 0.51 ulp for f16 and
// bf16. Throws UserError for an unknown name (with suggestions), and for integers if the function
// takes only floats.
Expr apply_unary(const std::string &name, const Expr &x);
Expr apply_binary(const std::string &name, const Expr &a, const Expr &b);

// Y(i) = f(X(i)) over N elements. For an array of more axes, N is their product.
Op unary(const std::string &function, Type t, const Expr &N);
// Y(i) = f(A(i), B(i)).
Op binary(const std::string &function, Type t, const Expr &N);
// Y(i, j) = f(A(i, j), b(j)): the row b is broadcast to every row.
Op binary_rows(const std::string &function, Type t, const Expr &M, const Expr &N);

// The accumulator type of sums: f32 for f16 and bf16, i32 for i8, i16, u8 and u16, otherwise the
// type itself.
Type accumulator_type(Type t);

// The type in which the epilogue of a sum is computed: the accumulator type, or the result's if
// that is a float and the accumulator is not.
Type type_after(Type sum, Type result);

// `activation`: the name of a unary function, or empty.
Expr activated(const std::string &activation, const Expr &x);

} // namespace kumiko::ops
