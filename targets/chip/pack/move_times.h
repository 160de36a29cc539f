// Predicts when off-chip moves begin and end, by the machine's rules (docs/chip.md, "Moves"), so
// that each wait can be placed where it does not stall. Moves may be entered out of order; one that
// would delay an earlier entered one is refused.
#pragma once

#include "sim/isa.h"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace kumiko::chip {

inline bool is_load(const sim::Mv &m) { return m.op == sim::MvOp::Broadcast || m.op == sim::MvOp::Scatter; }
inline int64_t words_of(const sim::Mv &m, const sim::Config &config) { // LW of each of its groups
    return int64_t(m.blocks) * m.size * config.moves.block;
}
// The number of cycles that it takes from its begin, in each of its groups.
int64_t cycles_of(const sim::Mv &m, const sim::Config &config);

class MoveTimes {
public:
    explicit MoveTimes(const sim::Config &config) : config_(config) {}

    struct Timed {
        uint64_t begin = 0, end = 0; // cycles
    };
    // Enters a move issued in that step and returns its times, if its queue has room and it delays
    // no move entered before; nullopt otherwise. At most one move is issued per step. `accept` may
    // still refuse.
    std::optional<Timed> enter(const sim::Mv &move, int64_t step, const std::function<bool(const Timed &)> &accept);
    // The first step after `step` at which a refused move may be retried.
    int64_t next_try(int64_t step) const;
    int64_t group_free(int group) const {
        return entries_.empty() ? 0 : int64_t(entries_.back().after.groups[size_t(group)].free);
    }
    size_t count() const { return entries_.size(); }

private:
    struct State { // after a move
        struct Group {
            uint64_t free = 0, dram_end = 0;
            int direction = 0;
        };
        std::array<Group, 16> groups;                   // the width of a move's group mask
        std::array<uint64_t, 32> in_free{}, out_free{}; // of each L2BM
    };
    struct Entry {
        sim::Mv move;
        int64_t step;
        Timed times;
        State after;
    };
    const sim::Config &config_;
    std::vector<Entry> entries_; // by step

    // The times of a move issued in that step after state `before`, and the participating L2Bs;
    // nullopt if a queue is full at that cycle.
    std::optional<Timed> time(const sim::Mv &m, int64_t step, const State &before, size_t position,
                              uint32_t &l2bs) const;
    static State after(const sim::Mv &m, const State &before, const Timed &times, uint32_t l2bs);
};

} // namespace kumiko::chip
