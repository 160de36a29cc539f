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

// The scale of bytes of u8 for numbers from `least`, at most 0, to `most`, at least 0, and their
// zero point; those of DynamicQuantizeLinear.
Element dynamic_scale(const Element &least, const Element &most);
Element dynamic_zero_point(const Element &least, const Element &scale);

// The nearest integer of x / scale, halves to even, and the zero point; saturated to u8.
Element nearest_byte(const Element &x, const Element &scale, const Element &zero);

// A tensor as bytes of u8, with one scale and zero point; the results of DynamicQuantizeLinear.
struct DynamicBytes {
    View bytes, scale, zero; // of f32, and of u8
};
// The scale and zero point are stages of the op; the bytes are not.
DynamicBytes dynamic_bytes(Call &c, const View &x);

} // namespace kumiko::graph
