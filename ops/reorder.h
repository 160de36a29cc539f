// Ops that move elements.
#pragma once

#include "dsl/op.h"

namespace kumiko::ops {

// Y(j, i) = X(i, j).
Op transpose(Type t, const Expr &M, const Expr &N);

// Y(i, j) = X(index(i), j): rows of X, a table of N rows of W, by number; numbers below 0 and from N on take the first and the last row.
Op gather(Type t, const Expr &M, const Expr &N, const Expr &W);

// Y(b, s, j) = table(token(b, s), j): the same for B sequences of S tokens.
Op embedding(Type t, const Expr &B, const Expr &S, const Expr &N, const Expr &W);

} // namespace kumiko::ops
