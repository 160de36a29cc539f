// The error bound of one operation, from those of its operands.
#pragma once

#include "dsl/interpreter/program.h"

namespace kumiko::interpreter {

// Half the distance from 1 to the next number of a float type; 0 for others.
double unit_roundoff(Type t);
double smallest(Type t);
double largest(Type t);

// `r`: the result; `a`, `b`, `c`: the operands (c the condition of a select); `e…`: the bounds of the operands.
double propagated(Code code, Type t, Type from, const NamedUnary *unary, double r, double a, double b, double c,
                  double ea, double eb, double ec);

} // namespace kumiko::interpreter
