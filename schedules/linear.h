// Fast paths without the simplifier: most extents are constants, and most indices are linear in the
// loops.
#pragma once

#include "schedules/frame.h"

namespace kumiko {

// The value of a constant int32 expression; nullopt otherwise, or if it exceeds 32 bits.
std::optional<int64_t> number_of(const Expr &e);

// A linear combination of int32 variables.
struct LinearSum {
    int64_t constant = 0;
    std::map<std::string, int64_t> terms;

    // Adds e times a factor. Returns false if e is not linear or a coefficient exceeds 32 bits.
    bool add(const Expr &e, int64_t factor);
    int64_t coefficient_of(const std::string &variable) const; // 0 if the sum does not have it
    // Adds an upper bound of e times a factor, resolving divisions whose divisor divides the
    // coefficient: 64 * ((M + 63) / 64) <= M + 63. Returns false if there is none.
    bool add_bound(const Expr &e, int64_t factor);
    // Replaces variables by their symbolic bounds, such as loops whose extent is a quotient of
    // sizes. The result is an upper bound.
    bool substitute_bounds(const Bounds &bounds);
    // Minimum and maximum; nullopt if a variable has no constant 32-bit bounds.
    std::optional<std::pair<int64_t, int64_t>> range(const Bounds &bounds) const;
};

// How much `value` grows when the variable grows by one; nullopt if that is not constant.
std::optional<int64_t> step_along(const Expr &value, const std::string &variable);

} // namespace kumiko
