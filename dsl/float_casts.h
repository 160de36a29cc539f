// Ranges of indices where Halide's analysis is wrong or has none.
// - Casts of floats: one that an integer cannot hold saturates (dsl/interpret.h), but Halide's
//   simplifier and bounds wrap it, or assume that there is none. These casts are hidden from both.
// - Bitwise and, or and exclusive or, of which Halide knows no range.
#pragma once

#include "dsl/halide_passes.h"

#include <map>
#include <utility>
#include <vector>

namespace kumiko {

using Ranges = Halide::Internal::Scope<Halide::Internal::Interval>;

// Replaces casts from float to integer by variables that Halide analyses correctly: hide() before
// an analysis, show() after it restores the casts. scope() has the ranges of the variables.
class FloatCasts {
public:
    explicit FloatCasts(const Ranges &scope);
    Expr hide(const Expr &e);
    Expr show(const Expr &e) const;
    const Ranges &scope() const { return scope_; }

private:
    Ranges scope_;
    std::vector<std::pair<Expr, std::string>> casts_;
};

// Whether the expression converts a float to an integer.
bool casts_floats(const Expr &e);

// Halide's simplify and bounds_of_expr_in_scope, which are also correct for casts of floats and for
// bitwise operations.
Expr simplified(const Expr &e, const Ranges &scope = Ranges::empty_scope());
Halide::Internal::Interval range_of(const Expr &e, const Ranges &scope);

} // namespace kumiko
