// The largest values of a row and where they stand.
#pragma once

#include "dsl/tuple.h"

namespace kumiko {

inline constexpr int most_top_k = 16;

// The k largest values of e along the axis, largest first: parts 0 to k − 1 are values, parts k
// to 2k − 1 their int32 positions. Of equal values the lower position comes first. A NaN is never
// among them. Where fewer values are left than k, the others are the lowest value (floats: −inf) at
// position −1.
//
//   Tuple best = top_k(X(i, j), j, 2);
//   Op op("top2", {X}, {compute("first", {i}, best[0]), compute("at", {i}, best[2])});
//
// One reduction, in any order, whose combiner merges two sorted lists by a network. Throws
// UserError unless 1 <= k <= most_top_k.
Tuple top_k(const Expr &e, const Axis &axis, int k, Place where = Place::current());

} // namespace kumiko
