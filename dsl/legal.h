// What may stand in a formula. Op asks this of everything that its outputs reach, so that whatever has no meaning here is
// refused where it was written, and never met later by a machine that does not know it.
#pragma once

#include "dsl/reach.h"

namespace kumiko {

// Throws UserError unless `name` is an identifier. `what`: "axis", "op", …
const std::string &check_name(const std::string &name, const char *what, const std::source_location &where);

// Throws UserError unless `type` is one of those that type_name names, of one lane. `what`: "input \"X\"", ….
void check_element_type(Type type, const std::string &what, const std::source_location &where);

// Throws UserError for what cannot mean anything in a formula: Halide's parameters, functions, images, reduction domains and
// vectors, and variables that are neither int32 nor named like an axis or a Size; Unsupported for functions that are not
// evaluated here (print, require, random numbers, functions of the user's). Reads of tensors are legal; the definitions of
// the tensors and the terms of reductions inside `e` are left alone.
void check_formula(const Expr &e, const std::string &owner, const std::source_location &where);

// How deep an expression may be nested, since visitors recurse. The expressions inside of reductions
// and of the tensors that it reads count too.
constexpr int deepest_expression = 10000;
// Throws UserError for an expression that is nested deeper. Does not recurse itself; linear in the
// number of nodes.
void check_depth(const Expr &e, const std::string &owner, const std::source_location &where);

// The same for what a reduction folds with: the combiner uses its two arguments and numbers only, the identity is a number.
void check_fold(const ReductionTerm &r, const std::string &owner, const std::source_location &where);

// An extent or a stride: integers and sizes under integer arithmetic.
void check_size_expression(const Expr &e, const std::string &what, const std::source_location &where);

// Every read whose index depends on a value that is read must be proved to stay inside for all values. Sizes are taken to be 1 or
// more. Errors show parts of the stage that are in `written` as their texts.
void check_indices(const Stage &stage, const AxesInside &axes_of, const std::vector<WrittenPart> &written,
                   const std::source_location &where);

} // namespace kumiko
