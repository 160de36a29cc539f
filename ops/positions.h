// Axes by position.
#pragma once

#include "dsl/axis.h"
#include "support/error.h"

#include <fmt/format.h>

#include <vector>

namespace kumiko::ops {

// Axes i0, i1, … with the given extents.
inline std::vector<Axis> numbered_axes(const std::vector<Expr> &extents) {
    std::vector<Axis> axes;
    for (size_t d = 0; d < extents.size(); d++) axes.emplace_back(fmt::format("i{}", d), extents[d]);
    return axes;
}

// The position of `axis` among `count` axes; negative values count from the end. Throws UserError
// if out of range: "concat: axis 3 is not one of the 2 axes of the result".
inline int axis_position(const char *op, int axis, size_t count, const char *of = "") {
    const int rank = static_cast<int>(count), at = axis < 0 ? axis + rank : axis;
    if (at >= 0 && at < rank) return at;
    throw UserError(fmt::format("{}: axis {} is not one of the {} axes{}", op, axis, rank, of));
}

} // namespace kumiko::ops
