// Which stages are kept in rings of planes in the loops of an output.
#pragma once

#include "schedules/schedule.h"

#include <set>

namespace kumiko::library {

// Keeps stages that an output reads through a window, as the steps of a stencil do, in rings of planes
// (schedules/rolling.h) at a loop of that output, if the caches do not hold their results between two
// stages at the root. Before: a stage stores all of its planes, the next one loads them from L3 or
// memory. After: one iteration computes the next plane of each stage, out of L2.
//
// The output is the first one that no stage reads. The planes move along its first axis along which
// iterations need overlapping parts. If the rings of whole planes exceed half of L2, the next axis is
// divided into strips, whose borders are computed twice, but not if more than a quarter would be.
// Stages in `apart` are left as they are. Padding with a number stays inlined where it is read. Clamped
// padding is kept in a ring itself, with the stage that it pads inlined into it; what that stage reads
// does not roll, since at the ends it does not move by equal steps. Returns whether any stage is kept so. The method is the sliding window of Halide with
// storage folding.
bool roll_stages(Schedule &s, const std::set<std::string> &apart, bool parallel);

} // namespace kumiko::library
