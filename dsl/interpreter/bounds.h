// Propagation of error bounds through one operation.
#pragma once

#include "dsl/interpreter/program.h"

namespace kumiko::interpreter {

// Half the distance from 1 to the next larger value of a float type; 0 for other types.
double unit_roundoff(Type t);
// smallest(): the magnitude below which a result of the type may be denormal, be flushed to zero or
// be rounded to a multiple of it; 0 for types that are not floats. largest(): the largest finite
// number of a float type.
double smallest(Type t);
double largest(Type t);

// The error bound of the result of one operation, with its own rounding. `from`: the type of a
// cast's operand. `unary`: the function of Code::Unary. `r`: the result; `a`, `b`, `c`: the
// operands (c: condition of a select); `e…`: their error bounds.
double propagated(Code code, Type t, Type from, const NamedUnary *unary, double r, double a, double b, double c,
                  double ea, double eb, double ec);

} // namespace kumiko::interpreter
