// A space of schedules for any op, made from the structure of its formula alone: which stages are computed where they are read, in
// the loops of the last one, or for themselves; tiles in registers along the axes that share reads; vectors along an axis that reads
// and stores allow; blocks for the caches; copies of what is read in another order, or often; partial sums in lanes. Every
// parameter is one free decision, named "<stage>.<decision>", beside "fuse", how many leading loops of the last stage hold all others.
// After the multi-level tiling of Zheng et al., "Ansor" (OSDI 2020), with copies and layouts in place of its cache stages.
#pragma once

#include "schedules/library/space.h"

namespace kumiko {

// Throws Unsupported for a machine whose programs are made otherwise (the chip).
std::unique_ptr<Space> auto_space(const Op &op, const Machine &machine);

} // namespace kumiko
