// Stages that are kept in rings of planes in the loops of an output (sliding window).
#pragma once

#include "schedules/schedule.h"

#include <set>

namespace kumiko::library {

// Keeps stages that an output reads through a window, such as the steps of a stencil, in rings of
// planes (schedules/rolling.h) at a loop of that output, unless half of L2 holds each of them.
// Before: a stage at the root stores all of its planes, and the next stage loads them from L3 or
// memory. After: one iteration computes the next plane of each stage from planes that are in L2.
//
// The output is the first one that no stage reads. The planes move along its first axis along which
// iterations need overlapping parts. If the rings of whole planes exceed L2, the next axis is
// divided into strips that L2 holds. A strip has at least eight elements for each element of a
// border, which is computed twice. Nothing rolls if the rings exceed both L2 and a quarter of L3.
//
// Stages in `apart` do not roll. Padding with a number stays inlined in its readers. Clamped
// padding rolls, with the padded stage inlined into it. The stages that the padded stage reads do
// not roll, because at the ends their planes do not move by equal steps.
//
// Returns whether any stage rolls. The method is Halide's sliding window with storage folding.
bool roll_stages(Schedule &s, const std::set<std::string> &apart, bool parallel);

} // namespace kumiko::library
