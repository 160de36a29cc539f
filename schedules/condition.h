// Conditions over an op's sizes and over the values of its inputs (schedules/values.h), as text and
// back. assume and specialize are saved in this form.
#pragma once

#include "dsl/op.h"

namespace kumiko {

// "M % 14 == 0 && N > 1". parse_condition returns an equal expression.
std::string condition_text(const Expr &condition);

// Grammar: numbers, names of sizes, + − * / %, comparisons, && || !, parentheses, min(a, b), max(a,
// b), within("B", -64, 64).
// Throws UserError with the position in the text.
Expr parse_condition(const Op &op, const std::string &text);

// Throws UserError unless the condition is a bool that depends only on the op's sizes.
void check_condition(const Op &op, const Expr &condition, const std::string &what, const std::source_location &where);

} // namespace kumiko
