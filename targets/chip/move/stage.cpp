#include "targets/chip/move/hops.h"

#include <algorithm>

namespace kumiko::chip {

int rank_of(Memory m) { return m <= Memory::Pdm ? 0 : m == Memory::L2bm ? 1 : m == Memory::L1bm ? 2 : 3; }

int64_t grain_of(Memory memory, const sim::Config &c) {
    const int64_t steps = sim::cycles_per_step;
    switch (rank_of(memory)) {
    case 0:
        return c.moves.block;
    case 1:
        return std::max(steps * c.links.l2_scatter * c.l1bs, steps * c.links.l2_broadcast);
    case 2:
        return std::max(steps * c.pes_per_l1b(), steps * c.links.l2_broadcast);
    default:
        return steps;
    }
}

bool required_anywhere(const Contents &table, int64_t address) {
    for (int u = 0; u < table.units(); u++)
        if (requires_element(table.at(u, address), table.lanes())) return true;
    return false;
}

bool forbidden_anywhere(const Contents &table, int64_t address) {
    for (int u = 0; u < table.units(); u++)
        for (int l = 0; l < table.lanes(); l++)
            if (table.at(u, address)[l] == untouched) return true;
    return false;
}

bool join(int32_t *want, const int32_t *more, int lanes) {
    for (int l = 0; l < lanes; l++) {
        if (want[l] == anything)
            want[l] = more[l];
        else if (more[l] != anything && more[l] != want[l])
            return false;
    }
    return true;
}

const std::vector<int64_t> &Finder::element(int unit, int32_t element) {
    static const std::vector<int64_t> nowhere;
    Unit &u = units_[size_t(unit)];
    if (!u.made) {
        u.made = true;
        for (int64_t a = 0; a < table_.words(); a++)
            for (int l = 0; l < table_.lanes(); l++)
                if (const int32_t e = table_.at(unit, a)[l]; e >= 0) {
                    auto &at = u.at[e];
                    if (at.empty() || at.back() != a) at.push_back(a);
                }
    }
    const auto it = u.at.find(element);
    return it == u.at.end() ? nowhere : it->second;
}

std::vector<int64_t> Finder::find(int unit, const int32_t *want) {
    std::vector<int64_t> found;
    for (int l = 0; l < table_.lanes(); l++) {
        if (want[l] < 0) continue;
        for (const int64_t a : element(unit, want[l]))
            if (satisfies(want, table_.at(unit, a), table_.lanes())) found.push_back(a);
        return found;
    }
    return found;
}

sim::Operand port(Memory memory, const std::array<int64_t, 4> &at) {
    constexpr sim::Source sources[] = {sim::Source::Lm0, sim::Source::Lm1, sim::Source::Grf0, sim::Source::Grf1};
    const sim::Source source = sources[int(memory) - int(Memory::Lm0)];
    const int64_t stride = at[1] - at[0];
    sim::Operand o = sim::listed(source, {int(at[0]), int(at[1]), int(at[2]), int(at[3])});
    if (at[2] - at[1] == stride && at[3] - at[2] == stride) {
        o.address = {};
        o.address.at[0] = uint16_t(at[0]);
        o.address.stride = int16_t(stride);
    }
    return o;
}

const Scratch::Range &range_of(const Scratch &s, Memory memory) { return range_of(const_cast<Scratch &>(s), memory); }

Scratch::Range &range_of(Scratch &s, Memory memory) {
    switch (memory) {
    case Memory::L2bm:
        return s.l2bm;
    case Memory::L1bm:
        return s.l1bm;
    case Memory::Lm0:
        return s.lm0;
    case Memory::Lm1:
        return s.lm1;
    case Memory::Grf0:
        return s.grf0;
    case Memory::Grf1:
        return s.grf1;
    default:
        throw InternalError("there is no scratch in DRAM and PDM");
    }
}

std::vector<std::vector<bool>> elements_below(const State &goal, Memory memory, const sim::Config &config) {
    const Contents &t = goal.table;
    int32_t last = -1;
    for (int u = 0; u < t.units(); u++)
        for (int64_t a = 0; a < t.words(); a++)
            last = std::max(last, *std::max_element(t.at(u, a), t.at(u, a) + t.lanes()));
    const int units = units_of(memory, config);
    std::vector<std::vector<bool>> sets(static_cast<size_t>(units), std::vector<bool>(static_cast<size_t>(last + 1)));
    for (int u = 0; u < t.units(); u++)
        for (int64_t a = 0; a < t.words(); a++)
            for (int l = 0; l < t.lanes(); l++) {
                const int32_t e = t.at(u, a)[l];
                if (e < 0) continue;
                if (t.units() >= units)
                    sets[size_t(u / (t.units() / units))][size_t(e)] = true;
                else // data for a unit above may come from any unit below
                    for (int v = u * (units / t.units()); v < (u + 1) * (units / t.units()); v++)
                        sets[size_t(v)][size_t(e)] = true;
            }
    return sets;
}

State lengthened(const State &state, int64_t words) {
    const Contents &t = state.table;
    if (words <= t.words()) return state;
    State made{state.memory, state.base, Contents(t.memory(), t.units(), words, t.lanes())};
    for (int u = 0; u < t.units(); u++)
        if (t.words()) std::copy_n(t.at(u, 0), size_t(t.words()) * size_t(t.lanes()), made.table.at(u, 0));
    return made;
}

std::optional<int> Hops::tag() {
    if (scratch.tag_end <= scratch.tag_begin) return std::nullopt;
    return scratch.tag_begin + next_tag++ % (scratch.tag_end - scratch.tag_begin);
}

std::vector<Hop> Hops::push(const State &from, Memory to, int64_t base) {
    const int a = rank_of(from.memory), b = rank_of(to);
    if (a == 3 && b == 2) return push_l1_up(from, base, config);
    if (a == 2 && b == 3) return push_l1_down(from, to, base, config);
    if (a == 2 && b == 1) return push_l2_up(from, base, config);
    if (a == 1 && b == 2) {
        std::vector<Hop> all = push_l2_down(from, base, config);
        if (goal && rank_of(goal->memory) >= 2)
            for (Hop &m : push_l2_needed(from, base, elements_below(*goal, Memory::L1bm, config), config))
                all.push_back(std::move(m));
        return all;
    }
    if (a == 0 && b == 1) {
        const auto t = tag();
        std::vector<Hop> all = push_in(from, base, false, t, config);
        if (goal && rank_of(goal->memory) >= 1)
            for (Hop &m : push_in_needed(from, base, elements_below(*goal, Memory::L2bm, config), t, config))
                all.push_back(std::move(m));
        return all;
    }
    return {};
}

std::vector<Hop> Hops::pull(const State &to, Memory from, int64_t base) {
    const int a = rank_of(from), b = rank_of(to.memory);
    if (a == 3 && b == 2) return pull_l1_up(to, from, base, config);
    if (a == 2 && b == 3) return pull_l1_down(to, base, config);
    if (a == 2 && b == 1) {
        std::vector<Hop> all = pull_l2_up(to, base, config);
        if (origin && rank_of(origin->memory) >= 2)
            for (Hop &m : pull_l2_up_owned(to, base, elements_below(*origin, Memory::L1bm, config), config))
                all.push_back(std::move(m));
        return all;
    }
    if (a == 1 && b == 2) return pull_l2_down(to, base, config);
    if (a == 1 && b == 0) {
        const auto t = tag();
        std::vector<Hop> all = pull_out(to, base, t, config);
        if (origin && rank_of(origin->memory) >= 1)
            for (Hop &m : pull_out_owned(to, base, elements_below(*origin, Memory::L2bm, config), t, config))
                all.push_back(std::move(m));
        return all;
    }
    return {};
}

std::optional<Hop> Hops::match(const State &from, const State &to) {
    const int a = rank_of(from.memory), b = rank_of(to.memory);
    if (a == 3 && b == 3) {
        auto turned = match_transpose(from, to);
        return turned ? std::move(turned) : match_pe(from, to);
    }
    if (a == 2 && b == 3) return match_l1_down(from, to);
    if (a == 3 && b == 2) return match_l1_up(from, to);
    if (a == 1 && b == 2) return match_l2_down(from, to);
    if (a == 2 && b == 1) return match_l2_up(from, to);
    if (a == 0 && b == 1) return match_in(from, to);
    if (a == 1 && b == 0) return match_out(from, to);
    return std::nullopt;
}

} // namespace kumiko::chip
