// Outputs that are computed at a loop of a consumer, so that each iteration writes one part of them
// (docs/decisions/0054).
#pragma once

#include "schedules/state.h"

namespace kumiko {

// Whether the stage computes an output.
bool writes_output(const Op &op, const Stage &stage);

// Why iterations of loop `loop` of stage `host` would not write disjoint parts of `name` that
// together cover it, if each iteration computes what its consumers need; "" if they would. They do
// if the consumers read it at indices that are distinct axes of the host, and the loops down to
// `loop` divide those axes into blocks. For a stage that is not an output, a shifted last block may
// recompute elements. An output that takes steps with a recurrence is always written whole along
// other axes in each step (whole_axes).
std::string not_own_part(const ScheduleState &state, const std::string &name, const std::string &host,
                         const std::string &loop);

// For an output computed at a loop, part by part: per axis, whether each iteration computes its
// whole extent.
std::vector<bool> whole_axes(const ScheduleState &state, const std::string &name, const std::string &host,
                             const std::string &loop);

// Whether stage `reader` runs in a loop nest after that of stage `host`.
bool reads_later(const ScheduleState &state, const std::string &reader, const std::string &host);

} // namespace kumiko
