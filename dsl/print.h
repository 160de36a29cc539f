// Formulas as text. Op::to_string and Op::hash (dsl/op.h) are built on these.
#pragma once

#include "dsl/definition.h"
#include "dsl/op.h"

namespace kumiko {

// An expression with the fewest parentheses, short numbers and plain function names: "A(i, k) * B(k, j) + 0.5". Casts
// read as "f32(x)". Large shared parts are named: "t1 + t1 * x, where t1 = …".
std::string to_string(const Expr &e);
// An expression of a stage, in which the parts read as their texts.
std::string to_string(const Expr &e, const std::vector<WrittenPart> &parts);

// "C(i, j) = sum over k: A(i, k) * B(k, j)". `over`: what to print instead of the names of the reduction axes.
std::string to_string(const Stage &stage, const std::string &over = "");

} // namespace kumiko
