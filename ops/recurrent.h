// Recurrent layers. Each step computes a new state from one element of a sequence and the previous
// state. Gates and their order are those of ONNX's operators RNN, GRU and LSTM.
#pragma once

#include "dsl/op.h"

namespace kumiko::ops {

// Options of rnn(), gru() and lstm().
struct RecurrentOptions {
    bool reverse = false;     // processes the sequence from its last element to the first
    bool states = false;      // adds the output Y_h(b, u), the last state, and for lstm Y_c(b, u)
    bool reset_after = false; // gru: the reset gate multiplies the product instead of the state
};

// Floats only; f16 and bf16 are computed in f32. T steps, B sequences, I input elements, U state
// elements. Common inputs: X(t, b, i); per gate, the weights W(g, u, i) of the input, the weights
// R(g, u, k) of the state, and bias(g, u); the initial state h0(b, u). Output: Y(t, b, u), the
// state after each step.

// h = tanh(W x + R h + bias). W(u, i), R(u, k) and bias(u) have no gate axis.
Op rnn(Type t, const Expr &T, const Expr &B, const Expr &I, const Expr &U, const RecurrentOptions &options = {});

// Gates z, r and n: h = (1 - z) n + z h. z and r are sigmoids of their products; n = tanh(W x + R
// (r h) + bias), or with `reset_after` n = tanh(W x + bias + r (R h + rbias)), with rbias(u) as an
// additional input.
Op gru(Type t, const Expr &T, const Expr &B, const Expr &I, const Expr &U, const RecurrentOptions &options = {});

// Gates i, o, f and n: c = f c + i n and h = o tanh(c). i, o and f are sigmoids of their products,
// n is tanh of its product. Additional input: c0(b, u).
Op lstm(Type t, const Expr &T, const Expr &B, const Expr &I, const Expr &U, const RecurrentOptions &options = {});

} // namespace kumiko::ops
