// A space of schedules for any op, made from the structure of its formula alone. Of each stage it
// is decided by the rules of the default (schedules/library/elementwise.h) or freely: whether it is
// computed where it is read, in the loops of the last stage, or for itself; and its loops: tiles in
// registers along the axes that share reads, vectors along an axis that reads and stores allow,
// blocks for the caches, copies of what is read in another order or often, partial sums in lanes.
// Parameters are named "<stage>.<decision>", beside "hold", the innermost loop of the last stage
// that holds others. After the multi-level tiling of Zheng et al., "Ansor" (OSDI 2020), with copies
// and layouts in place of its cache stages.
#pragma once

#include "schedules/library/space.h"

namespace kumiko {

// Begins where compile(op) does if no schedule of the library but that of anything fits the op, so
// that rules decide; else with the sketches' own expert parameters. `other`: a schedule of the
// library whose default is a point too, and the one to begin with. Of the chip: which axes go to
// lanes, PEs and the units above, what a unit holds in LM at a time, where copies, results and sums
// stand, which stages are kept (chip_space.h). Throws Unsupported for an op of which that makes no
// program there, and says of which it does.
std::unique_ptr<Space> auto_space(const Op &op, const Machine &machine, const LibraryTemplate *other = nullptr);

} // namespace kumiko
