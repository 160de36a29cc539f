// What finishes a product's sums (finish_in), as a program of vectors.
#pragma once

#include "dsl/halide.h"
#include "targets/chip/vector/program.h"

#include <string>
#include <vector>

namespace kumiko::chip {

// Of `value`, which reads the sums, in f32, as read 0 of the program, and `operands` from 1 on. Undefined: the sums narrowed to f16.
VectorProgram end_program(const Halide::Expr &value, const std::string &sums, const std::vector<Halide::Expr> &operands,
                          const std::string &who);

} // namespace kumiko::chip
