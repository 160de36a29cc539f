// Attention.
#pragma once

#include "dsl/op.h"

namespace kumiko::ops {

struct AttentionOptions {
    double scale = 0;    // of the scores; 1 / sqrt(D) unless stated
    bool causal = false; // query i sees keys up to i + T − S: the last query sees all
    int groups = 0; // heads of keys and values, each serving as many heads of queries; as many as heads unless stated
    Expr values;    // elements of a value; as of a key unless stated
};

// Y(b, h, i, e) = sum over j: softmax over j of (scale · sum over d: Q(b, h, i, d) · K(b, h, j, d)) · V(b, h, j, e), for B sequences and
// `heads` heads, S queries, T keys of D elements. Heads of queries stand as (g, r), r of them for each head g of keys: arrays lie in memory
// as with one axis of heads. A query that sees no key gives NaN.
// Stages "score", "max", "e", "sum", "share", "mixed", "Y". Floats only; f16 and bf16 are computed in f32.
Op attention(Type t, const Expr &B, int heads, const Expr &S, const Expr &T, const Expr &D,
             const AttentionOptions &options = {});

} // namespace kumiko::ops
