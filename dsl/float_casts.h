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

// Replaces casts from float to integer by variables; scope() holds the ranges of these variables.
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

bool casts_floats(const Expr &e);

// Halide's simplify and bounds_of_expr_in_scope, for all these expressions too.
Expr simplified(const Expr &e, const Ranges &scope = Ranges::empty_scope());
Halide::Internal::Interval range_of(const Expr &e, const Ranges &scope);

} // namespace kumiko
