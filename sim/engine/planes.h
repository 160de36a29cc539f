// Memory of the PEs in the host's layout: a plane holds one address (or one row of a step) of every
// PE, 8 bytes each, so that host vectors span PEs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace kumiko::sim {

// Zeroed memory aligned to 64 bytes; pages that are never touched cost nothing.
class ZeroedBytes {
public:
    ZeroedBytes() = default;
    explicit ZeroedBytes(size_t size) : raw_(std::calloc(size + 64, 1)) {
        if (!raw_) throw std::bad_alloc();
        begin_ = reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(raw_.get()) + 63) & ~uintptr_t(63));
    }
    uint8_t *begin() const { return begin_; }

private:
    struct Free {
        void operator()(void *p) const { std::free(p); }
    };
    std::unique_ptr<void, Free> raw_;
    uint8_t *begin_ = nullptr;
};

class Planes {
public:
    Planes() = default;
    // The distance of planes is slightly larger than their size, so that one PE's words in
    // neighbouring planes do not share a cache set.
    Planes(size_t count, size_t bytes)
        : pitch_((bytes + 63) / 64 * 64 + (bytes >= 2048 ? 192 : 0)), bytes_(count * pitch_) {}

    uint8_t *operator[](size_t plane) const { return bytes_.begin() + plane * pitch_; }
    size_t pitch() const { return pitch_; }

private:
    size_t pitch_ = 0;
    ZeroedBytes bytes_;
};

} // namespace kumiko::sim
