#include "targets/chip/pack/move_order.h"

#include <algorithm>
#include <bit>

namespace kumiko::chip {

using sim::MoveDemand;
using sim::MoveState;
using sim::MoveTimes;

namespace {

MoveState after(const MoveDemand &m, const MoveState &before, const MoveTimes &times) {
    MoveState s = before;
    s.occupy(m, times.end);
    return s;
}

} // namespace

std::optional<MoveTimes> MoveOrder::time(const MoveDemand &m, int64_t step, const MoveState &before,
                                         size_t position) const {
    const uint64_t now = uint64_t(step) * sim::cycles_per_step;
    for (uint32_t left = m.groups; left; left &= left - 1) {
        const int g = std::countr_zero(left);
        int waiting = 0;
        // End times increase within a group: all before one that has ended have ended too.
        for (size_t i = position; i-- > 0;) {
            if (!(entries_[i].move.groups >> g & 1)) continue;
            if (entries_[i].times.end <= now) break;
            waiting++;
        }
        if (waiting > config_.moves.queue) return std::nullopt;
    }
    return before.times(m, now, config_);
}

std::optional<MoveTimes> MoveOrder::enter(const sim::Mv &mv, int64_t step, const Accept &accept) {
    static const MoveState fresh;
    const MoveDemand move = demand_of(mv, config_);
    const auto place =
        std::upper_bound(entries_.begin(), entries_.end(), step, [](int64_t s, const Entry &e) { return s < e.step; });
    const size_t position = size_t(place - entries_.begin());
    const MoveState &before = position ? entries_[position - 1].after : fresh;
    const auto times = time(move, step, before, position);
    if (!times) return std::nullopt;
    Entry made{move, step, *times, after(move, before, *times)};
    // Do the later moves keep their times? Usually the next one decides that they do not.
    const auto same = [&](size_t i, const MoveState &state, MoveState *then) {
        const auto t = time(entries_[i].move, entries_[i].step, state, i);
        if (!t || t->begin != entries_[i].times.begin || t->end != entries_[i].times.end) return false;
        if (then) *then = after(entries_[i].move, state, *t);
        return true;
    };
    if (position < entries_.size() && !same(position, made.after, nullptr)) return std::nullopt;
    if (!accept(*times)) return std::nullopt;
    if (position == entries_.size()) {
        entries_.push_back(std::move(made));
        return times;
    }
    std::vector<MoveState> kept;
    entries_.insert(entries_.begin() + std::ptrdiff_t(position), std::move(made));
    for (size_t i = position + 1; i < entries_.size(); i++) {
        MoveState then;
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

int64_t MoveOrder::next_try(int64_t step) const {
    const auto place =
        std::upper_bound(entries_.begin(), entries_.end(), step, [](int64_t s, const Entry &e) { return s < e.step; });
    // After the next move; or, after all of them, a little later: a queue was full.
    return place == entries_.end() ? step + 4 : place->step + 1;
}

} // namespace kumiko::chip
