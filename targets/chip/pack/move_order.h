// Predicts when off-chip moves begin and end (sim/move_times.h), so that each wait can be placed
// where it does not stall. Moves may be entered out of order; one that would delay an earlier
// entered one is refused.
#pragma once

#include "sim/move_times.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace kumiko::chip {

class MoveOrder {
public:
    explicit MoveOrder(const sim::Config &config) : config_(config) {}

    using Accept = std::function<bool(const sim::MoveTimes &)>;
    // Enters a move issued in that step and returns its times, if its queue has room and it delays
    // no move entered before; nullopt otherwise. At most one move is issued per step. `accept` may
    // still refuse.
    std::optional<sim::MoveTimes> enter(const sim::Mv &move, int64_t step, const Accept &accept);
    // The first step after `step` at which a refused move may be retried.
    int64_t next_try(int64_t step) const;
    int64_t group_free(int group) const {
        return entries_.empty() ? 0 : int64_t(entries_.back().after.groups[size_t(group)].free);
    }
    size_t count() const { return entries_.size(); }

private:
    struct Entry {
        sim::MoveDemand move;
        int64_t step;
        sim::MoveTimes times;
        sim::MoveState after;
    };
    const sim::Config &config_;
    std::vector<Entry> entries_; // by step

    // The times of a move issued in that step after state `before`; nullopt if a queue is full at
    // that cycle.
    std::optional<sim::MoveTimes> time(const sim::MoveDemand &m, int64_t step, const sim::MoveState &before,
                                       size_t position) const;
};

} // namespace kumiko::chip
