#include "sim/memory.h"

#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace kumiko::sim {

namespace {
constexpr int64_t page_words = 1 << 14; // 128 KiB
}

struct HostMemory::Page {
    uint64_t words[page_words];
    uint64_t defined[page_words / 64];
};

HostMemory::HostMemory(const Config &config)
    : groups_(config.groups), dram_size_(config.sizes.dram), pdm_size_(config.sizes.pdm),
      pages_(2 * size_t(config.groups)) {
    for (int g = 0; g < groups_; g++) {
        pages_[g].resize((dram_size_ + page_words - 1) / page_words);
        pages_[groups_ + g].resize((pdm_size_ + page_words - 1) / page_words);
    }
}
HostMemory::HostMemory(HostMemory &&) noexcept = default;
HostMemory &HostMemory::operator=(HostMemory &&) noexcept = default;
HostMemory::~HostMemory() = default;

std::unique_ptr<HostMemory::Page> &HostMemory::page(Space space, int group, int64_t address) {
    return pages_[int(space) * groups_ + group][address / page_words];
}
const HostMemory::Page *HostMemory::page(Space space, int group, int64_t address) const {
    return pages_[int(space) * groups_ + group][address / page_words].get();
}

void HostMemory::check(Space space, int group, int64_t address, int64_t count) const {
    const char *name = space == Space::Dram ? "DRAM" : "PDM";
    if (group < 0 || group >= groups_)
        throw UserError(fmt::format("there is no group {}; there are {}", group, groups_));
    if (address < 0 || count < 0 || address > size(space) - count)
        throw UserError(
            fmt::format("addresses {}..{} are outside {} of {} LW", address, address + count - 1, name, size(space)));
}

void HostMemory::write(Space space, int group, int64_t address, std::span<const uint64_t> words) {
    check(space, group, address, int64_t(words.size()));
    while (!words.empty()) {
        std::unique_ptr<Page> &p = page(space, group, address);
        if (!p) p = std::make_unique<Page>(); // zeros
        const int64_t at = address % page_words, n = std::min<int64_t>(page_words - at, int64_t(words.size()));
        std::memcpy(p->words + at, words.data(), size_t(n) * 8);
        for (int64_t i = at; i < at + n;) {
            const int64_t stop = std::min<int64_t>((i / 64 + 1) * 64, at + n), bits = stop - i;
            p->defined[i / 64] |= (bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1) << i % 64;
            i = stop;
        }
        words = words.subspan(size_t(n));
        address += n;
    }
}

void HostMemory::read(Space space, int group, int64_t address, std::span<uint64_t> words) const {
    check(space, group, address, int64_t(words.size()));
    while (!words.empty()) {
        const Page *p = page(space, group, address);
        const int64_t at = address % page_words, n = std::min<int64_t>(page_words - at, int64_t(words.size()));
        if (p)
            std::memcpy(words.data(), p->words + at, size_t(n) * 8);
        else
            std::memset(words.data(), 0, size_t(n) * 8);
        words = words.subspan(size_t(n));
        address += n;
    }
}

int64_t HostMemory::first_undefined(Space space, int group, int64_t address, int64_t count) const {
    check(space, group, address, count);
    for (const int64_t end = address + count; address < end;) {
        const Page *p = page(space, group, address);
        if (!p) return address;
        const int64_t at = address % page_words,
                      stop = std::min<int64_t>({(at / 64 + 1) * 64, page_words, at + end - address});
        const int64_t bits = stop - at;
        const uint64_t want = (bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1) << at % 64;
        if (const uint64_t missing = want & ~p->defined[at / 64])
            return address - at + at / 64 * 64 + std::countr_zero(missing);
        address += bits;
    }
    return -1;
}

bool HostMemory::all_defined(Space space, int group, int64_t address, int64_t count) const {
    return first_undefined(space, group, address, count) < 0;
}

void HostMemory::forget(Space space, int group, int64_t address, int64_t count) {
    check(space, group, address, count);
    for (int64_t i = address; i < address + count; i++) {
        Page *p = page(space, group, i).get();
        if (!p) continue;
        p->defined[i % page_words / 64] &= ~(uint64_t(1) << i % 64);
        p->words[i % page_words] = 0;
    }
}

} // namespace kumiko::sim
