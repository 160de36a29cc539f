#include "targets/chip/layout/conversion.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko::chip {

namespace {

int rank_of(Memory m) { return m <= Memory::Pdm ? 0 : m == Memory::L2bm ? 1 : m == Memory::L1bm ? 2 : 3; }

// Units of a tree rank: groups, L2Bs, L1Bs, PEs.
int units_at(int rank, const sim::Config &c) {
    constexpr Memory memories[] = {Memory::Dram, Memory::L2bm, Memory::L1bm, Memory::Lm0};
    return units_of(memories[rank], c);
}

// The number of elements that a unit of `rank` requires in or below it but lacks there: the maximum
// over the units. `have` may be null.
int64_t max_lacking(int rank, const Contents *have, const Contents &want, int64_t elements, const sim::Config &c) {
    const int units = units_at(rank, c);
    if (want.units() < units) return 0;
    std::vector<int32_t> there(size_t(elements), -1), counted(size_t(elements), -1);
    int64_t most = 0;
    const auto each = [&](const Contents &all, int unit, auto &&f) {
        const int inside = all.units() / units;
        for (int u = unit * inside; u < (unit + 1) * inside; u++)
            for (int64_t a = 0; a < all.words(); a++)
                for (int l = 0; l < all.lanes(); l++)
                    if (const int32_t e = all.at(u, a)[l]; e >= 0) f(size_t(e));
    };
    for (int unit = 0; unit < units; unit++) {
        if (have) each(*have, unit, [&](size_t e) { there[e] = unit; });
        int64_t lacking = 0;
        each(want, unit, [&](size_t e) {
            if (there[e] == unit || counted[e] == unit) return;
            counted[e] = unit;
            lacking++;
        });
        most = std::max(most, lacking);
    }
    return most;
}

} // namespace

ConversionBound conversion_bound(const Placement &from, const Placement &to, const sim::Config &c) {
    if (from.layout.type() != to.layout.type() || from.layout.extents() != to.layout.extents())
        throw UserError(
            fmt::format("{} and {} are not one tensor: shapes or types differ", from.to_string(), to.to_string()));
    ConversionBound bound;
    const int64_t elements = from.layout.elements(), lanes = elements_per_word(from.layout.type());
    const Contents source = contents(from, c), destination = contents(to, c);
    const auto words = [&](int64_t n) { return (n + lanes - 1) / lanes; };
    const auto add = [&](std::string link, int64_t n, int64_t rate) {
        if (n > 0) bound.parts.push_back({std::move(link), words(n), (words(n) + rate - 1) / rate});
    };
    // Off-chip: everything is read once, and the result is stored in each of its groups.
    const int off_rate = c.moves.dram_rate, pdm_rate = c.moves.pdm_rate;
    int64_t start = 0;
    if (from.memory <= Memory::Pdm) {
        add(from.memory == Memory::Dram ? "DRAM read" : "PDM read", (elements + c.groups - 1) / c.groups,
            from.memory == Memory::Dram ? off_rate : pdm_rate);
        start = from.memory == Memory::Dram ? c.moves.dram_start : c.moves.pdm_start;
    }
    if (to.memory <= Memory::Pdm) {
        const int64_t most = max_lacking(0, nullptr, destination, elements, c);
        add(to.memory == Memory::Dram ? "DRAM write" : "PDM write", most,
            to.memory == Memory::Dram ? off_rate : pdm_rate);
        start += to.memory == Memory::Dram ? c.moves.dram_start : c.moves.pdm_start;
    }
    // Into each unit on the path: the words that are required there and not present before.
    const int rates[] = {0, c.moves.l2bm_rate, c.links.l2_broadcast, 2};
    constexpr const char *links[] = {"", "into L2BM", "into L1BM", "into a PE"};
    for (int rank = 1; rank <= rank_of(to.memory); rank++) {
        // A source above this rank holds nothing at it.
        const int64_t most =
            max_lacking(rank, rank_of(from.memory) >= rank ? &source : nullptr, destination, elements, c);
        add(links[rank], most, rates[rank]);
    }
    for (const auto &p : bound.parts) bound.cycles = std::max(bound.cycles, p.cycles);
    bound.cycles += start;
    return bound;
}

std::string ConversionBound::to_string() const {
    std::string s;
    for (const Part &p : parts)
        s += fmt::format("{}{} {} LW in {} cycles", s.empty() ? "" : ", ", p.link, p.words, p.cycles);
    return fmt::format("{} cycles at least{}{}", cycles, s.empty() ? "" : ": ", s);
}

} // namespace kumiko::chip
