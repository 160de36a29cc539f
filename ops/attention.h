// Attention.
#pragma once

#include "dsl/op.h"

namespace kumiko::ops {

// Options of attention().
struct AttentionOptions {
    double scale = 0;    // of the scores; default 1 / sqrt(D)
    bool causal = false; // query i attends to keys up to i + T − S: the last query attends to all
    // Heads of keys and values, each shared by heads / groups query heads; default: heads.
    int groups = 0;
    Expr values; // elements per value; default D
};

// Scaled dot-product attention:
//
// Y(b, h, i, e) = sum over j: softmax over j of (scale · sum over d: Q(b, h, i, d) · K(b, h, j, d))
// · V(b, h, j, e)
//
// for B sequences, `heads` heads, S queries, T keys, D elements per key. The head axis of queries
// is split into (g, r): r query heads for each head g of keys. The memory layout is the same as
// with one head axis. A query that attends to no key gives NaN.
// Stages "score", "max", "e", "sum", "share", "mixed", "Y". Floats only; f16 and bf16 are computed
// in f32.
Op attention(Type t, const Expr &B, int heads, const Expr &S, const Expr &T, const Expr &D,
             const AttentionOptions &options = {});

} // namespace kumiko::ops
