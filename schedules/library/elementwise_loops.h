// The loops of elementwise stages: where stages are computed, and along which axes vectors run.
#pragma once

#include "schedules/schedule.h"

#include <optional>

namespace kumiko::library {

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

} // namespace kumiko::library
