// Selects the stages whose default loops come from their sketch instead of from rules.
#pragma once

#include "schedules/library/space.h"

namespace kumiko {

// A point of a space of autotune/spaces/auto_space.h, starting from `by_rules`, in which rules make
// all decisions. For a few reductions at the root without a register tile, the loops of their
// sketch are counted as well. They are taken if the counted time is at least 10 % lower and the
// machine's cost model predicts them faster, or if it is at least 45 % lower. A reduction that
// folds several values along rows that fill few vectors is counted with vectors along each axis of
// its sketch. These are also taken if only the counted time is at least 10 % lower. The result
// depends only on the op and the machine. Each counted point costs one lowering of the op, a few
// milliseconds. Returns `by_rules` if the op has symbolic sizes. Appends each counted point to
// `compared`.
Point choose_loops(const Space &space, const Point &by_rules, std::vector<ComparedPoint> &compared);

// Whether choose_loops would count any stage. `by_rules` is the op's schedule by rules.
bool has_choice(const Op &op, const Schedule &by_rules);

// Chooses between `first` and `others` by the same criteria. Returns `first` if the op has symbolic
// sizes.
Point choose_point(const Space &space, const Point &first, const std::vector<Point> &others,
                   std::vector<ComparedPoint> &compared);

// Whether the library's schedules for rows and single reductions miss options that others have:
// lanes along other axes if rows with constant extents fill few vectors, or tiles of results that
// share reads.
bool library_leaves_out(const Op &op, const Machine &machine);

} // namespace kumiko
