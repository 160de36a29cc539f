// Axes and sizes: the index variables of a formula. Both are Halide expressions of type int32, so
// they appear in index arithmetic directly: `y + ky`, `max(y, 0)`.
#pragma once

#include "dsl/halide.h"

#include <initializer_list>
#include <source_location>
#include <string>
#include <vector>

namespace kumiko {

using Place = std::source_location; // a location in the user's source, for error messages

// A symbol that is bound when the kernel is called, for dynamic shapes: 0 <= size <= 2^31 - 1. A
// parameter attached to its variable distinguishes it from an axis (is_size).
class Size : public Expr {
public:
    // Throws UserError if `name` is not an identifier.
    explicit Size(const std::string &name, std::source_location where = std::source_location::current());
    const std::string &name() const;
};

// A named index that runs over [0, extent).
class Axis : public Expr {
public:
    // `extent`: a number >= 0, a Size, or an int32 expression of sizes.
    // Throws UserError if `name` is not an identifier, or if the extent is negative or not an int32
    // expression.
    Axis(const std::string &name, const Expr &extent, std::source_location where = std::source_location::current());
    const std::string &name() const;
    const Expr &extent() const { return extent_; }

private:
    Expr extent_;
};

// Whether the variable is a Size.
bool is_size(const Halide::Internal::Variable *variable);

// One or several axes, as reductions take them.
struct AxisList : std::vector<Axis> {
    AxisList(const Axis &axis) : std::vector<Axis>{axis} {}
    AxisList(std::initializer_list<Axis> axes) : std::vector<Axis>(axes) {}
    AxisList(std::vector<Axis> axes) : std::vector<Axis>(std::move(axes)) {}
};

} // namespace kumiko
