// Conditions over the sizes of an op, and over the values of its inputs (schedules/values.h), as text and back: how assume and specialize are saved.
#pragma once

#include "dsl/op.h"

namespace kumiko {

// "M % 14 == 0 && N > 1". Reads back by parse_condition to an equal expression.
std::string condition_text(const Expr &condition);

// Numbers, names of sizes, + − * / %, comparisons, && || !, parentheses, min(a, b), max(a, b), within("B", -64, 64).
// Throws UserError with the place in the text.
Expr parse_condition(const Op &op, const std::string &text);

// Throws UserError unless the condition is a bool over the op's sizes alone.
void check_condition(const Op &op, const Expr &condition, const std::string &what, const std::source_location &where);

} // namespace kumiko
