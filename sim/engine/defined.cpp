#include "sim/engine/defined.h"

#include <algorithm>

namespace kumiko::sim {

std::vector<uint8_t> &DefinedPlanes::shadow(size_t plane) {
    state_[plane] = Partly;
    std::vector<uint8_t> &s = shadows_[plane];
    s.resize(bytes_);
    return s;
}

void DefinedPlanes::settle(size_t plane, const std::vector<uint8_t> &s) {
    if (std::all_of(s.begin(), s.end(), [](uint8_t b) { return b == 0xff; })) set_whole(plane);
}

void DefinedPlanes::add(size_t plane, const uint8_t *lanes) {
    if (state_[plane] == Whole) return;
    std::vector<uint8_t> &s = shadow(plane);
    for (size_t i = 0; i < bytes_; i++) s[i] |= lanes[i];
    settle(plane, s);
}

void DefinedPlanes::add_bytes(size_t plane, size_t at, size_t count) {
    if (state_[plane] == Whole) return;
    std::vector<uint8_t> &s = shadow(plane);
    std::fill_n(s.begin() + int64_t(at), count, uint8_t(0xff));
    settle(plane, s);
}

int64_t DefinedPlanes::first_undefined(size_t plane, size_t at, size_t count) const {
    if (state_[plane] == Whole || count == 0) return -1;
    if (state_[plane] == Nothing) return int64_t(at);
    const std::vector<uint8_t> &s = shadows_.at(plane);
    for (size_t i = at; i < at + count; i++)
        if (s[i] != 0xff) return int64_t(i);
    return -1;
}

} // namespace kumiko::sim
