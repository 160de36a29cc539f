// Matrix products.
#pragma once

#include "dsl/op.h"

#include <string>

namespace kumiko::ops {

// Options of matmul().
struct MatmulOptions {
    bool transpose_a = false; // A is stored (k, i)
    bool transpose_b = false; // B is stored (j, k)
    Expr batch;               // if defined, every tensor has an outermost axis b of this extent
    bool shared_b = false;    // B has no batch axis
    bool bias = false;        // adds a third input "bias" (j) to every row
    bool residual = false;    // adds a last input "residual", shaped like C, before the activation
    std::string activation;   // applied last: a unary function of ops/elementwise.h
    Type b_type;              // of B; default: the type of A
    Type accumulate;          // accumulator type; default: accumulator_type(A)
    // Type of C; default: the type of A if it is a float, otherwise the accumulator type.
    Type output;
    // Requantisation epilogue: the i32 sum with its i32 bias becomes i8 or u8, as `output` states.
    // It is multiplied by an f32 input "scale" (j) (after the bias), then activated, rounded and
    // saturated as in ops/quantise.h. Not with residual.
    bool requantise = false;
    int zero_point = 0;
    Expr lda, ldb, ldc; // row strides in elements; dense by default

    static bool stated(Type t) { return t.bits() != 0; }
};

// C(i, j) = activation(sum over k: A(i, k) * B(k, j) + bias(j) + residual(i, j)). The axes b, i, j,
// k have the extents batch, M, N, K. With an epilogue or a conversion, the sum is the stage
// "C.sum"; otherwise C itself is the sum.
Op matmul(Type t, const Expr &M, const Expr &N, const Expr &K, const MatmulOptions &options = {});

// y(i) = sum over k: A(i, k) * x(k).
Op gemv(Type t, const Expr &M, const Expr &K);

// BLAS gemm without alpha and beta, with leading dimensions: matmul with symbolic sizes lda, ldb
// and ldc.
Op gemm_strided(Type t, const Expr &M, const Expr &N, const Expr &K);

} // namespace kumiko::ops
