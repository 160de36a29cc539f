// Memory between inaccessible pages, so that a kernel that accesses memory outside of a tensor
// crashes at once.
#pragma once

#include "dsl/buffers.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace kumiko::property {

class Guarded {
public:
    // `bytes` that begin right after an inaccessible page, or end right before one.
    Guarded(size_t bytes, bool at_end) : bytes_(bytes) {
        const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        inside_ = (bytes + page - 1) / page * page;
        total_ = inside_ + 2 * page;
        base_ = static_cast<char *>(mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        if (base_ == MAP_FAILED) throw std::bad_alloc();
        if (inside_) mprotect(base_ + page, inside_, PROT_READ | PROT_WRITE);
        data_ = base_ + page + (at_end ? inside_ - bytes : 0);
    }
    ~Guarded() { munmap(base_, total_); }
    Guarded(const Guarded &) = delete;

    char *data() const { return data_; }
    size_t bytes() const { return bytes_; }
    void read_only() {
        if (inside_) mprotect(base_ + static_cast<size_t>(sysconf(_SC_PAGESIZE)), inside_, PROT_READ);
    }

private:
    size_t bytes_, inside_, total_;
    char *base_, *data_;
};

// Elements from the first to the last one, including gaps between rows; 0 if there is none.
inline int64_t span(const std::vector<int64_t> &extents, const std::vector<int64_t> &strides) {
    int64_t last = 0;
    for (size_t d = 0; d < extents.size(); d++) {
        if (extents[d] == 0) return 0;
        last += (extents[d] - 1) * strides[d];
    }
    return last + 1;
}

// A copy of a buffer, or memory for an output, between guard pages.
class GuardedTensor {
public:
    GuardedTensor(const Buffer<> &like, bool at_end)
        : extents_(like.extents()), strides_(strides_of(like)), type_(like.type()),
          memory_(static_cast<size_t>(span(extents_, strides_)) * type_.bytes(), at_end) {}

    static std::vector<int64_t> strides_of(const Buffer<> &b) {
        std::vector<int64_t> all;
        for (size_t d = 0; d < b.rank(); d++) all.push_back(b.stride(d));
        return all;
    }

    void copy_from(const Buffer<> &b, bool written = false) {
        std::memcpy(memory_.data(), b.data(), memory_.bytes());
        if (!written) memory_.read_only();
    }
    // NaN in every float type
    void unwritten() { std::memset(memory_.data(), 0xff, memory_.bytes()); }
    void *data() const { return memory_.data(); }
    Buffer<> buffer() const { return Buffer<>::wrap(type_, memory_.data(), extents_, strides_); }

private:
    std::vector<int64_t> extents_, strides_;
    Type type_;
    Guarded memory_;
};

} // namespace kumiko::property
