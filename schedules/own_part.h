// Outputs that are computed at a loop of a stage that reads them: each iteration writes its own part.
#pragma once

#include "schedules/state.h"

namespace kumiko {

// Whether one of the tensors that the stage computes is an output.
bool writes_output(const Op &op, const Stage &stage);

// Why the iterations of loop `loop` of stage `host` do not write each element of output `name` exactly once, if each
// writes what its readers in it need; "" when they do. It holds where these read the output at indices that are axes, all
// of which run with different axes of the host, as far as those do.
std::string not_own_part(const ScheduleState &state, const std::string &name, const std::string &host,
                         const std::string &loop);

// Whether a stage that reads an output at loops of `host` runs in a loop nest of its own, after that of `host`.
bool reads_later(const ScheduleState &state, const std::string &reader, const std::string &host);

} // namespace kumiko
