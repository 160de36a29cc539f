// Checks of scales and zero points.
#pragma once

#include "graph/formulas/formula.h"

namespace kumiko::graph {

// Whether input `zero` is missing, or a constant of zeros.
bool has_no_zero_point(const Call &c, size_t zero);

// Throws UserError, naming the node and the input, if the zero point is not of the type of input
// `of`. A missing one is legal.
void require_zero_point(const Call &c, size_t zero, size_t of);
// The same for a zero point of the type `type`.
void require_zero_point(const Call &c, size_t zero, Type type);

// Throws UserError, naming the node and the input, if the input is not f32, f16, bf16 or f64, or
// has a known element that is not a number above 0.
void require_scale(const Call &c, size_t scale);

} // namespace kumiko::graph
