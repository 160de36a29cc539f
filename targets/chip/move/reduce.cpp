#include "targets/chip/move/reduce.h"

#include "sim/operations.h"
#include "targets/chip/move/hops.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace kumiko::chip {

using namespace sim;

namespace {

// Elements without the axis, and for each the set of axis indices that it combines.
struct Parts {
    State state;
    Contents sets; // numbers in `Reducer::members`
};

class Reducer {
public:
    Reducer(const Placement &from, const MoveReduction &r, const Scratch &scratch, const Config &config)
        : c(config), placement_(from), reduction_(r), left_(scratch) {}

    Reduced run() {
        const auto &axes = placement_.layout.axes();
        if (reduction_.axis < 0 || size_t(reduction_.axis) >= axes.size())
            throw UserError(fmt::format("{} has no axis {} to reduce", placement_.to_string(), reduction_.axis));
        const bool integers = reduction_.operation >= Reduction::AddI32;
        if (placement_.layout.type() != (integers ? ElementType::I32 : ElementType::F32))
            throw UserError(fmt::format("{} cannot be reduced by {}: reductions of the tree are of f32 and i32",
                                        placement_.to_string(), kumiko::sim::name_of(reduction_.operation)));
        Parts parts = first();
        while (!complete(parts)) {
            const int level = rank_of(parts.state.memory);
            if (level == 3)
                parts = from_pes(parts);
            else if (level == 2)
                parts = from_l1bs(parts);
            else if (level == 1)
                parts = from_l2bs(parts);
            else
                unsupported("parts in DRAM; they must be in memories of the chip");
        }
        return {std::move(parts.state), std::move(ops_), std::move(texts_), left_};
    }

private:
    const Config &c;
    const Placement &placement_;
    const MoveReduction &reduction_;
    Scratch left_;
    Ops ops_;
    std::vector<std::string> texts_;
    std::map<std::vector<int>, int32_t> numbers_;
    std::vector<std::vector<int>> members_;

    [[noreturn]] void unsupported(const std::string &what) const {
        throw Unsupported(fmt::format("{}: a reduction over axis {} with {}; the axis can be on MAB, L1B, L2B and G "
                                      "only, each reduced completely",
                                      placement_.to_string(), reduction_.axis, what));
    }
    int32_t number_of(std::vector<int> set) {
        const auto [it, fresh] = numbers_.try_emplace(set, int32_t(members_.size()));
        if (fresh) members_.push_back(std::move(set));
        return it->second;
    }
    int64_t extent() const { return placement_.layout.axes()[size_t(reduction_.axis)].extent; }

    Parts first() {
        const Contents all = contents(placement_, c);
        int64_t inner = 1;
        for (size_t a = size_t(reduction_.axis) + 1; a < placement_.layout.rank(); a++)
            inner *= placement_.layout.axes()[a].extent;
        Parts p{{placement_.memory, placement_.base, all}, all};
        for (int u = 0; u < all.units(); u++)
            for (int64_t x = 0; x < all.words(); x++)
                for (int l = 0; l < all.lanes(); l++) {
                    const int32_t e = all.at(u, x)[l];
                    if (e < 0) continue;
                    p.state.table.at(u, x)[l] = int32_t(e / (inner * extent()) * inner + e % inner);
                    p.sets.at(u, x)[l] = number_of({int(e / inner % extent())});
                }
        return p;
    }
    bool complete(const Parts &p) const {
        for (int u = 0; u < p.sets.units(); u++)
            for (int64_t x = 0; x < p.sets.words(); x++)
                for (int l = 0; l < p.sets.lanes(); l++)
                    if (p.state.table.at(u, x)[l] >= 0 &&
                        int64_t(members_[size_t(p.sets.at(u, x)[l])].size()) != extent())
                        return false;
        return true;
    }
    int64_t reserve(Memory memory, int64_t words) {
        Scratch::Range &r = range_of(left_, memory);
        if (r.words() < words)
            throw Unsupported(
                fmt::format("{}: a reduction over axis {}: it would take {} LW of scratch in {}, which has {}",
                            placement_.to_string(), reduction_.axis, words, name_of(memory), r.words()));
        const int64_t base = r.begin;
        r.begin += words;
        return base;
    }

    // Combines a word of `more` into `into`; false if they are parts of different elements or share
    // an index.
    bool combine(Parts &into, int unit, int64_t at, const Parts &more, int from, int64_t from_at) {
        for (int l = 0; l < more.sets.lanes(); l++) {
            const int32_t e = more.state.table.at(from, from_at)[l];
            if (e < 0) continue;
            int32_t &there = into.state.table.at(unit, at)[l], &set = into.sets.at(unit, at)[l];
            if (there < 0) {
                there = e, set = more.sets.at(from, from_at)[l];
                continue;
            }
            if (there != e) return false;
            std::vector<int> both = members_[size_t(set)];
            const auto &own = members_[size_t(more.sets.at(from, from_at)[l])];
            both.insert(both.end(), own.begin(), own.end());
            std::sort(both.begin(), both.end());
            if (std::adjacent_find(both.begin(), both.end()) != both.end()) return false;
            set = number_of(std::move(both));
        }
        return true;
    }
    // The units, of `count` below each unit above, that hold anything; the same set everywhere.
    uint32_t holders(const Parts &p, int count, int inside) const {
        uint32_t set = 0;
        for (int u = 0; u < p.state.table.units(); u++)
            for (int64_t x = 0; x < p.state.table.words(); x++)
                if (requires_element(p.state.table.at(u, x), p.state.table.lanes())) set |= 1u << (u / inside % count);
        return set;
    }
    static bool complete_count(uint32_t set, int count) { return set == (count >= 32 ? all_units : (1u << count) - 1); }

    Parts empty(Memory memory, int64_t base, int64_t words, int lanes) const {
        const Contents none(memory, units_of(memory, c), words, lanes);
        return {{memory, base, none}, none};
    }
    // A push that combines nothing, applied to the elements and to their sets.
    template<typename Push>
    Parts pushed(const Parts &p, Memory memory, Push &&push) {
        const int64_t probe = range_of(left_, memory).begin;
        std::vector<Hop> moved = push(p.state, probe);
        if (moved.empty()) unsupported(fmt::format("too little room in {}", name_of(p.state.memory)));
        State sets = p.state;
        sets.table = p.sets;
        std::vector<Hop> moved_sets = push(sets, probe);
        reserve(memory, moved.front().state.table.words());
        ops_.insert(ops_.end(), moved.front().ops.begin(), moved.front().ops.end());
        texts_.push_back(moved.front().text);
        return {moved.front().state, moved_sets.front().state.table};
    }

    Parts from_pes(const Parts &p) {
        const int pes = c.pes_per_l1b(), lanes = p.sets.lanes();
        const uint32_t set = holders(p, c.mabs, pes_per_mab);
        const int64_t words = round_up(p.state.table.words(), 4);
        const int w = words % 8 == 0 ? 2 : 1;
        Parts made = empty(Memory::L1bm, 0, words * 4, lanes);
        for (int u = 0; u < p.state.table.units(); u++)
            for (int64_t a = 0; a < p.state.table.words(); a++)
                if (!combine(made, u / pes, a / w * 4 * w + w * (u % 4) + a % w, p, u, a)) {
                    const auto &config = c;
                    return pushed(p, Memory::L1bm, [&](const State &s, int64_t b) { return push_l1_up(s, b, config); });
                }
        made.state.base = reserve(Memory::L1bm, round_up(words * 4, grain_of(Memory::L1bm, c)));
        const int64_t last = p.state.base + p.state.table.words() - 1;
        for (int64_t a = 0; a < words; a += 4 * w) {
            MicroOp op;
            op.word().l1.op = L1Op::MabReduce;
            op.word().l1.reduction = reduction_.operation;
            op.word().l1.width = uint8_t(w);
            op.word().l1.mabs = complete_count(set, c.mabs) ? all_units : set;
            op.word().l1.at.at = uint16_t(made.state.base + a * 4);
            std::array<int64_t, 4> at{};
            for (int t = 0; t < 4; t++) at[size_t(t)] = std::min(p.state.base + a + w * t, last + 1 - w);
            op.word().l1.from = op.word().read(port(p.state.memory, at));
            ops_.push_back(std::move(op));
        }
        texts_.push_back(fmt::format("{} -> l1bm: {} l1.reduce", name_of(p.state.memory), words / (4 * w)));
        return made;
    }

    Parts from_l1bs(const Parts &p) {
        const int64_t wide = int64_t(cycles_per_step) * c.links.l2_broadcast,
                      words = round_up(p.state.table.words(), wide);
        const uint32_t set = holders(p, c.l1bs, 1);
        Parts made = empty(Memory::L2bm, 0, words, p.sets.lanes());
        bool fits = p.state.base + words <= c.sizes.l1bm;
        for (int u = 0; u < p.state.table.units() && fits; u++)
            for (int64_t x = 0; x < p.state.table.words() && fits; x++) fits = combine(made, u / c.l1bs, x, p, u, x);
        if (!fits) {
            const auto &config = c;
            return pushed(p, Memory::L2bm, [&](const State &s, int64_t b) { return push_l2_up(s, b, config); });
        }
        made.state.base = reserve(Memory::L2bm, round_up(words, grain_of(Memory::L2bm, c)));
        for (int64_t x = 0; x < words; x += wide) {
            MicroOp op;
            op.word().l2.op = L2Op::Reduce;
            op.word().l2.reduction = reduction_.operation;
            op.word().l2.l1bs = complete_count(set, c.l1bs) ? all_units : set;
            op.word().l2.l2bm.at = uint16_t(made.state.base + x);
            op.word().l2.l1bm.at = uint16_t(p.state.base + x);
            ops_.push_back(std::move(op));
        }
        texts_.push_back(fmt::format("l1bm -> l2bm: {} l2.reduce", words / wide));
        return made;
    }

    // Combines among the L2Bs of the chip that hold parts of the same elements.
    Parts from_l2bs(const Parts &p) {
        if (left_.tag_begin >= left_.tag_end) unsupported("no tag for moves among L2BMs");
        const int64_t words = round_up(p.state.table.words(), c.moves.block);
        if (p.state.base + words > c.sizes.l2bm) unsupported("too little room in l2bm");
        const int units = c.total_l2bs();
        Parts made = empty(Memory::L2bm, reserve(Memory::L2bm, round_up(words, grain_of(Memory::L2bm, c))), words,
                           p.sets.lanes());
        std::vector<bool> done(static_cast<size_t>(units));
        int moves = 0;
        for (int u = 0; u < units; u++) {
            if (done[size_t(u)]) continue;
            // Include the L2Bs whose parts combine with this one's.
            uint32_t set = 0;
            for (int v = u; v < units; v++) {
                bool any = false;
                for (int64_t x = 0; x < p.state.table.words(); x++)
                    any = any || requires_element(p.state.table.at(v, x), p.sets.lanes());
                if (!any || done[size_t(v)]) continue;
                Parts tried = made;
                bool fits = true;
                for (int64_t x = 0; x < p.state.table.words() && fits; x++) fits = combine(tried, u, x, p, v, x);
                if (!fits) continue;
                made = std::move(tried);
                done[size_t(v)] = true;
                set |= 1u << v;
            }
            if (!set) continue;
            MicroOp op;
            op.word().mv.op = MvOp::ReduceTo;
            op.word().mv.reduction = reduction_.operation;
            op.word().mv.tag = uint8_t(left_.tag_begin);
            op.word().mv.child = uint8_t(u);
            op.word().mv.l2bs = set;
            op.word().mv.size = uint16_t(words / c.moves.block);
            op.word().mv.l2bm = uint16_t(p.state.base);
            op.word().mv.to = uint16_t(made.state.base);
            ops_.push_back(std::move(op));
            moves++;
        }
        if (!complete(made)) unsupported("parts that no level combines");
        MicroOp wait;
        wait.word().control.wait = uint8_t(left_.tag_begin);
        ops_.push_back(std::move(wait));
        texts_.push_back(fmt::format("l2bm -> l2bm: {} mv.reduceto", moves));
        return made;
    }
};

} // namespace

Reduced reduce(const Placement &from, const MoveReduction &reduction, const Scratch &scratch,
               const sim::Config &config) {
    return Reducer(from, reduction, scratch, config).run();
}

} // namespace kumiko::chip
