// Hops between DRAM or PDM and the L2BMs, and among L2BMs: moves that execute in parallel with the
// instruction stream.
//
// One file for all of these hops: they share the runs of words that one move takes.
#include "targets/chip/move/hops.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

namespace {

// A dense run: `words` LW (a multiple of 64) at `memory` in the group, at `l2bm` in the L2B.
struct Run {
    int group, l2b;
    int64_t memory, l2bm, words;
};

struct Set {
    bool chip;
    uint16_t groups;
    uint32_t l2bs;
    bool operator==(const Set &) const = default;
};

// Runs of equal length at a constant stride become blocks of one move; equal runs for several L2Bs
// become one move to a set.
struct Blocks {
    Set set;
    int64_t memory, l2bm, words, stride = 0;
    int64_t count = 1;
};

std::vector<Blocks> blocks_of(const std::vector<Run> &runs, bool load, const Config &c) {
    std::vector<Blocks> all;
    for (const Run &r : runs) {
        const bool own = r.l2b / c.l2bs == r.group;
        bool joined = false;
        // The same words to another L2B of the group, or to another group from its own memory.
        for (auto it = all.rbegin(); it != all.rend() && !joined; ++it) {
            if (it->memory != r.memory || it->l2bm != r.l2bm || it->words != r.words || it->set.chip != !own) continue;
            if (it->set.l2bs >> r.l2b & 1) continue;
            const bool same_group = it->set.groups == 1u << r.group;
            if (load && same_group && it->set.chip) {
                it->set.l2bs |= 1u << r.l2b;
                joined = true;
            } else if (own && (load || !(it->set.groups >> r.group & 1))) {
                it->set.groups |= uint16_t(1u << r.group);
                it->set.l2bs |= 1u << r.l2b;
                joined = true;
            }
        }
        if (!joined) all.push_back({{!own, uint16_t(1u << r.group), 1u << r.l2b}, r.memory, r.l2bm, r.words});
    }
    // All participating groups must have the same number of L2Bs; otherwise each gets its own move.
    std::vector<Blocks> even;
    for (const Blocks &b : all) {
        int most = 0, least = 99;
        for (int g = 0; g < c.groups; g++) {
            if (!(b.set.groups >> g & 1)) continue;
            int n = 0;
            for (int u = 0; u < c.l2bs; u++) n += b.set.l2bs >> (g * c.l2bs + u) & 1;
            most = std::max(most, n), least = std::min(least, n);
        }
        if (b.set.chip || most == least) {
            even.push_back(b);
            continue;
        }
        for (int g = 0; g < c.groups; g++) {
            if (!(b.set.groups >> g & 1)) continue;
            Blocks own = b;
            own.set.groups = uint16_t(1u << g);
            own.set.l2bs = b.set.l2bs & (((1u << c.l2bs) - 1) << (g * c.l2bs));
            even.push_back(own);
        }
    }
    std::vector<Blocks> out;
    for (const Blocks &b : even) {
        bool joined = false;
        for (auto it = out.rbegin(); it != out.rend() && !joined; ++it) {
            if (!(it->set == b.set) || it->words != b.words) continue;
            if (it->l2bm + it->count * it->words != b.l2bm) continue;
            const int64_t stride = b.memory - (it->memory + (it->count - 1) * it->stride);
            if (it->count > 1 && stride != it->stride) continue;
            if (stride % c.moves.granule || stride < INT32_MIN || stride > INT32_MAX || it->count == 65535) continue;
            if (!load && std::abs(stride) < b.words) continue;
            it->stride = stride;
            it->count++;
            joined = true;
        }
        if (!joined) out.push_back(b);
    }
    return out;
}

// Emits the moves with a common tag, and a wait.
void moves(const std::vector<Run> &runs, Memory memory, bool load, int tag, const Config &c, Hop &made) {
    const std::vector<Blocks> all = blocks_of(runs, load, c);
    for (const Blocks &b : all) {
        MicroOp op;
        Mv &m = op.word().mv;
        m.op = load ? MvOp::Broadcast : MvOp::Gather;
        m.chip = b.set.chip;
        m.pdm = memory == Memory::Pdm;
        m.tag = uint8_t(tag);
        m.groups = b.set.groups;
        m.l2bs = b.set.l2bs;
        m.address = uint32_t(b.memory);
        m.stride = int32_t(b.count > 1 ? b.stride : 0);
        m.blocks = uint16_t(b.count);
        m.size = uint16_t(b.words / c.moves.block);
        m.l2bm = uint16_t(b.l2bm);
        made.ops.push_back(op);
    }
    if (!all.empty()) {
        MicroOp op;
        op.word().control.wait = uint8_t(tag);
        made.ops.push_back(op);
    }
    made.text = fmt::format("{} -> {}: {} {}", load ? name_of(memory) : "l2bm", load ? "l2bm" : name_of(memory),
                            all.size(), load ? "mv.bcast" : "mv.gather");
}

constexpr int64_t max_blocks = 65535; // of 64 LW in one block

} // namespace

std::optional<Hop> Hops::match_in(const State &from, const State &to) {
    const Contents &want = to.table, &have = from.table;
    const int lanes = want.lanes();
    const int64_t block = config.moves.block, granule = config.moves.granule;
    const int64_t size = size_of(from.memory, config);
    Finder finder(have);
    std::vector<Run> runs;
    for (int u = 0; u < want.units(); u++) {
        for (int64_t a = 0; a < want.words();) {
            if (!requires_element(want.at(u, a), lanes)) {
                a++;
                continue;
            }
            Run best{0, u, 0, a, 0};
            // The unit's own group first, so that all groups work in parallel.
            for (int i = 0; i < config.groups && best.words == 0; i++) {
                const int g = (u / config.l2bs + i) % config.groups;
                for (const int64_t b : finder.find(g, want.at(u, a))) {
                    if ((from.base + b) % granule) continue;
                    int64_t n = 0;
                    while (a + n < want.words() && n < block * max_blocks && from.base + b + n < size &&
                           want.at(u, a + n)[0] != untouched &&
                           (!requires_element(want.at(u, a + n), lanes) ||
                            (b + n < have.words() && satisfies(want.at(u, a + n), have.at(g, b + n), lanes))))
                        n++;
                    // Not beyond the last required word, rounded up to whole blocks.
                    int64_t used = n;
                    while (used > 0 && !requires_element(want.at(u, a + used - 1), lanes)) used--;
                    const int64_t length = round_up(used, block) <= n ? round_up(used, block) : n / block * block;
                    if (length > best.words) best = {g, u, from.base + b, to.base + a, length};
                }
            }
            if (best.words == 0) return std::nullopt;
            runs.push_back(best);
            a += best.words;
        }
    }
    const auto t = tag();
    if (!t && !runs.empty()) return std::nullopt;
    Hop made{to, {}, ""};
    moves(runs, from.memory, true, t.value_or(0), config, made);
    return made;
}

std::optional<Hop> Hops::match_out(const State &from, const State &to) {
    const Contents &want = to.table, &have = from.table;
    const int lanes = want.lanes();
    const int64_t block = config.moves.block, granule = config.moves.granule;
    Finder finder(have);
    std::vector<Run> runs;
    for (int g = 0; g < want.units(); g++) {
        for (int64_t b = 0; b < want.words();) {
            if (!requires_element(want.at(g, b), lanes)) {
                b++;
                continue;
            }
            int64_t at = b - (to.base + b) % granule; // padding in front may be written too
            if (at < 0) return std::nullopt;
            Run best{g, 0, to.base + at, 0, 0};
            for (int i = 0; i < config.total_l2bs() && best.words == 0; i++) {
                const int u = (g * config.l2bs + i) % config.total_l2bs();
                for (const int64_t x : finder.find(u, want.at(g, b))) {
                    const int64_t a = x - (b - at);
                    if (from.base + a < 0) continue;
                    int64_t n = 0;
                    while (at + n < want.words() && n < block * max_blocks && from.base + a + n < config.sizes.l2bm &&
                           want.at(g, at + n)[0] != untouched &&
                           (!requires_element(want.at(g, at + n), lanes) ||
                            (a + n >= 0 && a + n < have.words() &&
                             satisfies(want.at(g, at + n), have.at(u, a + n), lanes))))
                        n++;
                    int64_t used = n;
                    while (used > 0 && !requires_element(want.at(g, at + used - 1), lanes)) used--;
                    const int64_t length = round_up(used, block) <= n ? round_up(used, block) : n / block * block;
                    if (length > best.words && length > b - at) best = {g, u, to.base + at, from.base + a, length};
                }
            }
            if (best.words == 0) return std::nullopt;
            // Words before it must not be overwritten by an earlier run.
            if (!runs.empty() && runs.back().group == g && runs.back().memory + runs.back().words > best.memory)
                return std::nullopt;
            runs.push_back(best);
            b = at + best.words;
        }
    }
    const auto t = tag();
    if (!t && !runs.empty()) return std::nullopt;
    Hop made{to, {}, ""};
    moves(runs, to.memory, false, t.value_or(0), config, made);
    return made;
}

// ---- natural forms -----------------------------------------------------------------------------

// The nonempty blocks, packed: of each L2B's own group, or (`everything`) of all groups in every
// L2B.
std::vector<Hop> push_in(const State &from, int64_t base, bool everything, std::optional<int> tag, const Config &c) {
    if (!tag) return {};
    const int lanes = from.table.lanes();
    const int64_t block = c.moves.block, size = size_of(from.memory, c);
    struct Piece {
        int group;
        int64_t at, words; // in the table, which begins at from.base
    };
    std::vector<Piece> pieces;
    const auto used = [&](int g, int64_t a) {
        if (everything) return a < from.table.words() && requires_element(from.table.at(g, a), lanes);
        return a < from.table.words() && required_anywhere(from.table, a);
    };
    for (int g = 0; g < (everything ? c.groups : 1); g++)
        for (int64_t a = -(from.base % c.moves.granule); a < from.table.words();) {
            if (a >= 0 ? !used(g, a) : true) {
                bool soon = false; // whether the granule contains anything
                for (int64_t i = 0; i < c.moves.granule; i++) soon = soon || (a + i >= 0 && used(g, a + i));
                if (!soon) {
                    a += c.moves.granule;
                    continue;
                }
            }
            int64_t at = a;
            if (from.base + at + block > size) at = size - block - from.base;
            if (!pieces.empty() && pieces.back().group == g && pieces.back().at + pieces.back().words == at)
                pieces.back().words += block;
            else
                pieces.push_back({g, at, block});
            a = at + block;
        }
    int64_t words = 0;
    for (const Piece &p : pieces) words += p.words;
    Hop made{{Memory::L2bm, base, Contents(Memory::L2bm, c.total_l2bs(), words, lanes)}, {}, ""};
    std::vector<Run> runs;
    for (int u = 0; u < c.total_l2bs(); u++) {
        int64_t at = 0;
        for (const Piece &p : pieces) {
            const int g = everything ? p.group : u / c.l2bs;
            for (int64_t i = 0; i < p.words; i++)
                if (p.at + i >= 0 && p.at + i < from.table.words())
                    std::copy_n(from.table.at(g, p.at + i), lanes, made.state.table.at(u, at + i));
            runs.push_back({g, u, from.base + p.at, base + at, p.words});
            at += p.words;
        }
    }
    moves(runs, from.memory, true, *tag, c, made);
    return {std::move(made)};
}

std::vector<Hop> push_in_needed(const State &from, int64_t base, const std::vector<std::vector<bool>> &needs,
                                std::optional<int> tag, const Config &c) {
    if (!tag) return {};
    const Contents &have = from.table;
    const int lanes = have.lanes();
    const int64_t block = c.moves.block, granule = c.moves.granule, size = size_of(from.memory, c);
    std::vector<Run> runs;
    int64_t words = 0;
    for (int u = 0; u < c.total_l2bs(); u++) {
        std::vector<bool> left = needs[size_t(u)];
        int64_t at = 0;
        for (int i = 0; i < c.groups; i++) {
            const int g = (u / c.l2bs + i) % c.groups;
            for (int64_t x = 0; x < have.words();) {
                bool needed = false;
                for (int l = 0; l < lanes; l++) {
                    const int32_t e = have.at(g, x)[l];
                    needed = needed || (e >= 0 && size_t(e) < left.size() && left[size_t(e)]);
                }
                if (!needed) {
                    x++;
                    continue;
                }
                int64_t first = x - (from.base + x) % granule;
                if (from.base + first + block > size) first = size - block - from.base;
                if (!runs.empty() && runs.back().group == g && runs.back().l2b == u &&
                    runs.back().memory + runs.back().words == from.base + first)
                    runs.back().words += block;
                else
                    runs.push_back({g, u, from.base + first, base + at, block});
                for (int64_t k = first; k < first + block; k++)
                    for (int l = 0; l < lanes && k >= 0 && k < have.words(); l++)
                        if (const int32_t e = have.at(g, k)[l]; e >= 0 && size_t(e) < left.size())
                            left[size_t(e)] = false;
                at += block;
                x = first + block;
            }
        }
        words = std::max(words, at);
    }
    Hop made{{Memory::L2bm, base, Contents(Memory::L2bm, c.total_l2bs(), words, lanes)}, {}, ""};
    for (const Run &r : runs)
        for (int64_t k = 0; k < r.words; k++)
            if (const int64_t x = r.memory - from.base + k; x >= 0 && x < have.words())
                std::copy_n(have.at(r.group, x), lanes, made.state.table.at(r.l2b, r.l2bm - base + k));
    moves(runs, from.memory, true, *tag, c, made);
    return {std::move(made)};
}

// The start addresses of blocks of 64 LW that cover everything required in the group; nullopt if
// one would write forbidden words.
static std::optional<std::vector<int64_t>> blocks_out(const State &to, int group, const Config &c) {
    const Contents &want = to.table;
    std::vector<int64_t> starts;
    bool keeps = false;
    for (int64_t b = 0; b < want.words(); b++) keeps = keeps || want.at(group, b)[0] == untouched;
    for (int64_t b = 0; b < want.words();) {
        if (!requires_element(want.at(group, b), want.lanes())) {
            b++;
            continue;
        }
        const int64_t first = keeps ? b - (to.base + b) % c.moves.granule : b / c.moves.block * c.moves.block;
        if (first < 0 || first + c.moves.block > want.words()) return std::nullopt;
        if (!starts.empty() && starts.back() + c.moves.block > first) return std::nullopt;
        for (int64_t x = first; x < first + c.moves.block; x++)
            for (int l = 0; l < want.lanes(); l++)
                if (want.at(group, x)[l] == untouched) return std::nullopt;
        starts.push_back(first);
        b = first + c.moves.block;
    }
    return starts;
}

std::vector<Hop> pull_out(const State &to, int64_t base, std::optional<int> tag, const Config &c) {
    if (!tag || to.base % c.moves.granule) return {};
    const int lanes = to.table.lanes();
    const int64_t block = c.moves.block;
    std::vector<std::vector<int64_t>> starts;
    size_t most = 0;
    for (int g = 0; g < to.table.units(); g++) {
        auto s = blocks_out(to, g, c);
        if (!s) return {};
        most = std::max(most, s->size());
        starts.push_back(std::move(*s));
    }
    Hop made{{Memory::L2bm, base, Contents(Memory::L2bm, c.total_l2bs(), int64_t(most) * block, lanes)}, {}, ""};
    std::vector<Run> runs;
    for (int g = 0; g < to.table.units(); g++)
        for (size_t k = 0; k < starts[size_t(g)].size(); k++) {
            const int64_t b = starts[size_t(g)][k], at = int64_t(k) * block;
            for (int64_t i = 0; i < block; i++)
                std::copy_n(to.table.at(g, b + i), lanes, made.state.table.at(g * c.l2bs, at + i));
            if (!runs.empty() && runs.back().group == g && runs.back().memory + runs.back().words == to.base + b)
                runs.back().words += block;
            else
                runs.push_back({g, g * c.l2bs, to.base + b, base + at, block});
        }
    moves(runs, to.memory, false, *tag, c, made);
    return {std::move(made)};
}

std::vector<Hop> pull_out_owned(const State &to, int64_t base, const std::vector<std::vector<bool>> &owned,
                                std::optional<int> tag, const Config &c) {
    if (!tag || to.base % c.moves.granule || c.total_l2bs() == 1) return {};
    const Contents &want = to.table;
    const int lanes = want.lanes();
    const int64_t block = c.moves.block;
    std::vector<int64_t> next(static_cast<size_t>(c.total_l2bs()));
    std::vector<Run> runs;
    for (int g = 0; g < want.units(); g++) {
        const auto starts = blocks_out(to, g, c);
        if (!starts) return {};
        for (const int64_t b : *starts) {
            std::vector<bool> can(next.size(), true);
            for (int64_t i = 0; i < block; i++)
                for (int l = 0; l < lanes; l++) {
                    const int32_t e = want.at(g, b + i)[l];
                    for (size_t u = 0; u < can.size() && e >= 0; u++)
                        if (size_t(e) >= owned[u].size() || !owned[u][size_t(e)]) can[u] = false;
                }
            int best = -1; // the group's own L2B first
            for (int i = 0; i < c.total_l2bs(); i++)
                if (const int u = (g * c.l2bs + i) % c.total_l2bs(); best < 0 && can[size_t(u)]) best = u;
            if (best < 0) return {};
            int64_t &place = next[size_t(best)];
            if (!runs.empty() && runs.back().group == g && runs.back().l2b == best &&
                runs.back().memory + runs.back().words == to.base + b &&
                runs.back().l2bm + runs.back().words == base + place)
                runs.back().words += block;
            else
                runs.push_back({g, best, to.base + b, base + place, block});
            place += block;
        }
    }
    Hop made{{Memory::L2bm, base,
              Contents(Memory::L2bm, c.total_l2bs(), *std::max_element(next.begin(), next.end()), lanes)},
             {},
             ""};
    for (const Run &r : runs)
        for (int64_t i = 0; i < r.words && r.memory - to.base + i < want.words(); i++)
            std::copy_n(want.at(r.group, r.memory - to.base + i), lanes, made.state.table.at(r.l2b, r.l2bm - base + i));
    moves(runs, to.memory, false, *tag, c, made);
    return {std::move(made)};
}

// All-gather: every L2B receives the words of every L2B, one after the other.
std::vector<Hop> push_across(const State &from, int64_t base, std::optional<int> tag, const Config &c) {
    if (!tag) return {};
    const int lanes = from.table.lanes(), units = c.total_l2bs();
    const int64_t words = round_up(from.table.words(), c.moves.block);
    if (from.base + words > c.sizes.l2bm || words / c.moves.block > max_blocks) return {};
    Hop made{{Memory::L2bm, base, Contents(Memory::L2bm, units, words * units, lanes)}, {}, ""};
    int count = 0;
    for (int u = 0; u < units; u++) {
        bool any = false;
        for (int64_t a = 0; a < from.table.words(); a++) any = any || requires_element(from.table.at(u, a), lanes);
        if (!any) continue;
        for (int v = 0; v < units; v++)
            for (int64_t a = 0; a < from.table.words(); a++)
                std::copy_n(from.table.at(u, a), lanes, made.state.table.at(v, u * words + a));
        MicroOp op;
        op.word().mv.op = MvOp::Copy;
        op.word().mv.tag = uint8_t(*tag);
        op.word().mv.child = uint8_t(u);
        op.word().mv.size = uint16_t(words / c.moves.block);
        op.word().mv.l2bm = uint16_t(from.base);
        op.word().mv.to = uint16_t(base + u * words);
        made.ops.push_back(op);
        count++;
    }
    if (count) {
        MicroOp op;
        op.word().control.wait = uint8_t(*tag);
        made.ops.push_back(op);
    }
    made.text = fmt::format("l2bm -> l2bm: {} mv.copy", count);
    return {std::move(made)};
}

} // namespace kumiko::chip
