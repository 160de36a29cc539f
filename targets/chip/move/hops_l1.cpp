// Hops between L1BM and the PEs below it.
//
// One file for all hops between these two levels: they share the operations and the sizes.
#include "targets/chip/move/hops.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace kumiko::chip {

using namespace sim;

namespace {

// The pattern of one cycle of a downward transfer: offset() is the word of L1BM, relative to the
// cycle's first, that goes to word j of PE `pe`.
struct Pattern {
    L1Op op;
    int width;
    const char *name;
    int64_t offset(int pe, int j) const {
        const int m = pe / 4, p = pe % 4;
        switch (op) {
        case L1Op::PeBroadcast:
            return j;
        case L1Op::MabBroadcast:
            return width * p + j;
        case L1Op::MabBroadcast4:
            return 4 * width * (m / 4) + width * p + j;
        default:
            return pe;
        }
    }
    int64_t words(int mabs) const { // words of L1BM per cycle
        switch (op) {
        case L1Op::PeBroadcast:
            return width;
        case L1Op::MabBroadcast:
            return 4 * width;
        case L1Op::MabBroadcast4:
            return int64_t(width) * mabs;
        default:
            return 4 * int64_t(mabs);
        }
    }
};
constexpr Pattern patterns[] = {{L1Op::PeBroadcast, 2, "l1.pe.2"},     {L1Op::MabBroadcast, 2, "l1.mab.2"},
                                {L1Op::MabBroadcast4, 2, "l1.mab4.2"}, {L1Op::PeBroadcast, 1, "l1.pe"},
                                {L1Op::MabBroadcast, 1, "l1.mab"},     {L1Op::MabBroadcast4, 1, "l1.mab4"},
                                {L1Op::Scatter, 1, "l1.scatter"}};

MicroOp load_from_l1bm(const Pattern &pattern, int64_t at, uint32_t mabs, Memory to,
                       const std::array<int64_t, 4> &addresses) {
    MicroOp op;
    op.word().l1.op = pattern.op;
    op.word().l1.width = uint8_t(pattern.width);
    op.word().l1.mabs = mabs;
    op.word().l1.at.at = uint16_t(at);
    op.word().l1.to = op.word().write({port(to, addresses)});
    return op;
}

MicroOp store_to_l1bm(Memory from, const std::array<int64_t, 4> &addresses, uint32_t mabs, int64_t at) {
    MicroOp op;
    op.word().l1.op = L1Op::Gather;
    op.word().l1.mabs = mabs;
    op.word().l1.at.at = uint16_t(at);
    op.word().l1.from = op.word().read(port(from, addresses));
    return op;
}

std::string summary(const std::map<std::string, int> &steps, Memory from, Memory to) {
    std::string s;
    for (const auto &[name, n] : steps) s += fmt::format("{}{} {}", s.empty() ? "" : " + ", n, name);
    return fmt::format("{} -> {}: {}", name_of(from), name_of(to), s.empty() ? "nothing" : s);
}

// Finds the steps from L1BM into the memories of PEs: first which word each column comes from, then
// four columns per step.
class L1DownMatcher {
public:
    L1DownMatcher(const State &from, const State &to, const Scratch::Range &spare, const Config &config)
        : from_(from), to_(to), want_(to.table), have_(from.table), finder_(have_), spare_(spare), config_(config),
          begun_(size_t(want_.words())) {}

    std::optional<Hop> match() {
        for (int64_t a = 0; a < want_.words();) {
            if (!required_anywhere(want_, a)) {
                a++;
            } else if (const int width = serve_all(a)) {
                a += width;
            } else {
                if (!serve_mabs(a)) return std::nullopt;
                a++;
            }
        }
        Hop made{to_, {}, ""};
        std::map<std::string, int> steps;
        for (auto &[key, columns] : served_) {
            if (!add_steps(patterns[key.first], key.second, columns, made.ops, steps)) return std::nullopt;
        }
        made.text = summary(steps, from_.memory, to_.memory);
        return made;
    }

private:
    struct Column {
        int64_t to, from;
    };

    // Whether, from word b on, the pattern provides column a (and the next one, if wide) in the
    // chosen MABs.
    bool fits(const Pattern &pattern, int64_t a, uint32_t set, int64_t b) const {
        for (int v = 0; v < want_.units(); v++) {
            if (!(set >> (v % pes_ / 4) & 1)) continue;
            for (int i = 0; i < pattern.width; i++) {
                const int32_t *wanted = want_.at(v, a + i);
                const int64_t x = b + pattern.offset(v % pes_, i);
                if (wanted[0] == untouched) return false;
                if (requires_element(wanted, lanes_) &&
                    !(x >= 0 && x < have_.words() && satisfies(wanted, have_.at(v / pes_, x), lanes_)))
                    return false;
            }
        }
        return true;
    }

    // The first word of L1BM from which the pattern provides them.
    std::optional<int64_t> solve(const Pattern &pattern, int64_t a, uint32_t set) {
        if (pattern.op == L1Op::MabBroadcast4 && mabs_ % 4) return std::nullopt;
        if (a + pattern.width > want_.words()) return std::nullopt;
        for (int j = 0; j < pattern.width; j++)
            for (int u = 0; u < want_.units(); u++) {
                if (!(set >> (u % pes_ / 4) & 1) || !requires_element(want_.at(u, a + j), lanes_)) continue;
                for (const int64_t found : finder_.find(u / pes_, want_.at(u, a + j))) {
                    const int64_t b = found - pattern.offset(u % pes_, j);
                    if (b < 0 && from_.base + b < 0) continue;
                    if (fits(pattern, a, set, b)) return b;
                }
                return std::nullopt;
            }
        return std::nullopt;
    }

    // Serves column a in all MABs at once; returns the number of columns served.
    int serve_all(int64_t a) {
        for (int k = 0; k < int(std::size(patterns)); k++)
            if (const auto b = solve(patterns[k], a, all_)) {
                served_[{k, all_}].push_back({a, *b});
                return patterns[k].width;
            }
        return 0;
    }

    // Serves column a MAB by MAB; those with the same source are combined.
    bool serve_mabs(int64_t a) {
        std::map<std::pair<int, int64_t>, uint32_t> sets;
        for (int m = 0; m < mabs_; m++) {
            bool any = false, good = false;
            for (int u = 0; u < want_.units(); u++)
                any = any || (u % pes_ / 4 == m && requires_element(want_.at(u, a), lanes_));
            if (!any) continue;
            for (const int k : {4, 3})
                if (const auto b = solve(patterns[k], a, 1u << m); b && !good) sets[{k, *b}] |= 1u << m, good = true;
            if (!good) return false;
        }
        for (const auto &[key, set] : sets) served_[{key.first, set}].push_back({a, key.second});
        return true;
    }

    // Four cycles per step, of columns whose words in L1BM are at the pattern's stride.
    bool add_steps(const Pattern &pattern, uint32_t set, std::vector<Column> &columns, Ops &ops,
                   std::map<std::string, int> &steps) {
        const int64_t stride = pattern.words(mabs_);
        std::sort(columns.begin(), columns.end(), [](const Column &a, const Column &b) { return a.from < b.from; });
        std::vector<bool> used(columns.size());
        std::multimap<int64_t, size_t> by_from;
        for (size_t i = 0; i < columns.size(); i++) by_from.insert({columns[i].from, i});
        for (size_t i = 0; i < columns.size(); i++) {
            if (used[i]) continue;
            std::array<int64_t, 4> at{-1, -1, -1, -1}; // columns; −1: unused
            int64_t first = columns[i].from;
            // All four cycles must stay inside L1BM.
            int lead = 0;
            while (from_.base + first - lead * stride + 4 * stride > config_.sizes.l1bm) lead++;
            if (lead > 3 || from_.base + first - lead * stride < 0) return false;
            first -= lead * stride;
            for (int t = 0; t < 4; t++) {
                const auto [begin, end] = by_from.equal_range(first + t * stride);
                for (auto it = begin; it != end; ++it) {
                    if (used[it->second]) continue;
                    used[it->second] = true;
                    at[size_t(t)] = columns[it->second].to;
                    break;
                }
            }
            const auto addresses = addresses_of(pattern, at);
            if (!addresses) return false;
            ops.push_back(
                load_from_l1bm(pattern, from_.base + first, set == all_ ? all_units : set, to_.memory, *addresses));
            steps[pattern.name]++;
        }
        return true;
    }

    // The addresses to which the four cycles write. Unused cycles write to harmless ones: columns
    // that have not been started, which are overwritten later or are padding, or scratch.
    std::optional<std::array<int64_t, 4>> addresses_of(const Pattern &pattern, const std::array<int64_t, 4> &at) {
        std::vector<bool> taken(size_t(want_.words()));
        for (const int64_t a : at)
            for (int j = 0; j < pattern.width && a >= 0; j++) {
                taken[size_t(a + j)] = true;
                begun_[size_t(a + j)] = true;
            }
        std::array<int64_t, 4> addresses{};
        int64_t next_free = 0, next_spare = spare_.begin;
        for (int t = 0; t < 4; t++) {
            if (at[size_t(t)] >= 0) {
                addresses[size_t(t)] = to_.base + at[size_t(t)];
                continue;
            }
            for (; next_free + pattern.width <= want_.words(); next_free++) {
                bool good = true;
                for (int j = 0; j < pattern.width; j++) good = good && is_harmless(next_free + j, taken);
                if (good) break;
            }
            if (next_free + pattern.width <= want_.words()) {
                for (int j = 0; j < pattern.width; j++) taken[size_t(next_free + j)] = true;
                addresses[size_t(t)] = to_.base + next_free;
            } else if (next_spare + pattern.width <= spare_.end) {
                addresses[size_t(t)] = next_spare;
                next_spare += pattern.width;
            } else {
                return std::nullopt;
            }
        }
        return addresses;
    }

    bool is_harmless(int64_t a, const std::vector<bool> &taken) const {
        return !begun_[size_t(a)] && !taken[size_t(a)] && !forbidden_anywhere(want_, a);
    }

    const State &from_, &to_;
    const Contents &want_, &have_;
    Finder finder_;
    const Scratch::Range &spare_;
    const Config &config_;
    const int lanes_ = want_.lanes(), pes_ = config_.pes_per_l1b(), mabs_ = config_.mabs;
    const uint32_t all_ = mabs_ >= 32 ? all_units : (1u << mabs_) - 1;
    // For each pattern and set of MABs, the columns that it provides.
    std::map<std::pair<int, uint32_t>, std::vector<Column>> served_;
    std::vector<bool> begun_; // columns of which a step has written a word
};

} // namespace

std::optional<Hop> Hops::match_l1_down(const State &from, const State &to) {
    return L1DownMatcher(from, to, range_of(scratch, to.memory), config).match();
}

// Transfers four words of one MAB per step, in ascending address order; the words of the other
// cycles are overwritten later.
static std::optional<Hop> match_l1_up_by_fours(const State &from, const State &to, const Config &c) {
    const Contents &want = to.table, &have = from.table;
    const int lanes = want.lanes(), pes = c.pes_per_l1b();
    Finder finder(have);
    Hop made{to, {}, ""};
    for (int64_t x = 0; x < want.words();) {
        if (!required_anywhere(want, x)) {
            x++;
            continue;
        }
        bool found = false;
        // The word at x may be any of the four.
        for (int m = 0; m < c.mabs && !found; m++)
            for (int p = 0; p < 4 && !found; p++)
                for (int l = 0; l < want.units() && !found; l++) {
                    if (!requires_element(want.at(l, x), lanes)) continue;
                    const int64_t first = x - p, b = first - 4 * m;
                    if (to.base + b < 0 || to.base + b + 4 * pes > c.sizes.l1bm || first < 0) break;
                    for (const int64_t a : finder.find(l * pes + 4 * m + p, want.at(l, x))) {
                        bool fits = true;
                        for (int q = 0; q < 4 && fits; q++)
                            for (int k = 0; k < want.units() && fits; k++)
                                fits = first + q < want.words() &&
                                       satisfies(want.at(k, first + q), have.at(k * pes + 4 * m + q, a), lanes);
                        // No writes beyond the words that the move owns.
                        for (int t = 1; t < 4 && fits; t++)
                            for (int q = 0; q < 4 && fits; q++)
                                fits = first + t * pes + q < want.words() &&
                                       !forbidden_anywhere(want, first + t * pes + q);
                        if (!fits) continue;
                        made.ops.push_back(store_to_l1bm(from.memory,
                                                         {from.base + a, from.base + a, from.base + a, from.base + a},
                                                         1u << m, to.base + b));
                        x = first + 4;
                        found = true;
                        break;
                    }
                    break; // this covers the other L1Bs too
                }
        if (!found) return std::nullopt;
    }
    made.text = fmt::format("{} -> l1bm: {} l1.gather", name_of(from.memory), made.ops.size());
    return made;
}

std::optional<Hop> Hops::match_l1_up(const State &from, const State &to) {
    if (auto made = match_l1_up_whole(from, to)) return made;
    return match_l1_up_by_fours(from, to, config);
}

std::optional<Hop> Hops::match_l1_up_whole(const State &from, const State &to) {
    const Contents &want = to.table, &have = from.table;
    const int lanes = want.lanes(), pes = config.pes_per_l1b(), mabs = config.mabs;
    Finder finder(have);
    Hop made{to, {}, ""};
    std::map<std::string, int> steps;
    for (int64_t block = 0; block < want.words(); block += 4 * pes) {
        if (block + 4 * pes > want.words()) return std::nullopt;
        // For each MAB the address of each cycle; −1: nothing is required.
        std::map<std::array<int64_t, 4>, uint32_t> sets;
        for (int m = 0; m < mabs; m++) {
            std::array<int64_t, 4> at{-1, -1, -1, -1};
            bool touch = false;
            for (int t = 0; t < 4; t++) {
                const auto wanted = [&](int l1b, int p) { return want.at(l1b, block + t * pes + 4 * m + p); };
                for (int l = 0; l < want.units(); l++)
                    for (int p = 0; p < 4; p++) {
                        if (wanted(l, p)[0] == untouched) touch = true;
                        if (at[size_t(t)] >= 0 || !requires_element(wanted(l, p), lanes)) continue;
                        for (const int64_t a : finder.find(l * pes + 4 * m + p, wanted(l, p))) {
                            bool fits = true;
                            for (int k = 0; k < want.units() && fits; k++)
                                for (int q = 0; q < 4 && fits; q++)
                                    fits = satisfies(wanted(k, q), have.at(k * pes + 4 * m + q, a), lanes);
                            if (fits) {
                                at[size_t(t)] = a;
                                break;
                            }
                        }
                        if (at[size_t(t)] < 0) return std::nullopt;
                    }
            }
            if (at == std::array<int64_t, 4>{-1, -1, -1, -1}) continue;
            if (touch) return std::nullopt;
            // Joins a set whose addresses agree wherever both require one.
            bool joined = false;
            for (auto it = sets.begin(); it != sets.end() && !joined; ++it) {
                std::array<int64_t, 4> both = it->first;
                bool agree = true;
                for (size_t t = 0; t < 4; t++) {
                    if (both[t] >= 0 && at[t] >= 0) agree = agree && both[t] == at[t];
                    both[t] = std::max(both[t], at[t]);
                }
                if (!agree) continue;
                const uint32_t set = it->second | 1u << m;
                sets.erase(it);
                sets[both] |= set;
                joined = true;
            }
            if (!joined) sets[at] |= 1u << m;
        }
        const uint32_t all = mabs >= 32 ? all_units : (1u << mabs) - 1;
        for (const auto &[at, set] : sets) {
            std::array<int64_t, 4> addresses{};
            int64_t any = 0;
            for (const int64_t a : at) any = std::max(any, a);
            for (size_t t = 0; t < 4; t++) addresses[t] = from.base + (at[t] >= 0 ? at[t] : any);
            made.ops.push_back(store_to_l1bm(from.memory, addresses, set == all ? all_units : set, to.base + block));
            steps["l1.gather"]++;
        }
    }
    made.text = summary(steps, from.memory, to.memory);
    return made;
}

// ---- natural forms, called by push and pull (hops.cpp) -----------------------------------------

std::vector<Hop> push_l1_up(const State &from, int64_t base, const Config &c) {
    const int pes = c.pes_per_l1b();
    const int64_t words = round_up(from.table.words(), 4);
    Hop made{{Memory::L1bm, base, Contents(Memory::L1bm, c.total_l1bs(), words * pes, from.table.lanes())}, {}, ""};
    for (int64_t a = 0; a < from.table.words(); a++)
        for (int u = 0; u < from.table.units(); u++)
            std::copy_n(from.table.at(u, a), from.table.lanes(), made.state.table.at(u / pes, a * pes + u % pes));
    const int64_t last = from.base + from.table.words() - 1;
    for (int64_t a = 0; a < words; a += 4) {
        std::array<int64_t, 4> at{};
        for (int64_t t = 0; t < 4; t++) at[size_t(t)] = std::min(from.base + a + t, last);
        made.ops.push_back(store_to_l1bm(from.memory, at, all_units, base + a * pes));
    }
    made.text = fmt::format("{} -> l1bm: {} l1.gather", name_of(from.memory), made.ops.size());
    return {std::move(made)};
}

std::vector<Hop> push_l1_down(const State &from, Memory to, int64_t base, const Config &c) {
    const int pes = c.pes_per_l1b();
    std::vector<Hop> all;
    // Scatter: each PE receives its own part.
    {
        const int64_t words = round_up((from.table.words() + pes - 1) / pes, 4);
        if (from.base + words * pes <= c.sizes.l1bm) {
            Hop made{{to, base, Contents(to, c.total_pes(), words, from.table.lanes())}, {}, ""};
            for (int64_t x = 0; x < from.table.words(); x++)
                for (int b = 0; b < from.table.units(); b++)
                    std::copy_n(from.table.at(b, x), from.table.lanes(),
                                made.state.table.at(int(b * pes + x % pes), x / pes));
            for (int64_t a = 0; a < words; a += 4)
                made.ops.push_back(load_from_l1bm(patterns[6], from.base + a * pes, all_units, to,
                                                  {base + a, base + a + 1, base + a + 2, base + a + 3}));
            made.text = fmt::format("l1bm -> {}: {} l1.scatter", name_of(to), made.ops.size());
            all.push_back(std::move(made));
        }
    }
    // Broadcast: every PE receives everything.
    {
        const int64_t words = round_up(from.table.words(), 8);
        if (from.base + words <= c.sizes.l1bm) {
            Hop made{{to, base, Contents(to, c.total_pes(), words, from.table.lanes())}, {}, ""};
            for (int u = 0; u < c.total_pes(); u++)
                for (int64_t x = 0; x < from.table.words(); x++)
                    std::copy_n(from.table.at(u / pes, x), from.table.lanes(), made.state.table.at(u, x));
            for (int64_t a = 0; a < words; a += 8)
                made.ops.push_back(load_from_l1bm(patterns[0], from.base + a, all_units, to,
                                                  {base + a, base + a + 2, base + a + 4, base + a + 6}));
            made.text = fmt::format("l1bm -> {}: {} l1.pe.2", name_of(to), made.ops.size());
            all.push_back(std::move(made));
        }
    }
    return all;
}

std::vector<Hop> pull_l1_down(const State &to, int64_t base, const Config &c) {
    const int pes = c.pes_per_l1b(), lanes = to.table.lanes();
    std::vector<Hop> all;
    for (const int k : {0, 1, 2, 3, 4, 5, 6}) {
        const Pattern &pattern = patterns[k];
        if (pattern.op == L1Op::MabBroadcast4 && c.mabs % 4) continue;
        // Further forms would differ little.
        if (all.size() >= 2 && pattern.op != L1Op::Scatter) continue;
        if (to.table.words() % (4 * pattern.width)) continue; // steps write whole vectors
        const int64_t cycle = pattern.words(c.mabs), words = to.table.words() / pattern.width * cycle;
        Hop made{{Memory::L1bm, base, Contents(Memory::L1bm, c.total_l1bs(), words, lanes)}, {}, ""};
        bool agree = true;
        for (int64_t a = 0; a < to.table.words() && agree; a++)
            for (int u = 0; u < to.table.units() && agree; u++) {
                int32_t *want = made.state.table.at(u / pes, a / pattern.width * cycle +
                                                                 pattern.offset(u % pes, int(a % pattern.width)));
                agree = join(want, to.table.at(u, a), lanes) && to.table.at(u, a)[0] != untouched;
            }
        if (!agree) continue;
        for (int64_t a = 0; a < to.table.words(); a += 4 * pattern.width) {
            std::array<int64_t, 4> at{};
            for (int64_t t = 0; t < 4; t++) at[size_t(t)] = to.base + a + t * pattern.width;
            made.ops.push_back(load_from_l1bm(pattern, base + a / pattern.width * cycle, all_units, to.memory, at));
        }
        made.text = fmt::format("l1bm -> {}: {} {}", name_of(to.memory), made.ops.size(), pattern.name);
        all.push_back(std::move(made));
    }
    return all;
}

std::vector<Hop> pull_l1_up(const State &to, Memory memory, int64_t base, const Config &c) {
    const int pes = c.pes_per_l1b(), lanes = to.table.lanes();
    if (to.table.words() % (4 * pes)) return {};
    Hop made{{memory, base, Contents(memory, c.total_pes(), to.table.words() / pes, lanes)}, {}, ""};
    for (int b = 0; b < to.table.units(); b++)
        for (int64_t x = 0; x < to.table.words(); x++) {
            if (to.table.at(b, x)[0] == untouched) return {};
            std::copy_n(to.table.at(b, x), lanes, made.state.table.at(int(b * pes + x % pes), x / pes));
        }
    for (int64_t a = 0; a < to.table.words() / pes; a += 4)
        made.ops.push_back(
            store_to_l1bm(memory, {base + a, base + a + 1, base + a + 2, base + a + 3}, all_units, to.base + a * pes));
    made.text = fmt::format("{} -> l1bm: {} l1.gather", name_of(memory), made.ops.size());
    return {std::move(made)};
}

} // namespace kumiko::chip
