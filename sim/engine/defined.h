// Tracks which words have been written. Planes of the PEs are mostly written whole, so a plane is
// undefined, defined, or has a shadow plane with all ones in each lane that was written.
#pragma once

#include "sim/kernels/kernels.h"

#include <cstdint>
#include <map>
#include <vector>

namespace kumiko::sim {

class DefinedPlanes {
public:
    DefinedPlanes() = default;
    DefinedPlanes(size_t planes, size_t bytes) : state_(planes, Nothing), bytes_(bytes) {}

    bool whole(size_t plane) const { return state_[plane] == Whole; }
    void set_whole(size_t plane) {
        if (state_[plane] == Partly) shadows_.erase(plane);
        state_[plane] = Whole;
    }
    // Adds the lanes that are all ones in the plane `lanes`.
    void add(size_t plane, const uint8_t *lanes);
    // Bytes [at, at + count) of the plane.
    void add_bytes(size_t plane, size_t at, size_t count);
    // The first undefined byte of [at, at + count), or −1.
    int64_t first_undefined(size_t plane, size_t at, size_t count) const;

private:
    enum State : uint8_t { Nothing, Partly, Whole };
    // The shadow of a plane, created on first use.
    std::vector<uint8_t> &shadow(size_t plane);
    // Marks the plane as whole if its shadow is.
    void settle(size_t plane, const std::vector<uint8_t> &shadow);

    std::vector<uint8_t> state_;
    size_t bytes_ = 0;
    std::map<size_t, std::vector<uint8_t>> shadows_;
};

// One bit per word of L1BMs and L2BMs.
class DefinedWords {
public:
    DefinedWords() = default;
    DefinedWords(size_t units, size_t words) : words_((words + 63) / 64), bits_(units * words_) {}

    void set(size_t unit, size_t at, size_t count) {
        each(at, count, [&](size_t i, uint64_t mask) { bits_[unit * words_ + i] |= mask; });
    }
    // The first undefined word of the range, or −1.
    int64_t first_undefined(size_t unit, size_t at, size_t count) const {
        int64_t found = -1;
        each(at, count, [&](size_t i, uint64_t mask) {
            const uint64_t missing = mask & ~bits_[unit * words_ + i];
            if (missing && found < 0) found = int64_t(64 * i) + __builtin_ctzll(missing);
        });
        return found;
    }
    bool all(size_t unit, size_t at, size_t count) const { return first_undefined(unit, at, count) < 0; }

private:
    template<typename F>
    static void each(size_t at, size_t count, F &&f) {
        for (const size_t end = at + count; at < end;) {
            const size_t stop = std::min((at / 64 + 1) * 64, end), n = stop - at;
            f(at / 64, (n == 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1) << at % 64);
            at = stop;
        }
    }
    size_t words_ = 0;
    std::vector<uint64_t> bits_;
};

} // namespace kumiko::sim
