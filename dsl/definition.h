// How an expression carries the tensors that it reads: a reference to a tensor is a call whose last argument is the
// tensor's definition, itself an expression. Op (dsl/op.h) collects the definitions and strips them, so no table of
// tensors lives anywhere, and expressions stay plain values.
#pragma once

#include "dsl/tensor.h"

namespace kumiko {

// The definition as an expression, and back. `encode` is done once per tensor; the result is shared.
Expr encode_definition(const TensorContents &contents);
TensorContents decode_definition(const Expr &definition);

// A call made by Tensor::at that still carries its definition.
bool is_reference(const Halide::Internal::Call *call);

} // namespace kumiko
