// Converts formula expressions to programs of the chip's vector units.
#pragma once

#include "dsl/halide.h"
#include "targets/chip/vector/program.h"

#include <functional>
#include <string>

namespace kumiko::chip {

// The chip's vector type for elements of this type. Throws Unsupported for other sizes. `who` is
// for messages.
sim::Type vector_type(Halide::Type t, const std::string &who);

// Adds the expression to the program. `read` adds a read of a tensor, or a cast of one; it returns
// −1 for a cast that needs no special treatment. max(a, b) is a > b ? a : b, as everywhere; a
// product that is added is fused with the sum. Throws Unsupported, naming the part, for operations
// that the vector units do not have.
using TakeRead = std::function<Id(const Halide::Expr &read)>;
Id take_expression(VectorBuilder &b, const Halide::Expr &e, const std::string &who, const TakeRead &read);

} // namespace kumiko::chip
