// Loops of reductions along rows and over windows, and the reader in which a reduction is finished.
#pragma once

#include "schedules/schedule.h"

#include <optional>
#include <set>

namespace kumiko::library {

// Whether the reader reads the stage at the stage's own axes only.
bool reads_at_axes(const Stage &reader, const Stage &stage);

// The only pointwise stage that reads the reduction, if it does so at its own indices; "" if there
// is none, or if that stage is the epilogue of another. Stages in `unfinished` are not considered.
std::string finishing_reader(const Schedule &s, const Stage &stage, const std::set<std::string> &unfinished);
// Makes the reader the epilogue of the reduction, so that sums are not stored.
void finish_in_reader(Schedule &s, StageHandle S, const Stage &stage, const std::set<std::string> &unfinished);

// Whether vectors along the last reduction axis can hold partial results, which are joined at the
// end. Reads along the axis must be contiguous, a few elements apart, or the same element for at
// least one vector of steps, such as the scale of a group.
bool folds_in_lanes(const Op &op, const Stage &stage, const Machine &machine);

// The number of elements to which one step of the reduction adds. A step of a window adds to one
// vector. If steps read rows that are far apart, a step adds to several vectors of a row. If the
// rows are gathered, it adds to as many vectors as there are accumulator registers, because all use
// one address. The last axis has at least `pieces` blocks.
int64_t elements_of_step(const Stage &stage, const Machine &machine, int lanes, std::optional<int64_t> extent,
                         int64_t pieces);

// Keeps the results of windows in registers until they are stored, by their only reader if that
// reads each at its own indices. The steps of a window are inside loop `run` and outside of the
// `inner` innermost loops, over its results.
void finish_windows(Schedule &s, StageHandle S, const Stage &stage, const LoopName &run, size_t inner,
                    const std::set<std::string> &unfinished);

} // namespace kumiko::library
