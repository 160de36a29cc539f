// Products of matrices.
#pragma once

#include "dsl/op.h"

#include <string>

namespace kumiko::ops {

struct MatmulOptions {
    bool transpose_a = false; // A is stored (k, i)
    bool transpose_b = false; // B is stored (j, k)
    Expr batch;               // with it every tensor has an outermost axis b of this extent
    bool shared_b = false;    // B has no batch axis
    bool bias = false;        // a third input "bias" (j), added to every row
    bool residual = false;    // a last input "residual", shaped like C, added before the activation
    std::string activation;   // a unary function of ops/elementwise.h, applied last
    Type b_type;              // of B; the type of A unless stated
    Type accumulate;          // in which products are summed; accumulator_type(A) unless stated
    Type output;              // of C; a float type of A, else the accumulation type, unless stated
    // The sum and its bias, both i32, become i8 or u8 as `output` says: times an input "scale" (j) of f32, behind the bias, then the
    // activation, rounded and saturated as in ops/quantise.h. Without residual.
    bool requantise = false;
    int zero_point = 0;
    Expr lda, ldb, ldc; // elements between rows as stored; dense unless stated

    static bool stated(Type t) { return t.bits() != 0; }
};

// C(i, j) = activation(sum over k: A(i, k) * B(k, j) + bias(j) + residual(i, j)). Axes b, i, j, k of extents batch, M, N, K.
// With an epilogue or a conversion the sum is the stage "C.sum", else C itself is the sum.
Op matmul(Type t, const Expr &M, const Expr &N, const Expr &K, const MatmulOptions &options = {});

// y(i) = sum over k: A(i, k) * x(k).
Op gemv(Type t, const Expr &M, const Expr &K);

// C(i, j) = alpha-free BLAS gemm on stored strides: matmul with lda, ldb and ldc symbolic sizes of those names.
Op gemm_strided(Type t, const Expr &M, const Expr &N, const Expr &K);

} // namespace kumiko::ops
