// Ops that move elements.
#pragma once

#include "dsl/op.h"

#include <vector>

namespace kumiko::ops {

// Y(j, i) = X(i, j).
Op transpose(Type t, const Expr &M, const Expr &N);

// Y(i, j) = X(index(i), j): rows of X, a table of N rows of W, by number; numbers below 0 and from N on take the first and the last row.
Op gather(Type t, const Expr &M, const Expr &N, const Expr &W);

// Y(b, s, j) = table(token(b, s), j): the same for B sequences of S tokens.
Op embedding(Type t, const Expr &B, const Expr &S, const Expr &N, const Expr &W);

// dtable(row, j) = the sum of dY(b, s, j) over the tokens that embedding takes from that row: what dY is to the table. Types as in a
// reduction's sum: f16 and bf16 are summed in f32 and rounded at the end, 8- and 16-bit integers become i32.
Op embedding_gradient(Type t, const Expr &B, const Expr &S, const Expr &N, const Expr &W);

// Y(i of order[0], i of order[1], …) = X(i0, i1, …): X's axes, of these extents, in another order. `order` has each position once;
// throws UserError otherwise.
Op permute(Type t, const std::vector<Expr> &extents, const std::vector<int> &order);

// In what follows arrays have the axes i0, i1, … of the extents given, outermost first, and lists say something of each axis.
// Throws UserError for lists of other lengths and for what is said to be legal below and is not.

// Y(i0, …) = X(i0 − before[0], …), and `value` where that lies outside: `before` and `after` (0 or more) are how far Y reaches beyond X
// on the two sides of each axis; an empty list means 0 everywhere. The type has to hold the value.
Op pad(Type t, const std::vector<Expr> &extents, const std::vector<int> &before, const std::vector<int> &after,
       double value = 0);

// Y(i0, …) = X(begin[0] + i0 · step[0], …), of the extents `taken`. `begin` is 0 or more, `step` not 0, negative steps go backwards; an
// empty list means 0 or 1 everywhere. What is taken has to lie inside of X.
Op slice(Type t, const std::vector<Expr> &extents, const std::vector<Expr> &taken, const std::vector<int> &begin = {},
         const std::vector<int> &step = {});

// Inputs X0, X1, … one behind the other along the axis at position `axis` of Y (negative counts from the end). `shared` are the extents of the
// other axes, `parts` those of each input along that axis; two or more.
Op concat(Type t, const std::vector<Expr> &shared, const std::vector<Expr> &parts, int axis);

// Y(i, j) = on where j = index(i), else off, for M indices into N classes; an index outside has none.
Op one_hot(Type t, const Expr &M, const Expr &N, double on = 1, double off = 0);

} // namespace kumiko::ops
