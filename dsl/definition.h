// How an expression refers to tensors: a reference is a call whose last argument is the tensor's
// definition, itself an expression. Op (dsl/op.h) collects the definitions and strips them, so
// there is no global table of tensors and expressions stay plain values.
#pragma once

#include "dsl/tensor.h"

namespace kumiko {

// The definition as an expression, and back. `encode` is done once per tensor; the result is
// shared.
Expr encode_definition(const TensorContents &contents);
TensorContents decode_definition(const Expr &definition);

// The depth of an expression. With definitions, the depth of the tensors that it reads is included.
int nesting_depth(const Expr &e, bool with_definitions = true);

// Prefix of the tensor's name in a reference. It keeps a tensor named like an intrinsic ("abs")
// from being mistaken for it.
inline const std::string reference_prefix = "kumiko.read.";

// A call made by Tensor::at that still carries its definition.
bool is_reference(const Halide::Internal::Call *call);

// Attaches a source text to `value`: to_string prints `text`, what the user wrote, in place of the
// lowered expression. Op strips the wrapper from its stages.
Expr written_as(const std::string &text, const Expr &value);
bool is_written(const Halide::Internal::Call *call);
// The value as it appears in a stage, and its source text.
struct WrittenPart {
    Expr value;
    std::string text;
};
WrittenPart decode_written(const Halide::Internal::Call *call);

} // namespace kumiko
