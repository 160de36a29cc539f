// A schedule space for any op, derived from its formula. For each stage, either the rules of the
// default (schedules/library/elementwise.h) or free parameters decide two things:
// - where it is computed: inlined, in the loops of the stage that holds others, or at the root; and
//   whether a pointwise stage is fused into the epilogue of a reduction that it reads;
// - its loops: register tiles along the axes that share reads, the vector axis, cache blocks,
//   packed or reordered copies of its inputs, and partial sums in lanes.
// Parameters are named "<stage>.<decision>". "hold" is the innermost loop in which other stages are
// computed: an axis of the last stage, or "<stage>.<axis>" of another one. At most one stage holds
// others, unless the rules decide. After the multi-level tiling of Zheng et al., "Ansor" (OSDI
// 2020), with copies and layouts instead of its cache stages.
#pragma once

#include "schedules/library/space.h"

namespace kumiko {

// On processors, the default point is the schedule of compile(op) if "elementwise" is the only
// matching schedule of the library; otherwise the sketches' expert parameters.
// `other`: a schedule of the library, whose default becomes the default point.
// On the chip, parameters choose which axes are distributed to lanes, PEs and the units above, how
// much of the data a unit holds in LM at a time, where copies, results and sums are stored, and
// which stages are stored (chip_space.h). Throws Unsupported, with the supported forms, for an op
// without a program there.
std::unique_ptr<Space> auto_space(const Op &op, const Machine &machine, const LibraryTemplate *other = nullptr);

} // namespace kumiko
