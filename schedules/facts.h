// What conditions over the sizes say about them, in a form that proofs use.
//
//   M % 14 == 0   M becomes 14 * "M/14", a new size
//   M == 7        M becomes 7;   M == 2 * N: M becomes 2 * N
//   M >= 16       the range of M
// A condition of another form, and one over values, is still checked when the kernel is called, but proves nothing.
#pragma once

#include "schedules/frame.h"

namespace kumiko {

struct Facts {
    std::map<std::string, Expr> values;                // sizes by what equals them, over the sizes that remain
    std::vector<std::pair<std::string, Expr>> derived; // new sizes, each by its value over the op's sizes
    std::map<std::string, Interval> ranges;            // of sizes that remain and of new ones

    // Ensures that no size in `values` stands in a result.
    Expr apply(const Expr &e) const;
    // The ranges of all sizes.
    Bounds bounds() const;
    // Every extent and expression with the facts in place.
    ScheduleState apply(const ScheduleState &state) const;
};

// Throws UserError when the conditions contradict each other.
Facts facts_of(const Op &op, const std::vector<Expr> &conditions);

} // namespace kumiko
