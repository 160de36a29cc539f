// One op for all sizes of a model, from the ops of several sizes.
#pragma once

#include "dsl/op.h"
#include "support/polynomial.h"

namespace kumiko::graph {

// A polynomial in these sizes, computed in a type.
Expr expression_of(const Polynomial &number, const std::vector<Size> &sizes, Type type);

// Numbers of one formula that differ between ops are replaced by polynomials in `sizes`; floats may
// also be quotients of a number by a polynomial, as in means. `samples`: one op for each point of
// the fit, made by the same formula. Throws Unsupported, and says what differs, if the ops have
// different forms, or if a number is no polynomial; UserError as Op::with_sizes.
Op sized_op(const std::vector<Op> &samples, const PolynomialFit &fit, const std::vector<Size> &sizes);

// The op with numbers in place of sizes, by their names.
Op at_sizes(const Op &op, const std::map<std::string, int64_t> &values);

} // namespace kumiko::graph
