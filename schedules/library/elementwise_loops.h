// The loops of elementwise stages: where stages are computed, and along which axes vectors run.
#pragma once

#include "schedules/schedule.h"

#include <optional>

namespace kumiko::library {

// The number of elements or steps that a stage computes; a symbolic extent counts as 2^20.
int64_t work(const Stage &s);
// A loop is distributed over cores if its stage computes at least as many, which take some
// microseconds, as long as waking the cores.
inline constexpr int64_t min_parallel_elements = 1 << 16;

// Whether another stage is computed at this loop of the stage, or shares it. The loop must then not
// be split or fused. Without `loop`: whether this holds for any loop, so that the stage must not be
// inlined.
bool holds_stages(const Schedule &s, const std::string &stage, const std::optional<std::string> &loop = {});

// The stage at the root in whose loops this one is computed; the stage itself if it is at the root.
const StageState &host_of_nest(const Schedule &s, const std::string &stage);

// Whether inlining the stage into its only reader, which has more axes, would divide by other than
// powers of two in each lane of the reader's vectors. Such a stage is computed once for the
// elements that share it.
bool divides_for_each_lane(const Stage &stage, const Stage &reader);

// Fuses the last axes of the stage if the last one leaves vectors partly empty. Returns the
// innermost loop and its extent. Reductions, and stages that read an array with padding, fuse axes
// only if the last one is shorter than a vector.
std::pair<std::string, std::optional<int64_t>> join_last_axes(const Op &op, Schedule &s, StageHandle S,
                                                              const Stage &stage, int64_t block);

// For a stage computed at a loop of its reader: the number of elements along `axis` that the loops
// inside that one cover.
int64_t elements_of_block(const Schedule &s, const StageState &stage, const std::string &axis);

// The most vector lanes among the stages that may share a nest with this one: pointwise stages over
// the same elements that read a common tensor. 1 if there is none.
int lanes_of_narrowest_neighbour(const Schedule &s, const Stage &stage);

// Whether vectors along the last axis pay although some elements are gathered at data-dependent
// indices: the processor has a gather instruction, all other reads are contiguous, and there are
// enough operations.
bool pays_to_gather(const Op &op, const Stage &stage, const Machine &machine);

} // namespace kumiko::library
