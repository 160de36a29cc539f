// Checks of what a formula may contain. Op applies them to every expression reachable from its
// outputs, so that unsupported nodes are reported where they were written and never reach a back
// end.
#pragma once

#include "dsl/reach.h"

namespace kumiko {

// Throws UserError unless `name` is an identifier. `what`: "axis", "op", …
const std::string &check_name(const std::string &name, const char *what, const std::source_location &where);

// Throws UserError unless `type` is a scalar type that type_name names. `what`: "input \"X\"", ….
void check_element_type(Type type, const std::string &what, const std::source_location &where);

// Throws UserError for nodes without a meaning in a formula: Halide parameters, functions, images,
// reduction domains and vectors, and variables that are neither int32 nor named like an axis or a
// Size. Throws Unsupported for functions that are not evaluated here (print, require, random
// numbers, user-defined functions). Reads of tensors are legal; the tensors' definitions and the
// terms of reductions inside `e` are not checked.
void check_formula(const Expr &e, const std::string &owner, const std::source_location &where);

// Limit on the nesting depth of an expression, because visitors recurse. The expressions inside
// reductions and inside the tensors that it reads count.
constexpr int deepest_expression = 10000;
// Throws UserError for deeper expressions. Not recursive itself; linear in the number of nodes.
void check_depth(const Expr &e, const std::string &owner, const std::source_location &where);

// Checks the fold of a reduction: the combiner uses only its two arguments and numbers, and the
// identity is a number.
void check_fold(const ReductionTerm &r, const std::string &owner, const std::source_location &where);

// Checks an extent or a stride: integer arithmetic of integers and sizes.
void check_size_expression(const Expr &e, const std::string &what, const std::source_location &where);

// Every data-dependent index must be provably in bounds for all data values. Sizes are assumed to
// be 1 or more. Error messages print the expressions in `written` by their source texts.
void check_indices(const Stage &stage, const AxesInside &axes_of, const std::vector<WrittenPart> &written,
                   const std::source_location &where);

} // namespace kumiko
