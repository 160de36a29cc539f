#include "sim/move_times.h"

#include "sim/operations.h"

#include <algorithm>
#include <bit>

namespace kumiko::sim {

namespace {

int64_t cycles_at(int64_t words, int64_t rate) { return (words + rate - 1) / rate; }

uint32_t first_units(int count) { return count >= 32 ? all_units : (1u << count) - 1; }

template<typename F>
void each_bit(uint32_t set, F &&f) {
    for (; set; set &= set - 1) f(std::countr_zero(set));
}

// A move among L2BMs.
MoveDemand demand_inside(const Mv &m, uint32_t l2bs, const Config &c) {
    MoveDemand d;
    const uint32_t child = 1u << m.child, own = first_units(c.l2bs) << (m.child / c.l2bs * c.l2bs);
    d.ins = info(m.op).reduces ? child : l2bs;
    d.outs = info(m.op).reduces ? l2bs : child;
    d.start = c.moves.pdm_start;
    d.cycles = cycles_at(words_of(m, c), l2bs & ~own ? c.moves.across_rate : c.moves.l2bm_rate);
    return d;
}

} // namespace

MoveDemand demand_of(const Mv &m, const Config &c) {
    const uint32_t chosen = m.l2bs & first_units(c.total_l2bs());
    if (is_inside(m)) return demand_inside(m, chosen, c);
    MoveDemand d;
    d.groups = uint16_t(m.groups & first_units(c.groups));
    d.direction = m.pdm ? 0 : is_load(m) ? 1 : 2;
    d.start = m.pdm ? c.moves.pdm_start : c.moves.dram_start;
    const int64_t words = words_of(m, c);
    each_bit(d.groups, [&](int g) {
        const uint32_t own = first_units(c.l2bs) << (g * c.l2bs), l2bs = m.chip ? chosen : chosen & own;
        const int rate = m.pdm        ? l2bs & ~own ? c.moves.pdm_across_rate : c.moves.pdm_rate
                         : m.indirect ? c.moves.indirect_rate
                                      : c.moves.dram_rate;
        const int64_t share = info(m.op).distributes ? words / std::max(std::popcount(l2bs), 1) : words;
        d.cycles = std::max({d.cycles, cycles_at(words, rate), cycles_at(share, c.moves.l2bm_rate)});
        (is_load(m) ? d.ins : d.outs) |= l2bs;
    });
    return d;
}

MoveTimes MoveState::times(const MoveDemand &m, uint64_t now, const Config &config) const {
    MoveTimes t;
    t.begin = now + uint64_t(m.start);
    each_bit(m.groups, [&](int g) {
        const Group &group = groups[size_t(g)];
        t.begin = std::max(t.begin, group.free);
        if (m.direction && group.direction && group.direction != m.direction)
            t.begin = std::max(t.begin, group.dram_end + uint64_t(config.moves.turnaround));
    });
    each_bit(m.ins, [&](int u) { t.begin = std::max(t.begin, in_free[size_t(u)]); });
    each_bit(m.outs, [&](int u) { t.begin = std::max(t.begin, out_free[size_t(u)]); });
    t.end = t.begin + uint64_t(m.cycles);
    return t;
}

void MoveState::occupy(const MoveDemand &m, uint64_t end) {
    each_bit(m.groups, [&](int g) {
        Group &group = groups[size_t(g)];
        group.free = end;
        if (m.direction) group.dram_end = end, group.direction = m.direction;
    });
    each_bit(m.ins, [&](int u) { in_free[size_t(u)] = end; });
    each_bit(m.outs, [&](int u) { out_free[size_t(u)] = end; });
}

MoveTimes MoveClock::issue(const MoveDemand &m, uint64_t now) {
    uint64_t stall = 0;
    each_bit(m.groups, [&](int g) {
        std::deque<uint64_t> &ends = ends_[size_t(g)];
        while (!ends.empty() && ends.front() <= now) ends.pop_front();
        // One in service, the others waiting.
        const size_t queue = size_t(config_.moves.queue);
        if (ends.size() > queue) stall = std::max(stall, ends[ends.size() - queue - 1] - now);
    });
    MoveTimes t = state_.times(m, now + stall, config_);
    t.stall = stall;
    state_.occupy(m, t.end);
    each_bit(m.groups, [&](int g) { ends_[size_t(g)].push_back(t.end); });
    return t;
}

} // namespace kumiko::sim
