// The host's view of DRAM and PDM of each group. Pages are allocated on the first write, and every
// word records whether it was written.
#pragma once

#include "sim/config.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kumiko::sim {

// DRAM and PDM of all groups, as the host reads and writes them.
class HostMemory {
public:
    enum class Space : uint8_t { Dram, Pdm };

    explicit HostMemory(const Config &config);
    HostMemory(HostMemory &&) noexcept;
    HostMemory &operator=(HostMemory &&) noexcept;
    ~HostMemory();

    // Addresses are in LW of one group. Throws UserError if a range exceeds the memory.
    void write(Space space, int group, int64_t address, std::span<const uint64_t> words);
    void write_dram(int group, int64_t address, std::span<const uint64_t> words) {
        write(Space::Dram, group, address, words);
    }
    // Words that were never written read as zero; `all_defined` tells whether there are any.
    void read(Space space, int group, int64_t address, std::span<uint64_t> words) const;
    void read_dram(int group, int64_t address, std::span<uint64_t> words) const {
        read(Space::Dram, group, address, words);
    }
    bool all_defined(Space space, int group, int64_t address, int64_t count) const;
    // The first undefined word of the range, or −1.
    int64_t first_undefined(Space space, int group, int64_t address, int64_t count) const;
    // Makes the range undefined again.
    void forget(Space space, int group, int64_t address, int64_t count);

    int64_t size(Space space) const { return space == Space::Dram ? dram_size_ : pdm_size_; }
    int groups() const { return groups_; }

private:
    struct Page;
    std::unique_ptr<Page> &page(Space space, int group, int64_t address);
    const Page *page(Space space, int group, int64_t address) const;
    void check(Space space, int group, int64_t address, int64_t count) const;

    int groups_ = 0;
    int64_t dram_size_ = 0, pdm_size_ = 0;
    std::vector<std::vector<std::unique_ptr<Page>>> pages_; // [space·groups + group][page]
};

} // namespace kumiko::sim
