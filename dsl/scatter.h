// Scatters: values folded into the elements that an index selects. The gradient of an embedding:
//
//   compute("dW", {v, d}, scatter(sum, G(n, d), v, ids(n), n))
//   // dW(v, d) = the sum of G(n, d) over the n whose ids(n) is v
//
// In the stages, a scatter is a reduction whose term is the identity for all other elements,
// select(ids(n) == v, G(n, d), 0); it can also be written that way. Terms whose index is out of
// bounds are dropped. By default every step visits all elements; with the schedule directive
// scatter it visits only the selected one.
#pragma once

#include "dsl/op.h"

#include <optional>

namespace kumiko {

using NamedFold = Element(const Expr &e, const AxisList &axes,
                          std::source_location where);     // sum, product, maximum, minimum
using Fold = Element(const Expr &e, const AxisList &axes); // a function that calls reduce

// fold(e) over the steps of `axes` at which `index`, an integer, equals `at`, an axis of the
// tensor.
// Throws UserError for undefined expressions and if the index is not an integer.
Element scatter(NamedFold *fold, const Expr &e, const Axis &at, const Expr &index, const AxisList &axes,
                Place where = Place::current());
Element scatter(Fold *fold, const Expr &e, const Axis &at, const Expr &index, const AxisList &axes,
                Place where = Place::current());

// The scatter form of a reduction.
struct Scattered {
    std::string axis;
    Expr index, value; // `value` is folded into the element at `index` along the axis
};

// Returns nullopt unless the term is select(index == axis, value, identity) and the index does not
// depend on the axis. If several axes match, the first one is taken.
std::optional<Scattered> scattered(const Stage &stage);

// Whether folding in the identity leaves every value unchanged, so that steps can skip elements.
// True for sums, products and extremes, and for other integer folds where that is proved.
bool identity_is_neutral(const Stage &stage);

} // namespace kumiko
