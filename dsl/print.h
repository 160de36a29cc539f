// Formulas as text, used by Op::to_string and Op::hash (dsl/op.h).
#pragma once

#include "dsl/definition.h"
#include "dsl/op.h"

namespace kumiko {

// An expression with the fewest parentheses, short numbers and plain function names: "A(i, k) *
// B(k, j) + 0.5". Casts print as "f32(x)". Large common subexpressions are named: "t1 + t1 * x,
// where t1 = …".
std::string to_string(const Expr &e);
// An expression of a stage; `parts` print as their source texts.
std::string to_string(const Expr &e, const std::vector<WrittenPart> &parts);

// "C(i, j) = sum over k: A(i, k) * B(k, j)". `over`: printed instead of the reduction axes' names.
std::string to_string(const Stage &stage, const std::string &over = "");

} // namespace kumiko
