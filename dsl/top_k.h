// The k largest values of a row and their positions.
#pragma once

#include "dsl/reduction.h"
#include "dsl/tuple.h"

namespace kumiko {

inline constexpr int most_top_k = 64;

// The k largest values of e along the axis, in descending order: parts 0 to k − 1 are the values,
// parts k to 2k − 1 their int32 positions. Ties take the lower position first. NaN is never
// included. If fewer than k values are left, the rest are the type's lowest value (floats: −inf) at
// position −1.
//
//   Tuple best = top_k(X(i, j), j, 2);
//   Op op("top2", {X}, {compute("first", {i}, best[0]), compute("at", {i}, best[2])});
//
// For k <= 3, and for k <= 16 if the row has less than 512 elements or a symbolic size, this is one
// order-independent reduction whose combiner merges two sorted lists with a merging network.
// Otherwise it is a tournament tree of several stages: one pass over the row, then log2(N / 2k)
// levels with 4 k² comparisons each. The last level reads e again at the positions found. If e is
// not a plain read of a tensor, it is materialised in a stage "<tensor>.row". A row of symbolic
// size must then have at least one element.
//
// Throws UserError unless 1 <= k <= most_top_k.
Tuple top_k(const Expr &e, const Axis &axis, int k, Place where = Place::current());

// The n-th largest value and its position, for a tensor over an axis n of k elements.
//
//   Axis n("n", 32);
//   Extreme best = top_k(X(i, j), j, n);
//   Op op("top32", {X}, {compute("values", {i, n}, best.value), compute("at", {i, n}, best)});
//
// The list is the same as above. Throws UserError unless the extent of n is a number from 1 to
// most_top_k.
Extreme top_k(const Expr &e, const Axis &axis, const Axis &n, Place where = Place::current());

} // namespace kumiko
