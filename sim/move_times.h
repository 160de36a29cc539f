// When moves begin and end (docs/chip.md, "Moves"). The simulator, the prediction of cycles and the
// packer share this model.
#pragma once

#include "sim/isa.h"

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

namespace kumiko::sim {

// What a move occupies while it is in service.
struct MoveDemand {
    uint16_t groups = 0;           // whose DRAM or PDM it uses
    uint32_t ins = 0, outs = 0;    // L2Bs whose L2BM it writes, and reads
    int direction = 0;             // of DRAM: 1 read, 2 written; 0: it does not use DRAM
    int64_t start = 0, cycles = 0; // latency, and service time
};
MoveDemand demand_of(const Mv &move, const Config &config);

struct MoveTimes {
    uint64_t stall = 0; // cycles for which a full queue stalls the stream before the issue
    uint64_t begin = 0, end = 0;
};

// The state of memories and ports after some moves. Times are in cycles.
struct MoveState {
    struct Group {
        uint64_t free = 0, dram_end = 0;
        int direction = 0; // last direction of DRAM
    };
    std::array<Group, 16> groups;                   // the width of a move's set of groups
    std::array<uint64_t, 32> in_free{}, out_free{}; // of each L2BM

    // The times of a move that is issued at `now`, if its queues have room.
    MoveTimes times(const MoveDemand &move, uint64_t now, const Config &config) const;
    void occupy(const MoveDemand &move, uint64_t end);
};

// The times of moves issued in order.
class MoveClock {
public:
    explicit MoveClock(const Config &config) : config_(config), ends_(size_t(config.groups)) {}
    MoveTimes issue(const MoveDemand &move, uint64_t now);

private:
    const Config &config_;
    MoveState state_;
    std::vector<std::deque<uint64_t>> ends_; // of each group's moves that are not complete
};

} // namespace kumiko::sim
