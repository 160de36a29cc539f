// Reductions, and normalisations based on them.
#pragma once

#include "dsl/op.h"

#include <string>
#include <vector>

namespace kumiko::ops {

// "sum", "product", "max", "min", "mean", "argmax", "argmin"
const std::vector<std::string> &reduction_kinds();

// Reduces X, over axes i0, i1, … with the given extents, along the axes at the positions `over`
// (negative values count from the end; empty means all). Y keeps the others. Narrow types are
// accumulated in a wider one: f16 and bf16 in f32, rounded at the end; 8- and 16-bit integers in
// i32, which is then the type of Y. argmax and argmin return i32.
Op reduction(const std::string &kind, Type t, const std::vector<Expr> &extents, std::vector<int> over);

// Y(i, j) = exp(X(i, j) − max) / sum over j of the same, for M rows of N. Stages "max", "e", "sum",
// "Y".
Op softmax(Type t, const Expr &M, const Expr &N);

// The same along the axis at position `axis` (negative values count from the end) of X over axes
// i0, i1, … with the given extents.
Op softmax(Type t, const std::vector<Expr> &extents, int axis);
Op log_softmax(Type t, const std::vector<Expr> &extents, int axis);

// The k <= 64 largest elements along the axis at position `axis`, in descending order: Y has their
// values and P their int32 positions, both with an axis n of extent k in its place. Ties, NaN and
// short rows as in dsl/top_k.h.
Op top_k(Type t, const std::vector<Expr> &extents, int axis, int k);

// Y(i, j) = X(i, j) − max − log1p(sum over j of exp(X − max), without one maximum), for M rows of
// N. Stages "max", "ties", "rest", "shift", "Y". In f32 the error is at most 8 ulp of the result,
// even if it is tiny. A sum of N > 128 terms adds its own rounding errors; where X − max is
// rounded, exp adds |X − max|/2 ulp to that term.
Op log_softmax(Type t, const Expr &M, const Expr &N);

// Y(i) = max + log1p(sum over j of exp(X − max), without one maximum), for M rows of N. The error
// bound is that of log_softmax, in ulp of the larger of |max| and the logarithm, because the two
// can differ in sign. Stages "max", "ties", "rest", "Y".
Op logsumexp(Type t, const Expr &M, const Expr &N);

// Y(i, j) = (X(i, j) − mean) · rsqrt(variance + eps) · gamma(j) + beta(j), mean and variance over
// j. Stages "mean", "variance", "Y".
Op layer_norm(Type t, const Expr &M, const Expr &N, double eps = 1e-5);

// Y(i, j) = X(i, j) · rsqrt(mean of squares + eps) · gamma(j).
Op rms_norm(Type t, const Expr &M, const Expr &N, double eps = 1e-5);

// Inference form, with given mean and variance per channel: Y(n, c, y, x) = X(n, c, y, x) ·
// scale(c) + shift(c), with scale = gamma · rsqrt(variance + eps) and shift = beta − mean · scale.
Op batch_norm(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, double eps = 1e-5,
              bool channels_last = false);

// Normalises each group of adjacent channels of each image to mean 0 and variance 1 over its
// channels and pixels, then scales channel c by gamma(c) and shifts it by beta(c). The channel axis
// is split into (g, c), c within a group. The H · W pixels are one axis s, or y and x if their
// number is symbolic: X and Y are (n, g, c, s), or (n, s, g, c) with channels last. The memory
// layout is that of axes y, x and one channel axis.
// Stages "mean", "variance", "Y". Throws UserError unless the groups divide the channels.
Op group_norm(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int groups, double eps = 1e-5,
              bool channels_last = false);

} // namespace kumiko::ops
