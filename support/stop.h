// Cancellation of long operations by another thread.
#pragma once

#include "support/error.h"

#include <atomic>
#include <string>

namespace kumiko {

// Throws UserError, "<what> was stopped", if *stop is true. `stop` may be null.
inline void end_when_stopped(const std::atomic<bool> *stop, const char *what) {
    if (stop && stop->load(std::memory_order_relaxed)) throw UserError(std::string(what) + " was stopped");
}

} // namespace kumiko
