// What needs no simplifier: most extents are numbers, and most indices are sums of loops, each times a number.
#pragma once

#include "schedules/frame.h"

namespace kumiko {

// Of an int32 expression of numbers alone; nothing for any other, and beyond 32 bits.
std::optional<int64_t> number_of(const Expr &e);

// A sum of int32 variables, each times a number.
struct LinearSum {
    int64_t constant = 0;
    std::map<std::string, int64_t> terms;

    // Adds e times a factor; false where e is no such sum, or its numbers go beyond 32 bits.
    bool add(const Expr &e, int64_t factor);
    int64_t of(const std::string &variable) const;
    // Adds a sum that is nowhere less than e times a factor, where divisions are by divisors of what they are multiplied by:
    // 64 * ((M + 63) / 64) is at most M + 63. False where there is none.
    bool add_bound(const Expr &e, int64_t factor);
    // Puts bounds that are no numbers in place of variables, as those of loops that run to a quotient of sizes; it is nowhere less then.
    bool put_bounds(const Bounds &bounds);
    // The least and the greatest value; nothing where a variable's bounds are no numbers of 32 bits, or it has none.
    std::optional<std::pair<int64_t, int64_t>> range(const Bounds &bounds) const;
};

} // namespace kumiko
