// The epilogue of a product's sums (finish_in) as a vector program.
#pragma once

#include "dsl/halide.h"
#include "targets/chip/vector/program.h"

#include <string>
#include <vector>

namespace kumiko::chip {

// `value` in f32: the sums are read 0 of the program, `operands` follow from 1 on. If `value` is
// undefined, the program narrows the sums to f16.
VectorProgram epilogue_program(const Halide::Expr &value, const std::string &sums,
                               const std::vector<Halide::Expr> &operands, const std::string &who);

} // namespace kumiko::chip
