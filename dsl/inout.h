// Arrays that an op reads and replaces, passed once:
//
//   Tensor C = inout("C", f32, {i, j});
//   Op("accumulate", {A, B, C}, {update(C, C(i, j) + sum(A(i, k) * B(k, j), k))});
//
// update gives a tensor "C.out", the new elements, which stages may read in turn; C is always what was there before. The op is refused
// unless what is read has not been replaced yet: the update reads C only at the element that it writes, and every other stage that
// reads C comes before it, by the order of the outputs. Schedules keep that (docs/decisions/0029).
#pragma once

#include "dsl/buffers.h"

namespace kumiko {

// Named among an op's inputs; exactly one output of the op updates it.
Tensor inout(const std::string &name, Type type, const std::vector<Axis> &axes, const InputOptions &options = {},
             std::source_location where = std::source_location::current());

// What the elements of an inout tensor become, over its axes. Throws UserError when the tensor is not inout, or `value` of another type.
Tensor update(const Tensor &tensor, const Expr &value, std::source_location where = std::source_location::current());

// Whether a stage other than its update reads an inout tensor, also through padding.
bool reads_before_update(const Op &op);

// Of the arguments of a kernel, inputs and separate outputs, the arrays that hold the outputs, in the order of op.outputs().
std::vector<Buffer<>> output_arrays(const Op &op, const std::vector<Buffer<>> &arguments);

// The arguments, with copies in place of inout tensors, so that those given keep their elements.
std::vector<Buffer<>> with_inouts_copied(const Op &op, std::vector<Buffer<>> arguments);

// Throws UserError when a stage reads an inout tensor where it may be replaced already, or an inout tensor has not exactly one update
// among the outputs. Of an op's parts, before it is one.
void check_inouts(const std::string &op, const std::vector<Input> &inputs, const std::vector<Stage> &stages,
                  const std::vector<std::string> &outputs, const std::source_location &where);

} // namespace kumiko
