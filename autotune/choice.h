// Which stages the default gives the loops of their sketch in place of those by rules.
#pragma once

#include "schedules/library/space.h"

namespace kumiko {

// A point of a space of autotune/spaces/auto_space.h, beginning with `by_rules`, whose decisions
// are all by rules. Each of a few reductions at the root that the rules give no register tile is
// counted with the loops of its sketch too, and gets them where the counted time is at least 10 %
// less and the cost model of the machine expects them to be faster, or is at least 45 % less. A
// reduction that folds several values along rows which fill few vectors is counted with vectors
// along each axis that its sketch offers, and gets them also where the counted time alone is at
// least 10 % less. The result depends on the op and the machine alone. Each point that is counted
// costs one lowering of the op, some milliseconds. `by_rules` itself if the op has symbolic sizes.
// Appends each point that is counted to `compared`.
Point choose_loops(const Space &space, const Point &by_rules, std::vector<ComparedPoint> &compared);

// Whether choose_loops counts any stage. `by_rules` is the op's schedule by rules.
bool has_choice(const Op &op, const Schedule &by_rules);

// The first point, or the one of the others that is expected to be fastest in the same way. `first`
// itself if the op has symbolic sizes.
Point choose_point(const Space &space, const Point &first, const std::vector<Point> &others,
                   std::vector<ComparedPoint> &compared);

// Whether the library's schedules of rows and of one reduction leave out what others may do: lanes
// along other axes where rows, of extents that are numbers, fill few vectors, or tiles of results
// that share reads.
bool library_leaves_out(const Op &op, const Machine &machine);

} // namespace kumiko
