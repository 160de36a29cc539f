// How an expression carries the tensors that it reads: a reference to a tensor is a call whose last argument is the
// tensor's definition, itself an expression. Op (dsl/op.h) collects the definitions and strips them, so no table of
// tensors lives anywhere, and expressions stay plain values.
#pragma once

#include "dsl/tensor.h"

namespace kumiko {

// The definition as an expression, and back. `encode` is done once per tensor; the result is shared.
Expr encode_definition(const TensorContents &contents);
TensorContents decode_definition(const Expr &definition);

// The depth of an expression. With definitions, it includes the depth of the tensors that it reads.
int nesting_depth(const Expr &e, bool with_definitions = true);

// Before the tensor's name in a reference, so that no tensor is taken for the intrinsic of its name ("abs").
inline const std::string reference_prefix = "kumiko.read.";

// A call made by Tensor::at that still carries its definition.
bool is_reference(const Halide::Internal::Call *call);

// The value, which to_string prints as `text`: what a user wrote, where it is encoded by other
// expressions. Op strips it: what stands in its stages is the value.
Expr written_as(const std::string &text, const Expr &value);
bool is_written(const Halide::Internal::Call *call);
// The value as it stands in a stage, and its text.
struct WrittenPart {
    Expr value;
    std::string text;
};
WrittenPart decode_written(const Halide::Internal::Call *call);

} // namespace kumiko
