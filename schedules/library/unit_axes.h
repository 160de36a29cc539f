// Indices that also use axes of one element, such as those of the result of a window over a whole
// image.
#pragma once

#include "dsl/halide_passes.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

// Removes the stage's axes of one element from an index with several terms: x + kx becomes kx if x
// is always 0.
inline Expr without_unit_axes(const Stage &stage, Expr index) {
    if (index.as<Halide::Internal::Variable>()) return index;
    bool any = false;
    for (const Axis &a : stage.axes) {
        if (constant_extent(a) != 1 || !Halide::Internal::expr_uses_var(index, a.name())) continue;
        index = Halide::Internal::substitute(a.name(), Expr(0), index);
        any = true;
    }
    return any ? Halide::Internal::simplify(index) : index;
}

} // namespace kumiko::library
