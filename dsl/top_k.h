// The largest values of a row and where they stand.
#pragma once

#include "dsl/reduction.h"
#include "dsl/tuple.h"

namespace kumiko {

inline constexpr int most_top_k = 64;

// The k largest values of e along the axis, largest first: parts 0 to k − 1 are values, parts k
// to 2k − 1 their int32 positions. Of equal values the lower position comes first. A NaN is never
// among them. Where fewer values are left than k, the others are the lowest value (floats: −inf) at
// position −1.
//
//   Tuple best = top_k(X(i, j), j, 2);
//   Op op("top2", {X}, {compute("first", {i}, best[0]), compute("at", {i}, best[2])});
//
// Up to 3 values, and up to 16 of rows of less than 512 elements or a symbolic size, are one
// reduction, in any order, whose combiner merges two sorted lists by a network. Others are found
// by a tree of several stages, whose nodes are the best of two: one pass over the row, log2(N / 2k)
// levels, and 4 k² comparisons for each. Its last level reads e again, at positions that are found;
// an expression that is not a read of a tensor is kept in a stage "<tensor>.row". A row of a
// symbolic size has at least one element there.
//
// Throws UserError unless 1 <= k <= most_top_k.
Tuple top_k(const Expr &e, const Axis &axis, int k, Place where = Place::current());

// The n-th largest value and its position, for a tensor over axis n of k elements.
//
//   Axis n("n", 32);
//   Extreme best = top_k(X(i, j), j, n);
//   Op op("top32", {X}, {compute("values", {i, n}, best.value), compute("at", {i, n}, best)});
//
// The same list. Throws UserError unless the extent of n is a number, 1 to most_top_k.
Extreme top_k(const Expr &e, const Axis &axis, const Axis &n, Place where = Place::current());

} // namespace kumiko
