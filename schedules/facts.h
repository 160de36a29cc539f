// Facts about sizes, derived from conditions, in a form that proofs use.
//
//   M % 14 == 0   M becomes 14 * "M/14", a new size
//   M == 7        M becomes 7;   M == 2 * N: M becomes 2 * N
//   M >= 16       the range of M
// Other conditions, and those on input values, are checked when the kernel is called, but prove
// nothing.
#pragma once

#include "schedules/frame.h"

namespace kumiko {

struct Facts {
    std::map<std::string, Expr> values; // size → equal expression over the remaining sizes
    // New sizes, with their values in terms of the op's sizes.
    std::vector<std::pair<std::string, Expr>> derived;
    std::map<std::string, Interval> ranges; // of the remaining sizes and of the new ones

    // Substitutes `values`; the result contains none of the replaced sizes.
    Expr apply(const Expr &e) const;
    // The ranges of all sizes.
    Bounds bounds() const;
    // The state with the facts substituted in every extent and expression.
    ScheduleState apply(const ScheduleState &state) const;
};

// Throws UserError if the conditions contradict each other.
Facts facts_of(const Op &op, const std::vector<Expr> &conditions);

} // namespace kumiko
