// A space of schedules for any op, made from the structure of its formula alone: which stages are computed where they are read, in
// the loops of the last one, or for themselves; tiles in registers along the axes that share reads; vectors along an axis that reads
// and stores allow; blocks for the caches; copies of what is read in another order, or often; partial sums in lanes. Every
// parameter is one free decision, named "<stage>.<decision>", beside "fuse", how many leading loops of the last stage hold all others.
// After the multi-level tiling of Zheng et al., "Ansor" (OSDI 2020), with copies and layouts in place of its cache stages.
#pragma once

#include "schedules/library/space.h"

namespace kumiko {

// Of the chip: which axes go to lanes, PEs and the units above, what a unit holds in LM at a time, where copies, results and sums stand, which
// stages are kept (chip_space.h). Throws Unsupported for an op of which that makes no program there, and says of which it does.
std::unique_ptr<Space> auto_space(const Op &op, const Machine &machine);

} // namespace kumiko
