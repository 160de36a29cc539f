// Reductions, and the normalisations built on them.
#pragma once

#include "dsl/op.h"

#include <string>
#include <vector>

namespace kumiko::ops {

// "sum", "product", "max", "min", "mean", "argmax", "argmin"
const std::vector<std::string> &reduction_kinds();

// X over axes i0, i1, … of the extents given, reduced over those whose positions are in `over` (negative count from the
// end; empty means all). Y keeps the others. Narrow types are summed in a wider one: f16 and bf16 in f32, rounded at the
// end; 8- and 16-bit integers in i32, which is then Y's type. argmax and argmin give i32.
Op reduction(const std::string &kind, Type t, const std::vector<Expr> &extents, std::vector<int> over);

// Y(i, j) = exp(X(i, j) − max) / sum of the same over j, for each of M rows of N. Stages "max", "e", "sum", "Y".
Op softmax(Type t, const Expr &M, const Expr &N);

// The same along the axis at position `axis` (negative counts from the end) of X over axes i0, i1,
// … of the extents given.
Op softmax(Type t, const std::vector<Expr> &extents, int axis);
Op log_softmax(Type t, const std::vector<Expr> &extents, int axis);

// The k largest elements, up to 64, along the axis at position `axis`, largest first: Y has their
// values and P their int32 positions, both over an axis n of k in its place. Ties, NaN and short
// rows as in dsl/top_k.h.
Op top_k(Type t, const std::vector<Expr> &extents, int axis, int k);

// Y(i, j) = X(i, j) − max − log1p(sum of exp(X − max) over j without one maximum), for each of M
// rows of N. Stages "max", "ties", "rest", "shift", "Y". In f32 the error is within 8 units in the
// last place of the result, also where it is tiny; a sum of N > 128 terms adds its own rounding
// errors, and where X − max is rounded, exp adds |X − max|/2 units to that term.
Op log_softmax(Type t, const Expr &M, const Expr &N);

// Y(i) = max + log1p(sum of exp(X − max) over j without one maximum), for each of M rows of N.
// The error bound is that of log_softmax, in units in the last place of the greater of |max| and the
// logarithm, since the two may differ in sign. Stages "max", "ties", "rest", "Y".
Op logsumexp(Type t, const Expr &M, const Expr &N);

// Y(i, j) = (X(i, j) − mean) · rsqrt(variance + eps) · gamma(j) + beta(j), both over j. Stages "mean", "variance", "Y".
Op layer_norm(Type t, const Expr &M, const Expr &N, double eps = 1e-5);

// Y(i, j) = X(i, j) · rsqrt(mean of squares + eps) · gamma(j).
Op rms_norm(Type t, const Expr &M, const Expr &N, double eps = 1e-5);

// The form of inference, with the mean and variance of each channel given: Y(n, c, y, x) = X(n, c, y, x) · scale(c) + shift(c), scale = gamma ·
// rsqrt(variance + eps), shift = beta − mean · scale.
Op batch_norm(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, double eps = 1e-5,
              bool channels_last = false);

// Each image's channels in groups of neighbours, each group to mean 0 and variance 1 over its channels and pixels, then every channel c
// scaled by gamma(c) and shifted by beta(c). Channels stand as (g, c), c within a group, and the H · W pixels as one axis s, or as y and x
// where that is known only at run time: X and Y are (n, g, c, s), or (n, s, g, c) with channels last, and lie in memory as with axes y, x
// and one of channels.
// Stages "mean", "variance", "Y". Throws UserError unless the groups divide the channels.
Op group_norm(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int groups, double eps = 1e-5,
              bool channels_last = false);

} // namespace kumiko::ops
