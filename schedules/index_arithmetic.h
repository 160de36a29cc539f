// Simplification of indices, and proofs of conditions, under ranges of variables.
#pragma once

#include "dsl/halide_passes.h"

#include <optional>

namespace kumiko {

using Bounds = Halide::Internal::Scope<Halide::Internal::Interval>;

// Simplifies an index expression under the given ranges of variables.
Expr simplify_index(const Expr &e, const Bounds &bounds);
// Whether the condition is proved for all values of the variables in these ranges.
bool proves(const Expr &condition, const Bounds &bounds);
// Undoes the index arithmetic of fused loops: in a sum, x / c * (c * m) + x % c * m becomes x * m.
Expr join_remainders(const Expr &index);
// Drops terms within a block from divisions: (64 * a + b) / 128 becomes a / 2, and the remainder
// becomes a % 2 * 64 + b, if b is in [0, 64).
Expr split_blocks(const Expr &index, const Bounds &bounds);

// An upper bound of the extent; nullopt if only the type of sizes bounds it.
std::optional<int64_t> upper_bound_of(const Expr &extent, const Bounds &bounds);

} // namespace kumiko
