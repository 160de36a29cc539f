// Positions in images that depend on data, as floats.
#pragma once

#include "dsl/math.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"

namespace kumiko::graph {

// An extent as a literal of an i32 expression.
inline int small(int64_t v) { return static_cast<int>(v); }

// An index of a position that is a whole number. One outside of the extent reads the border.
inline Expr whole_index(const Element &position, int64_t extent) {
    return Halide::clamp(cast(i32, position), 0, small(std::max<int64_t>(extent, 1) - 1));
}

// Whether the position is in [0, extent − 1].
inline Element is_inside(const Element &position, int64_t extent) {
    const Type t = position.type();
    return position >= number(t, 0) && position <= number(t, static_cast<double>(extent - 1));
}

} // namespace kumiko::graph
