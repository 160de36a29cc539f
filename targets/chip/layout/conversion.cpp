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

// Which elements stand in each unit of `rank` or below it.
using Sets = std::vector<std::vector<bool>>;
Sets sets_at(int rank, const Contents &all, int64_t elements, const sim::Config &c) {
    const int units = units_at(rank, c);
    Sets sets{static_cast<size_t>(units), std::vector<bool>(static_cast<size_t>(elements))};
    const int own = all.units();
    for (int u = 0; u < own; u++) {
        auto &set = sets[size_t(own >= units ? u / (own / units) : 0)];
        for (int64_t a = 0; a < all.words(); a++)
            for (int l = 0; l < all.lanes(); l++)
                if (const int32_t e = all.at(u, a)[l]; e >= 0) set[size_t(e)] = true;
    }
    return sets;
}

int64_t only_in_second(const std::vector<bool> &a, const std::vector<bool> &b) {
    int64_t n = 0;
    for (size_t i = 0; i < b.size(); i++) n += b[i] && !a[i];
    return n;
}

} // namespace

ConversionBound conversion_bound(const Placement &from, const Placement &to, const sim::Config &c) {
    if (from.layout.type() != to.layout.type() || from.layout.extents() != to.layout.extents())
        throw UserError(
            fmt::format("{} and {} are not one tensor: shapes or types differ", from.to_string(), to.to_string()));
    ConversionBound bound;
    const int64_t elements = from.layout.elements(), lanes = elements_per_word(from.layout.type());
    const Contents source = contents(from, c), destination = contents(to, c);
    const int top = std::min(rank_of(from.memory), rank_of(to.memory));
    const auto words = [&](int64_t n) { return (n + lanes - 1) / lanes; };
    const auto add = [&](std::string link, int64_t n, int64_t rate) {
        if (n > 0) bound.parts.push_back({std::move(link), words(n), (words(n) + rate - 1) / rate});
    };
    // Off the chip: everything is read once, and what is written stands in each of its groups.
    const int off_rate = c.moves.dram_rate, pdm_rate = c.moves.pdm_rate;
    int64_t start = 0;
    if (from.memory <= Memory::Pdm) {
        add(from.memory == Memory::Dram ? "DRAM read" : "PDM read", (elements + c.groups - 1) / c.groups,
            from.memory == Memory::Dram ? off_rate : pdm_rate);
        start = from.memory == Memory::Dram ? c.moves.dram_start : c.moves.pdm_start;
    }
    if (to.memory <= Memory::Pdm) {
        int64_t most = 0;
        for (const auto &set : sets_at(0, destination, elements, c))
            most = std::max(most, int64_t(std::count(set.begin(), set.end(), true)));
        add(to.memory == Memory::Dram ? "DRAM write" : "PDM write", most,
            to.memory == Memory::Dram ? off_rate : pdm_rate);
        start += to.memory == Memory::Dram ? c.moves.dram_start : c.moves.pdm_start;
    }
    // Into each unit on the way: what is needed there and was not there before.
    const int rates[] = {0, c.moves.l2bm_rate, c.links.l2_broadcast, 2};
    constexpr const char *links[] = {"", "into L2BM", "into L1BM", "into a PE"};
    for (int rank = std::max(top, 1); rank <= 3; rank++) {
        if (rank > rank_of(to.memory)) break;
        const Sets need = sets_at(rank, destination, elements, c);
        // A source above this rank holds nothing inside it.
        const bool inside = rank_of(from.memory) >= rank;
        const Sets have = inside ? sets_at(rank, source, elements, c) : Sets();
        int64_t most = 0;
        for (size_t u = 0; u < need.size(); u++)
            most = std::max(most, inside ? only_in_second(have[u], need[u])
                                         : int64_t(std::count(need[u].begin(), need[u].end(), true)));
        if (rank == rank_of(from.memory) && rank == rank_of(to.memory) && from.memory != to.memory && most == 0)
            continue;
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
