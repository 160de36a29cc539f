// Data-movement ops.
#pragma once

#include "dsl/op.h"

#include <vector>

namespace kumiko::ops {

// Y(j, i) = X(i, j).
Op transpose(Type t, const Expr &M, const Expr &N);

// Y(i, j) = X(index(i), j): rows of a table X of N rows of W elements. Indices are clamped to [0,
// N).
Op gather(Type t, const Expr &M, const Expr &N, const Expr &W);

// Y(b, s, j) = table(token(b, s), j): a gather for B sequences of S tokens, indices clamped as in
// gather.
Op embedding(Type t, const Expr &B, const Expr &S, const Expr &N, const Expr &W);

// Gradient of embedding with respect to the table: dtable(row, j) = the sum of dY(b, s, j) over the
// tokens that select that row. Types as in sum reductions: f16 and bf16 are accumulated in f32 and
// rounded at the end; 8- and 16-bit integers become i32.
Op embedding_gradient(Type t, const Expr &B, const Expr &S, const Expr &N, const Expr &W);

// Y(i of order[0], i of order[1], …) = X(i0, i1, …). `extents` are those of X. Throws UserError
// unless `order` contains each position once.
Op permute(Type t, const std::vector<Expr> &extents, const std::vector<int> &order);

// Below, arrays have axes i0, i1, … with the given extents, outermost first, and lists have one
// entry per axis. Throws UserError for lists of other lengths and for illegal values.

// Y(i0, …) = X(i0 − before[0], …), and `value` outside X. `before` and `after` (>= 0): number of
// elements added on the two sides of each axis; an empty list means 0. The type must represent
// `value`.
Op pad(Type t, const std::vector<Expr> &extents, const std::vector<int> &before, const std::vector<int> &after,
       double value = 0);

// Y(i0, …) = X(begin[0] + i0 · step[0], …), with the extents `taken`. `begin` >= 0; `step` is not
// 0, negative steps go backwards; empty lists mean 0 and 1. The slice must be in bounds of X.
Op slice(Type t, const std::vector<Expr> &extents, const std::vector<Expr> &taken, const std::vector<int> &begin = {},
         const std::vector<int> &step = {});

// Concatenates inputs X0, X1, … along the axis at position `axis` of Y (negative counts from the
// end). `shared`: extents of the other axes; `parts`: extent of each input along that axis; at
// least two.
Op concat(Type t, const std::vector<Expr> &shared, const std::vector<Expr> &parts, int axis);

// Y(i, j) = on if j = index(i), otherwise off, for M indices into N classes. An index that is out
// of range matches no class.
Op one_hot(Type t, const Expr &M, const Expr &N, double on = 1, double off = 0);

} // namespace kumiko::ops
