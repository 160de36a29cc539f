// Durations and amounts as short texts: "820 ns", "1.35 ms", "2 min 05 s"; "1.5 KiB".
#pragma once

#include <chrono>
#include <string>

namespace kumiko {

// Three significant digits below a minute, whole seconds above. Requires seconds >= 0; "?"
// otherwise.
std::string duration_text(double seconds);

// "64 B", "1.5 KiB", "32 MiB".
std::string bytes_text(double bytes);

// Seconds since construction or the last restart, on the steady clock.
class Stopwatch {
public:
    double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
    void restart() { begin_ = std::chrono::steady_clock::now(); }

private:
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

} // namespace kumiko
