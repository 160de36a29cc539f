// Outputs that are computed at a loop of a stage that reads them: each iteration writes a part
// (docs/decisions/0054).
#pragma once

#include "schedules/state.h"

namespace kumiko {

// Whether one of the tensors that the stage computes is an output.
bool writes_output(const Op &op, const Stage &stage);

// Why iterations of loop `loop` of stage `host` would not write disjoint parts of output `name` that
// are all of it together, if each wrote what its readers in it need; "" when they would. Of a stage
// that is no output, a last block that is moved inwards may compute elements again. They do
// where these read the output at axes that run with different axes of the host, and the loops so
// far cut those into blocks. An output that takes steps with a recurrence is written whole in each
// step along other axes (whole_axes), whatever is read.
std::string not_own_part(const ScheduleState &state, const std::string &name, const std::string &host,
                         const std::string &loop);

// Of an output that is computed at a loop where it is its own part: the axes, by position, along
// which each iteration has all of it.
std::vector<bool> whole_axes(const ScheduleState &state, const std::string &name, const std::string &host,
                             const std::string &loop);

// Whether stage `reader` runs in a later loop nest than stage `host`.
bool reads_later(const ScheduleState &state, const std::string &reader, const std::string &host);

} // namespace kumiko
