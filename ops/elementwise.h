// Functions of one value or two, by name, and the ops that apply them to every element of an array.
#pragma once

#include "dsl/op.h"

#include <string>
#include <vector>

namespace kumiko::ops {

struct UnaryFunction {
    std::string name, summary;
    bool integers; // also of integers; all take floats
    double units;  // bound on the error in f32, in units in the last place of the exact result
    Element (*apply)(const Element &x);
};
struct BinaryFunction {
    std::string name, summary;
    bool integers;
    Element (*apply)(const Element &a, const Element &b);
};
const std::vector<UnaryFunction> &unary_functions();
const std::vector<BinaryFunction> &binary_functions();

// The function of that name at x, in x's type. f16 and bf16 are computed in f32 and rounded once. A
// unary function is within its `units`, so within 0.51 units of f16 or bf16. Throws UserError for
// an unknown name (with near ones) and for integers where only floats make sense.
Expr apply_unary(const std::string &name, const Expr &x);
Expr apply_binary(const std::string &name, const Expr &a, const Expr &b);

// Y(i) = f(X(i)) over N elements; an array of more axes is the same with N their product.
Op unary(const std::string &function, Type t, const Expr &N);
// Y(i) = f(A(i), B(i)).
Op binary(const std::string &function, Type t, const Expr &N);
// Y(i, j) = f(A(i, j), b(j)): a row is applied to every row.
Op binary_rows(const std::string &function, Type t, const Expr &M, const Expr &N);

// Where values of a type are summed: f32 for f16 and bf16, i32 for i8, i16, u8 and u16, else the type itself.
Type accumulator_type(Type t);

// The type in which what follows a sum is computed: the sum's, or floats where the result is of floats and the sum is not.
Type type_after(Type sum, Type result);

// `activation`: the name of a unary function, or empty.
Expr activated(const std::string &activation, const Expr &x);

} // namespace kumiko::ops
