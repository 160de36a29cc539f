// In-place arrays: the op reads and overwrites them, and the caller passes them once.
//
//   Tensor C = inout("C", f32, {i, j});
//   Op("accumulate", {A, B, C}, {update(C, C(i, j) + sum(A(i, k) * B(k, j), k))});
//
// update returns a tensor "C.out" that holds the new elements and may be read by other stages; C
// always denotes the old elements. Op throws unless every read of C precedes the overwrite: the
// update reads C only at the element that it writes, and every other stage that reads C precedes
// the update in the order of the outputs. Schedules preserve this (docs/decisions/0029).
#pragma once

#include "dsl/buffers.h"

namespace kumiko {

// Declares an in-place array. It is listed among the op's inputs, and exactly one output updates
// it.
Tensor inout(const std::string &name, Type type, const std::vector<Axis> &axes, const InputOptions &options = {},
             std::source_location where = std::source_location::current());

// The new elements of an inout tensor, over its axes. Throws UserError if the tensor is not inout
// or `value` has another type.
Tensor update(const Tensor &tensor, const Expr &value, std::source_location where = std::source_location::current());

// Whether a stage other than the update reads an inout tensor, directly or through padding.
bool reads_before_update(const Op &op);

// The arrays that hold the outputs, in the order of op.outputs(). `arguments` are those of a
// kernel: inputs, then separate outputs.
std::vector<Buffer<>> output_arrays(const Op &op, const std::vector<Buffer<>> &arguments);

// The arguments with inout arrays copied, so that the caller's arrays are not overwritten.
std::vector<Buffer<>> with_inouts_copied(const Op &op, std::vector<Buffer<>> arguments);

// Throws UserError if a stage may read an inout tensor after it is overwritten, or if an inout
// tensor does not have exactly one update among the outputs. Takes the parts of an op before it is
// constructed.
void check_inouts(const std::string &op, const std::vector<Input> &inputs, const std::vector<Stage> &stages,
                  const std::vector<std::string> &outputs, const std::source_location &where);

} // namespace kumiko
