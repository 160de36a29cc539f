// A space of schedules for any op, made from the structure of its formula. For each stage, either the
// rules of the default (schedules/library/elementwise.h) or free parameters decide two things:
// - where it is computed: inlined, in the loops of the stage that holds others, or at the root;
//   and whether a pointwise stage is computed where a reduction that it reads ends;
// - its loops: register tiles along the axes that share reads, the vector axis, blocks for the
//   caches, copies of what it reads in another order or often, and partial sums in lanes.
// Parameters are named "<stage>.<decision>". "hold" is the innermost loop that holds other stages:
// an axis of the last stage, or "<stage>.<axis>" of any other one. One stage at most holds others,
// if it is not left to the rules. After the multi-level tiling of Zheng et al., "Ansor" (OSDI
// 2020), with copies and layouts in place of its cache stages.
#pragma once

#include "schedules/library/space.h"

namespace kumiko {

// On processors the default point is the schedule of compile(op), if "elementwise" is the only
// schedule of the library that fits the op. Otherwise it has the sketches' own expert parameters.
// `other`: a schedule of the library. Its default becomes the default point.
// On the chip: which axes go to lanes, PEs and the units above, how much a unit has in LM at a time,
// where copies, results and sums are, and which stages are kept (chip_space.h). Throws Unsupported
// for an op of which that makes no program there, and says of which it does.
std::unique_ptr<Space> auto_space(const Op &op, const Machine &machine, const LibraryTemplate *other = nullptr);

} // namespace kumiko
