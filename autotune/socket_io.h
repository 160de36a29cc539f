// Bytes to and from the measurer, whole and in time.
#pragma once

#include "support/duration.h"

#include <cstddef>
#include <functional>

namespace kumiko {

enum class Io { Done, Closed, TimedOut, Over };

// Sends or receives all bytes before `watch` shows `timeout` seconds. `over`, null: never, is asked some twenty times a second and ends
// it before.
Io send_all(int socket, const void *data, size_t bytes, const Stopwatch &watch, double timeout,
            const std::function<bool()> &over);
Io receive_all(int socket, void *data, size_t bytes, const Stopwatch &watch, double timeout,
               const std::function<bool()> &over);

} // namespace kumiko
