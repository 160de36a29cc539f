// Time between the steps of a compilation.
#pragma once

#include <chrono>

namespace kumiko {

// Milliseconds since `start`, which is set to now.
inline double milliseconds_since(std::chrono::steady_clock::time_point &start) {
    const auto now = std::chrono::steady_clock::now();
    const double elapsed = std::chrono::duration<double, std::milli>(now - start).count();
    start = now;
    return elapsed;
}

} // namespace kumiko
