// Propagation of error bounds through one operation.
#pragma once

#include "dsl/interpreter/program.h"

namespace kumiko::interpreter {

// Half the distance from 1 to the next larger value of a float type; 0 for other types.
double unit_roundoff(Type t);
double smallest(Type t);
double largest(Type t);

// `r`: the result; `a`, `b`, `c`: the operands (c: condition of a select); `e…`: their error
// bounds.
double propagated(Code code, Type t, Type from, const NamedUnary *unary, double r, double a, double b, double c,
                  double ea, double eb, double ec);

} // namespace kumiko::interpreter
