// Predicts cycles without data: steps, the times of moves, and the tail.
#include "sim/move_times.h"
#include "targets/chip/micro/micro_op.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

namespace {

// The number of steps after a word until all of its writes have arrived. Moves are complete later.
int settle_steps(const Word &w, const Config &c) {
    Accesses all;
    accesses(w, c, all);
    int steps = 0;
    for (const Access &a : all) {
        const bool of_move = a.slot == Slot::Mv || (a.slot == Slot::Control && a.resource != Resource::Base);
        if (a.write && !of_move) steps = std::max(steps, longest_gap(a.resource, a.slot, c.gaps));
    }
    return steps;
}

} // namespace

int64_t predict_cycles(const std::vector<Word> &words, const Config &config) {
    MoveClock moves(config);
    std::array<int64_t, 16> complete{}; // by tag
    int64_t cycle = 0, step = 0, settled = 0;
    for (const Word &w : words) {
        if (w.control.wait) cycle = std::max(cycle, complete[*w.control.wait]);
        if (w.mv.op != MvOp::None) {
            const MoveTimes times = moves.issue(demand_of(w.mv, config), uint64_t(cycle));
            cycle += int64_t(times.stall);
            complete[w.mv.tag] = std::max(complete[w.mv.tag], int64_t(times.end));
        }
        step++;
        cycle += cycles_per_step;
        settled = std::max(settled, step + settle_steps(w, config));
    }
    const int64_t end = cycle + std::max<int64_t>(0, settled - step) * cycles_per_step;
    return std::max(end, *std::max_element(complete.begin(), complete.end()));
}

} // namespace kumiko::chip
