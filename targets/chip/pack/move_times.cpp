#include "targets/chip/pack/move_times.h"

#include <algorithm>
#include <bit>

namespace kumiko::chip {

using sim::Mv;
using sim::MvOp;

namespace {

int64_t rounds(int64_t words, int64_t rate) { return (words + rate - 1) / rate; }
int direction_of(const Mv &m) { return is_load(m) ? 1 : 2; }

// The participating L2Bs: those of one group; for moves of the whole chip, all.
uint32_t units_of(const Mv &m, int group, const sim::Config &config) {
    const uint32_t own = ((1u << config.l2bs) - 1) << (group * config.l2bs);
    return m.chip ? m.l2bs : m.l2bs & own;
}

} // namespace

int64_t cycles_of(const Mv &m, const sim::Config &config) {
    const int64_t n = words_of(m, config);
    int64_t cycles = 0;
    for (int g = 0; g < config.groups; g++) {
        if (!(m.groups >> g & 1)) continue;
        const bool dealt = m.op == MvOp::Scatter || m.op == MvOp::Gather;
        const int64_t share = dealt ? n / std::max(std::popcount(units_of(m, g, config)), 1) : n;
        const int64_t rate = m.indirect ? config.moves.indirect_rate : config.moves.dram_rate;
        cycles = std::max({cycles, rounds(n, rate), rounds(share, config.moves.l2bm_rate)});
    }
    return cycles;
}

std::optional<MoveTimes::Timed> MoveTimes::time(const Mv &m, int64_t step, const State &before, size_t position,
                                                uint32_t &l2bs) const {
    const int direction = direction_of(m);
    const uint64_t now = uint64_t(step) * sim::cycles_per_step;
    Timed times;
    times.begin = now + uint64_t(config_.moves.dram_start);
    l2bs = 0;
    for (int g = 0; g < config_.groups; g++) {
        if (!(m.groups >> g & 1)) continue;
        int waiting = 0;
        // End times increase within a group: all before one that has ended have ended too.
        for (size_t i = position; i-- > 0;) {
            if (!(entries_[i].move.groups >> g & 1)) continue;
            if (entries_[i].times.end <= now) break;
            waiting++;
        }
        if (waiting > config_.moves.queue) return std::nullopt;
        l2bs |= units_of(m, g, config_);
        const State::Group &state = before.groups[size_t(g)];
        times.begin = std::max(times.begin, state.free);
        if (state.direction && state.direction != direction)
            times.begin = std::max(times.begin, state.dram_end + uint64_t(config_.moves.turnaround));
    }
    const auto &ports = is_load(m) ? before.in_free : before.out_free;
    for (uint32_t left = l2bs; left; left &= left - 1)
        times.begin = std::max(times.begin, ports[size_t(std::countr_zero(left))]);
    times.end = times.begin + uint64_t(cycles_of(m, config_));
    return times;
}

MoveTimes::State MoveTimes::after(const Mv &m, const State &before, const Timed &times, uint32_t l2bs) {
    State s = before;
    auto &ports = is_load(m) ? s.in_free : s.out_free;
    for (uint32_t left = l2bs; left; left &= left - 1) ports[size_t(std::countr_zero(left))] = times.end;
    for (uint32_t left = m.groups; left; left &= left - 1)
        s.groups[size_t(std::countr_zero(left))] = {times.end, times.end, direction_of(m)};
    return s;
}

std::optional<MoveTimes::Timed> MoveTimes::enter(const Mv &move, int64_t step,
                                                 const std::function<bool(const Timed &)> &accept) {
    static const State fresh;
    const auto place =
        std::upper_bound(entries_.begin(), entries_.end(), step, [](int64_t s, const Entry &e) { return s < e.step; });
    const size_t position = size_t(place - entries_.begin());
    const State &before = position ? entries_[position - 1].after : fresh;
    uint32_t l2bs = 0;
    const auto times = time(move, step, before, position, l2bs);
    if (!times) return std::nullopt;
    Entry made{move, step, *times, after(move, before, *times, l2bs)};
    // Do the later moves keep their times? Usually the next one decides that they do not.
    const auto same = [&](size_t i, const State &state, State *then) {
        const auto t = time(entries_[i].move, entries_[i].step, state, i, l2bs);
        if (!t || t->begin != entries_[i].times.begin || t->end != entries_[i].times.end) return false;
        if (then) *then = after(entries_[i].move, state, *t, l2bs);
        return true;
    };
    if (position < entries_.size() && !same(position, made.after, nullptr)) return std::nullopt;
    if (!accept(*times)) return std::nullopt;
    if (position == entries_.size()) {
        entries_.push_back(std::move(made));
        return times;
    }
    std::vector<State> kept;
    entries_.insert(entries_.begin() + std::ptrdiff_t(position), std::move(made));
    for (size_t i = position + 1; i < entries_.size(); i++) {
        State then;
        if (!same(i, entries_[i - 1].after, &then)) {
            for (size_t k = 0; k < kept.size(); k++) entries_[position + 1 + k].after = kept[k];
            entries_.erase(entries_.begin() + std::ptrdiff_t(position));
            return std::nullopt;
        }
        kept.push_back(entries_[i].after);
        entries_[i].after = then;
    }
    return times;
}

int64_t MoveTimes::next_try(int64_t step) const {
    const auto place =
        std::upper_bound(entries_.begin(), entries_.end(), step, [](int64_t s, const Entry &e) { return s < e.step; });
    // After the next move; or, after all of them, a little later: a queue was full.
    return place == entries_.end() ? step + 4 : place->step + 1;
}

} // namespace kumiko::chip
