// Indices that are computed in floats. A cast of a float that an integer cannot hold saturates (dsl/interpret.h), but Halide's
// simplifier and bounds wrap it, or take for granted that there is none. So those casts are kept from both.
#pragma once

#include "dsl/halide_passes.h"

#include <map>
#include <utility>
#include <vector>

namespace kumiko {

using Ranges = Halide::Internal::Scope<Halide::Internal::Interval>;

// Expressions with variables in place of casts of floats to integers; how far these range is in scope().
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

// Halide's simplify and bounds_of_expr_in_scope, for such expressions too.
Expr simplified(const Expr &e, const Ranges &scope = Ranges::empty_scope());
Halide::Internal::Interval range_of(const Expr &e, const Ranges &scope);

} // namespace kumiko
