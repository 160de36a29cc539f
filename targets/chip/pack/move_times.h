// When moves off the chip begin and end: the machine's rules (docs/chip.md, "Moves"), foreseen, so that a wait can be put where
// nothing waits. Moves may be entered out of order; one that would delay an earlier entered one is refused.
#pragma once

#include "sim/isa.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace kumiko::chip {

class MoveTimes {
public:
    explicit MoveTimes(const sim::Config &config) : config_(config) {}

    struct Timed {
        uint64_t begin = 0, end = 0; // cycles
    };
    // The times of a move issued in that step, when its queue has room and no move entered before is delayed by it. It is then
    // entered. Nothing otherwise. One step issues one move at most.
    // `accept` has the last word.
    std::optional<Timed> enter(const sim::Mv &move, int64_t step, const std::function<bool(const Timed &)> &accept);
    // The first step after `step` at which a refused move may be tried again.
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
        std::vector<Group> groups;
        std::vector<uint64_t> in_free, out_free; // of each L2BM
    };
    struct Entry {
        sim::Mv move;
        int64_t step;
        uint32_t groups;
        Timed times;
        State after;
    };
    const sim::Config &config_;
    std::vector<Entry> entries_; // by step

    State fresh() const;
    // False when a queue is full at that cycle.
    bool time(const sim::Mv &m, int64_t step, const State &before, size_t position, Timed &times, State &after,
              uint32_t &groups) const;
};

} // namespace kumiko::chip
