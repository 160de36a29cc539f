#include "targets/chip/pack/move_times.h"

#include <algorithm>

namespace kumiko::chip {

using sim::Mv;
using sim::MvOp;

namespace {

int64_t rounds(int64_t words, int64_t rate) { return (words + rate - 1) / rate; }

} // namespace

MoveTimes::State MoveTimes::fresh() const {
    State s;
    s.groups.resize(size_t(config_.groups));
    s.in_free.resize(size_t(config_.total_l2bs()));
    s.out_free.resize(size_t(config_.total_l2bs()));
    return s;
}

bool MoveTimes::time(const Mv &m, int64_t step, const State &before, size_t position, Timed &times, State &after,
                     uint32_t &groups) const {
    const bool load = m.op == MvOp::Broadcast || m.op == MvOp::Scatter;
    const int direction = load ? 1 : 2;
    const int64_t n = int64_t(m.blocks) * m.size * config_.moves.block;
    const uint64_t now = uint64_t(step) * sim::cycles_per_step;
    after = before;
    groups = 0;
    times.begin = now + uint64_t(config_.moves.dram_start);
    int64_t cycles = 0;
    std::vector<uint64_t> &ports = load ? after.in_free : after.out_free;
    std::vector<int> used;
    for (int g = 0; g < config_.groups; g++) {
        if (!(m.groups >> g & 1)) continue;
        groups |= 1u << g;
        int waiting = 0;
        for (size_t i = position; i-- > 0;) { // ends rise within a group: those before one that is over are over too
            if (!(entries_[i].groups >> g & 1)) continue;
            if (entries_[i].times.end <= now) break;
            waiting++;
        }
        if (waiting > config_.moves.queue) return false;
        int units = 0;
        for (int u = 0; u < config_.total_l2bs(); u++) {
            if (!(m.l2bs >> u & 1) || (!m.chip && u / config_.l2bs != g)) continue;
            used.push_back(u);
            units++;
        }
        const State::Group &state = before.groups[size_t(g)];
        times.begin = std::max(times.begin, state.free);
        if (state.direction && state.direction != direction)
            times.begin = std::max(times.begin, state.dram_end + uint64_t(config_.moves.turnaround));
        const bool dealt = m.op == MvOp::Scatter || m.op == MvOp::Gather;
        const int64_t share = dealt ? n / std::max(units, 1) : n;
        const int64_t rate = m.indirect ? config_.moves.indirect_rate : config_.moves.dram_rate;
        cycles = std::max({cycles, rounds(n, rate), rounds(share, config_.moves.l2bm_rate)});
    }
    for (const int u : used) times.begin = std::max(times.begin, ports[size_t(u)]);
    times.end = times.begin + uint64_t(cycles);
    for (const int u : used) ports[size_t(u)] = times.end;
    for (int g = 0; g < config_.groups; g++) {
        if (groups >> g & 1) after.groups[size_t(g)] = {times.end, times.end, direction};
    }
    return true;
}

std::optional<MoveTimes::Timed> MoveTimes::enter(const Mv &move, int64_t step,
                                                 const std::function<bool(const Timed &)> &accept) {
    const auto place =
        std::upper_bound(entries_.begin(), entries_.end(), step, [](int64_t s, const Entry &e) { return s < e.step; });
    const size_t position = size_t(place - entries_.begin());
    const State before = position ? entries_[position - 1].after : fresh();
    Entry made;
    made.move = move;
    made.step = step;
    if (!time(move, step, before, position, made.times, made.after, made.groups)) return std::nullopt;
    if (!accept(made.times)) return std::nullopt;
    const Timed times = made.times;
    if (position == entries_.size()) {
        entries_.push_back(std::move(made));
        return times;
    }
    // The moves behind keep their times?
    std::vector<Entry> kept(entries_.begin() + std::ptrdiff_t(position), entries_.end());
    entries_.insert(entries_.begin() + std::ptrdiff_t(position), std::move(made));
    bool same = true;
    for (size_t i = position + 1; same && i < entries_.size(); i++) {
        Timed t;
        State after;
        uint32_t groups;
        same = time(entries_[i].move, entries_[i].step, entries_[i - 1].after, i, t, after, groups) &&
               t.begin == entries_[i].times.begin && t.end == entries_[i].times.end;
        entries_[i].after = std::move(after);
    }
    if (same) return times;
    entries_.resize(position);
    entries_.insert(entries_.end(), kept.begin(), kept.end());
    return std::nullopt;
}

int64_t MoveTimes::next_try(int64_t step) const {
    const auto place =
        std::upper_bound(entries_.begin(), entries_.end(), step, [](int64_t s, const Entry &e) { return s < e.step; });
    // Behind the next move; or, behind all of them, a little later: a queue was full.
    return place == entries_.end() ? step + 4 : place->step + 1;
}

} // namespace kumiko::chip
