#include "support/duration.h"

#include <cmath>
#include <cstdio>

namespace kumiko {

namespace {

// Three significant digits, without an exponent.
std::string three_digits(double value) {
    char out[32];
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    std::snprintf(out, sizeof out, "%.*f", decimals, value);
    return out;
}

} // namespace

std::string duration_text(double seconds) {
    if (!(seconds >= 0) || std::isinf(seconds)) return "?";
    if (seconds == 0) return "0 s";
    if (seconds < 999.5e-9) return three_digits(seconds * 1e9) + " ns";
    if (seconds < 999.5e-6) return three_digits(seconds * 1e6) + " us";
    if (seconds < 999.5e-3) return three_digits(seconds * 1e3) + " ms";
    if (seconds < 59.95) return three_digits(seconds) + " s";
    auto whole = static_cast<long long>(std::llround(seconds));
    char out[48];
    if (whole < 3600) {
        std::snprintf(out, sizeof out, "%lld min %02lld s", whole / 60, whole % 60);
    } else {
        std::snprintf(out, sizeof out, "%lld h %02lld min", whole / 3600, whole / 60 % 60);
    }
    return out;
}

std::string bytes_text(double bytes) {
    const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    char out[48];
    std::snprintf(out, sizeof out, bytes == std::floor(bytes) ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return out;
}

} // namespace kumiko
