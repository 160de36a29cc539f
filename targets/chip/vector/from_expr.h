// Expressions of formulas as programs of the chip's vector units.
#pragma once

#include "dsl/halide.h"
#include "targets/chip/vector/program.h"

#include <functional>
#include <string>

namespace kumiko::chip {

// Elements of this type in the chip's vectors. Throws Unsupported for those of other sizes. `who`: for errors.
sim::Type vector_type(Halide::Type t, const std::string &who);

// Takes the expression down. `read` makes what stands for a read of a tensor, or for a cast of one; −1 for a cast that is to be taken
// as any other. max(a, b) is a > b ? a : b, as everywhere; a product that is added is fused with the sum. Throws Unsupported, naming
// the part, for what the chip's vectors do not compute.
using TakeRead = std::function<Id(const Halide::Expr &read)>;
Id take_expression(VectorBuilder &b, const Halide::Expr &e, const std::string &who, const TakeRead &read);

} // namespace kumiko::chip
