// Scatters: values folded into the elements that an index names. The gradient of an embedding:
//
//   compute("dW", {v, d}, scatter(sum, G(n, d), v, ids(n), n))
//   // dW(v, d) = the sum of G(n, d) over the n whose ids(n) is v
//
// In the stages it is a reduction whose term is the identity elsewhere, select(ids(n) == v, G(n, d), 0), and may be written so as well.
// An index outside of the axis names no element: what would go there is left out. As it stands every step visits all elements; the
// directive scatter of a schedule has it visit the one that is named.
#pragma once

#include "dsl/op.h"

#include <optional>

namespace kumiko {

using NamedFold = Element(const Expr &e, const AxisList &axes,
                          std::source_location where);     // sum, product, maximum, minimum
using Fold = Element(const Expr &e, const AxisList &axes); // a function that calls reduce

// fold(e) over `axes`, of those steps at which `index`, an integer, is the index along `at`, an axis of the tensor.
// Throws UserError for expressions that are undefined and for an index that is no integer.
Element scatter(NamedFold *fold, const Expr &e, const Axis &at, const Expr &index, const AxisList &axes,
                Place where = Place::current());
Element scatter(Fold *fold, const Expr &e, const Axis &at, const Expr &index, const AxisList &axes,
                Place where = Place::current());

// How a reduction scatters.
struct Scattered {
    std::string axis;
    Expr index, value; // what goes to the element at `index` along the axis
};

// Nothing for stages whose term is not select(index == axis, value, identity), with an index that does not depend on the axis. Where
// several axes are so, that one which comes first.
std::optional<Scattered> scattered(const Stage &stage);

// Whether folding the identity in leaves every value as it is, so that steps may leave elements out: for sums, products, extremes, and
// what of integers is proved to.
bool identity_is_neutral(const Stage &stage);

} // namespace kumiko
