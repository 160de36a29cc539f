// Hops between L2BM and the L1BMs below it.
//
// One file for all hops between these two levels: they share the operations and the sizes.
#include "targets/chip/move/hops.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace kumiko::chip {

using namespace sim;

namespace {

MicroOp word(L2Op op, int64_t l2bm, int64_t l1bm, uint32_t l1bs, const Config &c) {
    MicroOp m;
    m.word().l2.op = op;
    m.word().l2.l2bm.at = uint16_t(l2bm);
    m.word().l2.l1bm.at = uint16_t(l1bm);
    const uint32_t all = c.l1bs >= 32 ? all_units : (1u << c.l1bs) - 1;
    if (op == L2Op::UnicastDown || op == L2Op::UnicastUp) {
        while (!(l1bs >> m.word().l2.child & 1)) m.word().l2.child++;
    } else {
        m.word().l2.l1bs = l1bs == all ? all_units : l1bs;
    }
    return m;
}

struct Sizes {
    int64_t wide;  // LW per step: broadcast, unicast
    int64_t slice; // LW of each L1BM per step: scatter and gather, in pieces
    int64_t piece;
    int64_t l1bs;
    explicit Sizes(const Config &c)
        : wide(int64_t(cycles_per_step) * c.links.l2_broadcast), slice(int64_t(cycles_per_step) * c.links.l2_scatter),
          piece(c.links.l2_scatter), l1bs(c.l1bs) {}
    // For scatter and gather: the word of L2BM for word x of L1BM l.
    int64_t scatter_source(int64_t l, int64_t x) const { return piece * l1bs * (x / piece) + piece * l + x % piece; }
};

std::string summary(const std::map<std::string, int> &steps, const char *hop) {
    std::string s;
    for (const auto &[name, n] : steps) s += fmt::format("{}{} {}", s.empty() ? "" : " + ", n, name);
    return fmt::format("{}: {}", hop, s.empty() ? "nothing" : s);
}

// Finds the steps from L2BM into L1BMs: scatters first, if they serve all L1Bs at once, then
// broadcasts to some L1Bs, each in ascending address order.
class L2DownMatcher {
public:
    L2DownMatcher(const State &from, const State &to, const Config &config)
        : from_(from), to_(to), want_(to.table), have_(from.table), finder_(have_), config_(config),
          scattered_(size_t(want_.words())) {}

    std::optional<Hop> match() {
        if (want_.words() < z_.wide) return std::nullopt;
        if (L_ > 1) find_scatters();
        for (int l = 0; l < L_; l++) {
            if (!find_broadcasts(l)) return std::nullopt;
        }
        Hop made{to_, {}, ""};
        std::map<std::string, int> steps;
        for (const auto &[step, set] : sets_) {
            made.ops.push_back(word(L2Op::Broadcast, from_.base + step.from, to_.base + step.at, set, config_));
            steps["l2.bcast"]++;
        }
        for (const auto &[a, b] : scatters_) {
            made.ops.push_back(word(L2Op::Scatter, from_.base + b, to_.base + a,
                                    config_.l1bs >= 32 ? all_units : (1u << L_) - 1, config_));
            steps["l2.scatter"]++;
        }
        made.text = summary(steps, "l2bm -> l1bm");
        return made;
    }

private:
    struct Step {
        int64_t at, from;
        auto operator<=>(const Step &) const = default;
    };

    bool has(int l2b, int64_t x, const int32_t *wanted) const {
        if (wanted[0] == untouched) return false;
        return !requires_element(wanted, lanes_) ||
               (x >= 0 && x < have_.words() && satisfies(wanted, have_.at(l2b, x), lanes_));
    }

    // The number of words from a on for which b is the source in every L2B.
    int64_t run(int l, int64_t a, int64_t b) const {
        int64_t n = 0;
        for (; n < z_.wide && a + n < want_.words(); n++)
            for (int u = 0; u < l2bs_; u++)
                if (!has(u, b + n, want_.at(u * L_ + l, a + n))) return n;
        return n;
    }

    // The first L2B in which L1B l requires a word at address a, or −1.
    int required_in(int l, int64_t a) const {
        for (int u = 0; u < l2bs_; u++)
            if (requires_element(want_.at(u * L_ + l, a), lanes_)) return u;
        return -1;
    }

    bool scatter_fits(int64_t a, int64_t first) const {
        if (from_.base + first < 0 || from_.base + first + z_.slice * L_ > config_.sizes.l2bm) return false;
        for (int v = 0; v < l2bs_; v++)
            for (int k = 0; k < L_; k++)
                for (int64_t i = 0; i < z_.slice; i++)
                    if (!has(v, first + z_.scatter_source(k, i), want_.at(v * L_ + k, a + i))) return false;
        return true;
    }

    // The word of L2BM from which a scatter serves address a of all L1Bs.
    std::optional<int64_t> scatter_source(int64_t a) {
        for (int l = 0; l < L_; l++)
            if (const int u = required_in(l, a); u >= 0)
                for (const int64_t x : finder_.find(u, want_.at(u * L_ + l, a))) {
                    const int64_t first = x - z_.scatter_source(l, 0);
                    if (scatter_fits(a, first)) return first;
                }
        return std::nullopt;
    }

    // Whether every L1B receives the same words: a broadcast transfers twice as many.
    bool all_l1bs_equal(int64_t a) const {
        for (int v = 0; v < l2bs_; v++)
            for (int k = 1; k < L_; k++)
                for (int64_t i = 0; i < z_.slice; i++)
                    if (!std::equal(want_.at(v * L_, a + i), want_.at(v * L_, a + i) + lanes_,
                                    want_.at(v * L_ + k, a + i)))
                        return false;
        return true;
    }

    void find_scatters() {
        for (int64_t a = 0; a + z_.slice <= want_.words();) {
            const auto b = scatter_source(a);
            if (!b || all_l1bs_equal(a)) {
                a++;
                continue;
            }
            scatters_.push_back({a, *b});
            std::fill_n(scattered_.begin() + a, z_.slice, true);
            a += z_.slice;
        }
    }

    // The words that a step writes beyond the useful ones are overwritten later.
    bool find_broadcasts(int l) {
        for (int64_t a = 0; a < want_.words();) {
            const int u = required_in(l, a);
            if (u < 0 || scattered_[size_t(a)]) {
                a++;
                continue;
            }
            int64_t at = a, best = -1, length = 0;
            // The last step ends with the tensor.
            if (at + z_.wide > want_.words()) at = want_.words() - z_.wide;
            for (const int64_t x : finder_.find(u, want_.at(u * L_ + l, a))) {
                const int64_t b = x - (a - at);
                if (from_.base + b < 0 || from_.base + b + z_.wide > config_.sizes.l2bm) continue;
                const int64_t n = run(l, at, b);
                if (n > length) best = b, length = n;
            }
            if (length <= a - at || (at < a && length < z_.wide)) return false;
            // Beyond the run, a step may overwrite only words that come later, and none that are
            // forbidden.
            for (int64_t i = length; i < z_.wide; i++)
                for (int v = 0; v < l2bs_; v++)
                    if (want_.at(v * L_ + l, at + i)[0] == untouched) return false;
            sets_[{at, best}] |= 1u << l;
            a = at + length;
        }
        return true;
    }

    const State &from_, &to_;
    const Contents &want_, &have_;
    Finder finder_;
    const Config &config_;
    const Sizes z_{config_};
    const int lanes_ = want_.lanes(), l2bs_ = config_.total_l2bs(), L_ = config_.l1bs;
    std::map<Step, uint32_t> sets_; // for broadcasts to some L1Bs, in address order
    std::vector<std::pair<int64_t, int64_t>> scatters_;
    std::vector<bool> scattered_; // words that a scatter writes
};

class L2UpMatcher {
public:
    L2UpMatcher(const State &from, const State &to, const Config &config)
        : from_(from), to_(to), want_(to.table), have_(from.table), finder_(from.table),
          config_(config), made_{to, {}, ""} {}

    std::optional<Hop> match() {
        for (int64_t b = 0; b < want_.words();) {
            if (first_wanted(b) < 0)
                b++;
            else if (L_ > 1 && gather(b))
                b += z_.slice * L_;
            else if (!unicast(b))
                return std::nullopt;
        }
        made_.text = summary(steps_, "l1bm -> l2bm");
        return made_;
    }

private:
    // The first L2B that requires elements at the address; −1: none.
    int first_wanted(int64_t at) const {
        for (int u = 0; u < l2bs_; u++)
            if (requires_element(want_.at(u, at), lanes_)) return u;
        return -1;
    }
    bool has(int l1b, int64_t x, const int32_t *wanted) const {
        if (wanted[0] == untouched) return false;
        return !requires_element(wanted, lanes_) ||
               (x >= 0 && x < have_.words() && satisfies(wanted, have_.at(l1b, x), lanes_));
    }

    // All L1Bs at once, each from its own address.
    bool gather(int64_t b) {
        if (b + z_.slice * L_ > want_.words()) return false;
        std::map<int64_t, uint32_t> sets;
        for (int l = 0; l < L_; l++) {
            bool any = false;
            const std::optional<int64_t> source = slice_of(l, b, any);
            if (source) sets[*source] |= 1u << l;
            if (any && !source) return false;
        }
        for (const auto &[a, set] : sets) {
            made_.ops.push_back(word(L2Op::Gather, to_.base + b, from_.base + a, set, config_));
            steps_["l2.gather"]++;
        }
        return true;
    }
    // The address of the slice that an L1B gathers to b, by the first word that is required; `any`:
    // whether one is.
    std::optional<int64_t> slice_of(int l, int64_t b, bool &any) {
        for (int64_t x = 0; x < z_.slice; x++)
            for (int u = 0; u < l2bs_; u++) {
                const int32_t *wanted = want_.at(u, b + z_.scatter_source(l, x));
                if (!requires_element(wanted, lanes_)) continue;
                any = true;
                for (const int64_t y : finder_.find(u * L_ + l, wanted))
                    if (has_slice(l, b, y - x)) return y - x;
                return std::nullopt;
            }
        return std::nullopt;
    }
    bool has_slice(int l, int64_t b, int64_t a) const {
        if (from_.base + a < 0 || from_.base + a + z_.slice > config_.sizes.l1bm) return false;
        for (int v = 0; v < l2bs_; v++)
            for (int64_t i = 0; i < z_.slice; i++)
                if (!has(v * L_ + l, a + i, want_.at(v, b + z_.scatter_source(l, i)))) return false;
        return true;
    }

    // From one L1B, as far as possible; b becomes the address behind.
    bool unicast(int64_t &b) {
        int64_t at = std::min(b, want_.words() - z_.wide), best = -1, length = 0;
        int child = 0;
        if (at < 0) return false;
        const int u = first_wanted(b);
        for (int l = 0; l < L_ && length < z_.wide; l++) {
            for (const int64_t x : finder_.find(u * L_ + l, want_.at(u, b))) {
                const int64_t a = x - (b - at);
                if (from_.base + a < 0 || from_.base + a + z_.wide > config_.sizes.l1bm) continue;
                const int64_t n = run_length(l, a, at);
                if (n > length) best = a, length = n, child = l;
            }
        }
        if (length <= b - at || (at < b && length < z_.wide)) return false;
        for (int64_t i = length; i < z_.wide; i++)
            if (forbidden_anywhere(want_, at + i)) return false;
        made_.ops.push_back(word(L2Op::UnicastUp, to_.base + at, from_.base + best, 1u << child, config_));
        steps_["l2.up"]++;
        b = at + length;
        return true;
    }
    // The words from `a` on in an L1B that all L2Bs accept at `at`.
    int64_t run_length(int l, int64_t a, int64_t at) const {
        for (int64_t n = 0; n < z_.wide; n++)
            for (int v = 0; v < l2bs_; v++)
                if (!has(v * L_ + l, a + n, want_.at(v, at + n))) return n;
        return z_.wide;
    }

    const State &from_, &to_;
    const Contents &want_, &have_;
    Finder finder_;
    const Config &config_;
    Hop made_;
    std::map<std::string, int> steps_;
    const Sizes z_{config_};
    const int lanes_ = want_.lanes(), l2bs_ = config_.total_l2bs(), L_ = config_.l1bs;
};

} // namespace

std::optional<Hop> Hops::match_l2_down(const State &from, const State &to) {
    return L2DownMatcher(from, to, config).match();
}

std::optional<Hop> Hops::match_l2_up(const State &from, const State &to) {
    return L2UpMatcher(from, to, config).match();
}

// ---- natural forms -----------------------------------------------------------------------------

std::vector<Hop> push_l2_down(const State &from, int64_t base, const Config &c) {
    const Sizes z(c);
    const int lanes = from.table.lanes(), L = c.l1bs;
    std::vector<Hop> all;
    const int64_t words = round_up(from.table.words(), z.wide);
    if (from.base + words <= c.sizes.l2bm) {
        Hop made{{Memory::L1bm, base, Contents(Memory::L1bm, c.total_l1bs(), words, lanes)}, {}, ""};
        for (int b = 0; b < c.total_l1bs(); b++)
            for (int64_t x = 0; x < from.table.words(); x++)
                std::copy_n(from.table.at(b / L, x), lanes, made.state.table.at(b, x));
        for (int64_t a = 0; a < words; a += z.wide)
            made.ops.push_back(word(L2Op::Broadcast, from.base + a, base + a, all_units, c));
        made.text = fmt::format("l2bm -> l1bm: {} l2.bcast", made.ops.size());
        all.push_back(std::move(made));
    }
    const int64_t slice = round_up((from.table.words() + L - 1) / L, z.slice);
    if (L > 1 && from.base + slice * L <= c.sizes.l2bm) {
        Hop made{{Memory::L1bm, base, Contents(Memory::L1bm, c.total_l1bs(), slice, lanes)}, {}, ""};
        for (int b = 0; b < c.total_l1bs(); b++)
            for (int64_t x = 0; x < slice; x++)
                if (const int64_t y = z.scatter_source(b % L, x); y < from.table.words())
                    std::copy_n(from.table.at(b / L, y), lanes, made.state.table.at(b, x));
        for (int64_t a = 0; a < slice; a += z.slice)
            made.ops.push_back(word(L2Op::Scatter, from.base + a * L, base + a, all_units, c));
        made.text = fmt::format("l2bm -> l1bm: {} l2.scatter", made.ops.size());
        all.push_back(std::move(made));
    }
    return all;
}

std::vector<Hop> push_l2_needed(const State &from, int64_t base, const std::vector<std::vector<bool>> &needs,
                                const Config &c) {
    const Sizes z(c);
    const Contents &have = from.table;
    const int lanes = have.lanes(), L = c.l1bs;
    if (c.sizes.l2bm < z.wide) return {};
    // Windows that begin with a needed word, the same in all L2Bs; the k-th window of each L1B goes
    // to the k-th place.
    std::vector<std::vector<int64_t>> windows(static_cast<size_t>(L));
    size_t most = 0;
    for (int l = 0; l < L; l++) {
        for (int64_t x = 0; x < have.words();) {
            bool needed = false;
            for (int u = 0; u < c.total_l2bs() && !needed; u++)
                for (int i = 0; i < lanes; i++) {
                    const int32_t e = have.at(u, x)[i];
                    const auto &set = needs[size_t(u * L + l)];
                    needed = needed || (e >= 0 && size_t(e) < set.size() && set[size_t(e)]);
                }
            if (!needed) {
                x++;
                continue;
            }
            const int64_t first = std::min(x, c.sizes.l2bm - z.wide - from.base);
            windows[size_t(l)].push_back(first);
            x = first + z.wide;
        }
        most = std::max(most, windows[size_t(l)].size());
    }
    Hop made{{Memory::L1bm, base, Contents(Memory::L1bm, c.total_l1bs(), int64_t(most) * z.wide, lanes)}, {}, ""};
    for (size_t k = 0; k < most; k++) {
        std::map<int64_t, uint32_t> sets;
        for (int l = 0; l < L; l++)
            if (k < windows[size_t(l)].size()) sets[windows[size_t(l)][k]] |= 1u << l;
        for (const auto &[first, set] : sets)
            made.ops.push_back(word(L2Op::Broadcast, from.base + first, base + int64_t(k) * z.wide, set, c));
        for (int b = 0; b < c.total_l1bs(); b++) {
            if (k >= windows[size_t(b % L)].size()) continue;
            const int64_t first = windows[size_t(b % L)][k];
            for (int64_t i = 0; i < z.wide; i++)
                if (first + i >= 0 && first + i < have.words())
                    std::copy_n(have.at(b / L, first + i), lanes, made.state.table.at(b, int64_t(k) * z.wide + i));
        }
    }
    made.text = fmt::format("l2bm -> l1bm: {} l2.bcast", made.ops.size());
    return {std::move(made)};
}

std::vector<Hop> pull_l2_down(const State &to, int64_t base, const Config &c) {
    const Sizes z(c);
    const int lanes = to.table.lanes(), L = c.l1bs;
    std::vector<Hop> all;
    for (const bool scatters : {false, true}) {
        const int64_t step = scatters ? z.slice : z.wide;
        if (to.table.words() % step || (scatters && L == 1)) continue;
        Hop made{
            {Memory::L2bm, base, Contents(Memory::L2bm, c.total_l2bs(), to.table.words() * (scatters ? L : 1), lanes)},
            {},
            ""};
        bool agree = true;
        for (int b = 0; b < to.table.units() && agree; b++)
            for (int64_t x = 0; x < to.table.words() && agree; x++)
                agree = join(made.state.table.at(b / L, scatters ? z.scatter_source(b % L, x) : x), to.table.at(b, x),
                             lanes) &&
                        to.table.at(b, x)[0] != untouched;
        if (!agree) continue;
        for (int64_t a = 0; a < to.table.words(); a += step)
            made.ops.push_back(word(scatters ? L2Op::Scatter : L2Op::Broadcast, base + a * (scatters ? L : 1),
                                    to.base + a, all_units, c));
        made.text = fmt::format("l2bm -> l1bm: {} {}", made.ops.size(), scatters ? "l2.scatter" : "l2.bcast");
        all.push_back(std::move(made));
        break; // a broadcast is never slower
    }
    return all;
}

std::vector<Hop> push_l2_up(const State &from, int64_t base, const Config &c) {
    const Sizes z(c);
    const int lanes = from.table.lanes(), L = c.l1bs;
    const int64_t words = round_up(from.table.words(), z.slice);
    if (from.base + words > c.sizes.l1bm) return {};
    Hop made{{Memory::L2bm, base, Contents(Memory::L2bm, c.total_l2bs(), words * L, lanes)}, {}, ""};
    for (int b = 0; b < c.total_l1bs(); b++)
        for (int64_t x = 0; x < from.table.words(); x++)
            std::copy_n(from.table.at(b, x), lanes, made.state.table.at(b / L, z.scatter_source(b % L, x)));
    for (int64_t a = 0; a < words; a += z.slice)
        made.ops.push_back(word(L2Op::Gather, base + a * L, from.base + a, all_units, c));
    made.text = fmt::format("l1bm -> l2bm: {} l2.gather", made.ops.size());
    return {std::move(made)};
}

std::vector<Hop> pull_l2_up(const State &to, int64_t base, const Config &c) {
    const Sizes z(c);
    const int lanes = to.table.lanes(), L = c.l1bs;
    std::vector<Hop> all;
    for (int u = 0; u < to.table.units(); u++)
        for (int64_t x = 0; x < to.table.words(); x++)
            if (to.table.at(u, x)[0] == untouched) return all;
    if (to.table.words() % (z.slice * L) == 0 && L > 1) {
        const int64_t words = to.table.words() / L;
        Hop made{{Memory::L1bm, base, Contents(Memory::L1bm, c.total_l1bs(), words, lanes)}, {}, ""};
        for (int b = 0; b < c.total_l1bs(); b++)
            for (int64_t x = 0; x < words; x++)
                std::copy_n(to.table.at(b / L, z.scatter_source(b % L, x)), lanes, made.state.table.at(b, x));
        for (int64_t a = 0; a < words; a += z.slice)
            made.ops.push_back(word(L2Op::Gather, to.base + a * L, base + a, all_units, c));
        made.text = fmt::format("l1bm -> l2bm: {} l2.gather", made.ops.size());
        all.push_back(std::move(made));
    }
    if (to.table.words() % z.wide == 0) {
        Hop made{{Memory::L1bm, base, Contents(Memory::L1bm, c.total_l1bs(), to.table.words(), lanes)}, {}, ""};
        for (int u = 0; u < to.table.units(); u++)
            for (int64_t x = 0; x < to.table.words(); x++)
                std::copy_n(to.table.at(u, x), lanes, made.state.table.at(u * L, x));
        for (int64_t a = 0; a < to.table.words(); a += z.wide)
            made.ops.push_back(word(L2Op::UnicastUp, to.base + a, base + a, 1, c));
        made.text = fmt::format("l1bm -> l2bm: {} l2.up", made.ops.size());
        all.push_back(std::move(made));
    }
    return all;
}

std::vector<Hop> pull_l2_up_owned(const State &to, int64_t base, const std::vector<std::vector<bool>> &owned,
                                  const Config &c) {
    const Sizes z(c);
    const Contents &want = to.table;
    const int lanes = want.lanes(), L = c.l1bs, l2bs = c.total_l2bs();
    if (want.words() % z.wide) return {};
    struct Stretch {
        int64_t at;
        int l1b;
        int64_t place;
    };
    std::vector<Stretch> stretches;
    std::vector<int64_t> next(static_cast<size_t>(L));
    for (int64_t at = 0; at < want.words(); at += z.wide) {
        bool any = false;
        std::vector<bool> can(static_cast<size_t>(L), true);
        for (int u = 0; u < l2bs; u++)
            for (int64_t i = 0; i < z.wide; i++)
                for (int k = 0; k < lanes; k++) {
                    const int32_t e = want.at(u, at + i)[k];
                    if (e == untouched) return {};
                    if (e < 0) continue;
                    any = true;
                    for (int l = 0; l < L; l++) {
                        const auto &set = owned[size_t(u * L + l)];
                        if (size_t(e) >= set.size() || !set[size_t(e)]) can[size_t(l)] = false;
                    }
                }
        if (!any) continue;
        // Of the L1Bs that have it, the one with the fewest words to send so far.
        int best = -1;
        for (int l = 0; l < L; l++)
            if (can[size_t(l)] && (best < 0 || next[size_t(l)] < next[size_t(best)])) best = l;
        if (best < 0) return {};
        stretches.push_back({at, best, next[size_t(best)]});
        next[size_t(best)] += z.wide;
    }
    const int64_t words = *std::max_element(next.begin(), next.end());
    Hop made{{Memory::L1bm, base, Contents(Memory::L1bm, c.total_l1bs(), words, lanes)}, {}, ""};
    for (const Stretch &s : stretches) {
        for (int u = 0; u < l2bs; u++)
            for (int64_t i = 0; i < z.wide; i++)
                std::copy_n(want.at(u, s.at + i), lanes, made.state.table.at(u * L + s.l1b, s.place + i));
        made.ops.push_back(word(L2Op::UnicastUp, to.base + s.at, base + s.place, 1u << s.l1b, c));
    }
    made.text = fmt::format("l1bm -> l2bm: {} l2.up", made.ops.size());
    return {std::move(made)};
}

} // namespace kumiko::chip
