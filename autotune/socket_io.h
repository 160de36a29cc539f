// Complete transfers to and from the measurer, with time-outs.
#pragma once

#include "support/duration.h"

#include <cstddef>
#include <functional>

namespace kumiko {

enum class Io { Done, Closed, TimedOut, Over };

// Sends or receives all bytes before `watch` reaches `timeout` seconds. `over` (may be null) is
// polled about twenty times per second and cancels the transfer.
Io send_all(int socket, const void *data, size_t bytes, const Stopwatch &watch, double timeout,
            const std::function<bool()> &over);
Io receive_all(int socket, void *data, size_t bytes, const Stopwatch &watch, double timeout,
               const std::function<bool()> &over);

} // namespace kumiko
