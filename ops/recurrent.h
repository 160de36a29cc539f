// Recurrent layers. Each step computes a state from an element of a sequence and from the state
// before. Gates and their order are as in ONNX's operators RNN, GRU and LSTM.
#pragma once

#include "dsl/op.h"

namespace kumiko::ops {

struct RecurrentOptions {
    bool reverse = false;     // the last element of the sequence comes first
    bool states = false;      // also the output Y_h(b, u), the last state, and of lstm Y_c(b, u)
    bool reset_after = false; // gru: the reset gate multiplies the product, not the state
};

// Floats only; f16 and bf16 are computed in f32. T steps of B sequences, I elements of input, U of
// state. Inputs of all: X(t, b, i); the weights W(g, u, i) of the input, R(g, u, k) of the state
// and the bias(g, u), by gate; the first state h0(b, u). Output: Y(t, b, u), the state after each
// step.

// h = tanh(W x + R h + bias); W(u, i), R(u, k) and bias(u) have no gates.
Op rnn(Type t, const Expr &T, const Expr &B, const Expr &I, const Expr &U, const RecurrentOptions &options = {});

// Gates z, r and n: h = (1 - z) n + z h, where z and r are sigmoids of their products, and n =
// tanh(W x + R (r h) + bias), or, with `reset_after`, n = tanh(W x + bias + r (R h + rbias)), of
// which rbias(u) is one more input.
Op gru(Type t, const Expr &T, const Expr &B, const Expr &I, const Expr &U, const RecurrentOptions &options = {});

// Gates i, o, f and n: c = f c + i n and h = o tanh(c), where i, o and f are sigmoids of their
// products and n is tanh of its own. One more input is c0(b, u).
Op lstm(Type t, const Expr &T, const Expr &B, const Expr &I, const Expr &U, const RecurrentOptions &options = {});

} // namespace kumiko::ops
