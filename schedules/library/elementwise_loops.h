// Which loops elementwise stages get: where stages are computed, and which axes their vectors run along.
#pragma once

#include "schedules/schedule.h"

#include <optional>

namespace kumiko::library {

// Whether a stage is computed at this loop of another stage, or another stage shares it. The loop
// must then not be divided or fused. Without a loop: whether that is so at any loop, so that the
// stage must not be inlined.
bool holds_stages(const Schedule &s, const std::string &stage, const std::optional<std::string> &loop = {});

// The stage at the root in whose loops this one is computed: itself if it is at the root.
const StageState &host_of_nest(const Schedule &s, const std::string &stage);

// Whether a stage is computed once for all that shares its elements, rather than where its one reader, which has more axes, needs
// them: it divides, by other than powers of two, for each lane of the reader's vectors.
bool divides_for_each_lane(const Stage &stage, const Stage &reader);

// Fuses the last axes of the stage if the last one leaves vectors partly empty, and returns the
// innermost loop and its extent. Reductions, and stages that read an array with padding, fuse axes
// only if the last one is shorter than a vector.
std::pair<std::string, std::optional<int64_t>> join_last_axes(const Op &op, Schedule &s, StageHandle S,
                                                              const Stage &stage, int64_t block);

} // namespace kumiko::library
