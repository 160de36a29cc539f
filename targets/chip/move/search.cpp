// The search enumerates paths in the tree and, on each, the hop at which the pushes from the source
// and the pulls from the destination meet. All that match are costed, and the cheapest is used.
#include "targets/chip/move/reduce.h"
#include "targets/chip/move/route.h"

#include <fmt/format.h>

#include <algorithm>

namespace kumiko::chip {

namespace {

struct Candidate {
    Ops ops;
    std::vector<std::string> texts;
    int64_t cycles = 0;
};

// If many units do the same, one of them represents all, and the machine is planned as if it had
// only that one.
struct Scope {
    // The level of the identical units (MABs, L1Bs, L2Bs or groups); none if `whole`.
    Level level = Level::Group;
    bool whole = true;
    sim::Config config;
    State from, to;
    int top() const { // the least rank of a walk
        return whole ? 1 : level == Level::Mab ? 3 : level == Level::L1b ? 2 : 1;
    }
};

class Search {
public:
    Search(const Scope &scope, const Scratch &scratch, const sim::Config &config)
        : c(scope.config), real_(config), scratch_(scratch), scope_(scope), source_(scope.from), target_(scope.to) {}

    // Finds the cheapest candidate; replaces `best` if it is better.
    void run(const ConversionBound &bound, std::optional<Candidate> &best, std::string &lacking) {
        best_ = std::move(best);
        const bool thorough = !scope_.whole && scope_.level == Level::Mab;
        for (const auto &walk : walks()) {
            // Longer walks cost more; they cannot improve much on a result near the bound.
            if (best_ && walk.size() > length_ && length_ && best_->cycles <= 2 * bound.cycles + 40) break;
            length_ = walk.size();
            for (size_t meet = 0; meet + 1 < walk.size(); meet++)
                forward(walk, 0, meet, source_, Hops{c, scratch_, &target_, &source_, thorough}, {});
        }
        if (!best_ && scope_.top() <= 2) {
            const Memory top = scope_.top() == 2 ? Memory::L1bm : Memory::L2bm;
            if (auto r = route(source_, target_, top, scratch_, c, lacking))
                offer({std::move(r->ops), std::move(r->texts)});
        }
        best = std::move(best_);
    }
    int candidates() const { return candidates_; }

private:
    const sim::Config &c, &real_;
    const Scratch &scratch_;
    const Scope &scope_;
    const State &source_, &target_;
    std::optional<Candidate> best_;
    size_t length_ = 0;
    int candidates_ = 0;

    using Walk = std::vector<Memory>; // from the source's memory to the destination's

    // Direct, up and down again, down and up again; and each also with a hop between memories of
    // the PEs.
    std::vector<Walk> walks() const {
        const int rs = rank_of(source_.memory), rd = rank_of(target_.memory);
        std::vector<std::vector<int>> ranks;
        const auto by_way_of = [&](int turn) {
            std::vector<int> r = {rs};
            for (const int stop : {turn, rd})
                while (r.back() != stop) r.push_back(r.back() + (stop > r.back() ? 1 : -1));
            ranks.push_back(std::move(r));
        };
        for (int turn = scope_.top(); turn <= 3; turn++)
            if (turn < std::min(rs, rd) || turn > std::max(rs, rd)) by_way_of(turn);
        if (rs != rd) by_way_of(rd);
        for (size_t i = 0, n = ranks.size(); i < n; i++)
            for (size_t k = 0; k < ranks[i].size(); k++)
                if (ranks[i][k] == 3) {
                    ranks.push_back(ranks[i]);
                    ranks.back().insert(ranks.back().begin() + int64_t(k), 3);
                }
        if (rs == 3 && rd == 3) ranks.push_back({3, 3});

        std::vector<Walk> all;
        for (const auto &r : ranks) {
            Walk w = {source_.memory};
            bool possible = true;
            for (size_t k = 1; k + 1 < r.size() && possible; k++) {
                // In a PE, a memory with room that is not adjacent on the walk: an LM is either
                // read or written in a step.
                std::optional<Memory> next;
                if (r[k] < 3) {
                    next = r[k] == 1 ? Memory::L2bm : Memory::L1bm;
                } else {
                    for (const Memory m : {Memory::Lm1, Memory::Lm0, Memory::Grf1, Memory::Grf0})
                        if (!next && range_of(scratch_, m).words() >= 4 && m != w.back() &&
                            !(k + 2 == r.size() && m == target_.memory))
                            next = m;
                }
                possible = next.has_value();
                if (possible) w.push_back(*next);
            }
            if (!possible) continue;
            w.push_back(target_.memory);
            all.push_back(std::move(w));
        }
        std::sort(all.begin(), all.end(),
                  [](const Walk &a, const Walk &b) { return a.size() != b.size() ? a.size() < b.size() : a < b; });
        all.erase(std::unique(all.begin(), all.end()), all.end());
        return all;
    }

    struct Chain {
        Ops ops;
        std::vector<std::string> texts;
        void append(const Hop &m) {
            ops.insert(ops.end(), m.ops.begin(), m.ops.end());
            texts.push_back(m.text);
        }
    };

    // Reserves scratch for the state; false if there is too little.
    static bool reserve(Hops &hops, const State &state, int64_t words) {
        Scratch::Range &r = range_of(hops.scratch, state.memory);
        if (state.base != r.begin || r.words() < words) return false;
        r.begin += words;
        return true;
    }

    // Pushes hop by hop up to `meet`.
    void forward(const Walk &walk, size_t hop, size_t meet, const State &state, const Hops &hops, const Chain &chain) {
        if (too_long(chain.ops.size())) return;
        if (hop == meet) return backward(walk, walk.size() - 2, meet, state, target_, hops, chain, {});
        const Memory next = walk[hop + 1];
        Hops mine = hops;
        for (Hop &m : mine.push(state, next, range_of(mine.scratch, next).begin)) {
            Hops after = mine;
            if (!reserve(after, m.state, m.state.table.words())) continue;
            Chain longer = chain;
            longer.append(m);
            forward(walk, hop + 1, meet, m.state, after, longer);
        }
    }

    // Pulls from the destination back to `meet`, and tries to match the two ends there.
    void backward(const Walk &walk, size_t hop, size_t meet, const State &have, const State &want, const Hops &hops,
                  const Chain &before, const std::vector<Hop> &after) {
        size_t steps = before.ops.size();
        for (const Hop &m : after) steps += m.ops.size();
        if (too_long(steps)) return;
        if (hop == meet) {
            Hops mine = hops;
            const auto m = mine.match(have, want);
            if (!m) return;
            Candidate found{before.ops, before.texts};
            const auto append = [&](const Hop &x) {
                found.ops.insert(found.ops.end(), x.ops.begin(), x.ops.end());
                found.texts.push_back(x.text);
            };
            append(*m);
            for (size_t i = after.size(); i-- > 0;) append(after[i]);
            return offer(std::move(found));
        }
        const Memory previous = walk[hop];
        Hops mine = hops;
        for (Hop &m : mine.pull(want, previous, range_of(mine.scratch, previous).begin)) {
            Hops then = mine;
            // Includes room for what the last wide step writes beyond the end.
            const int64_t spill = rank_of(previous) == 3 ? 0 : grain_of(previous, c);
            const int64_t words = round_up(m.state.table.words(), grain_of(previous, c)) + spill;
            if (!reserve(then, m.state, words)) continue;
            std::vector<Hop> longer = after;
            const State required = lengthened(m.state, words);
            longer.push_back(std::move(m));
            backward(walk, hop - 1, meet, have, required, then, before, longer);
        }
    }

    // At most three slots share a word.
    bool too_long(size_t ops) const { return best_ && int64_t(ops / 3) * sim::cycles_per_step > best_->cycles; }

    void offer(Candidate candidate) {
        if (!scope_.whole && scope_.level == Level::Group) candidate.ops = for_all_groups(candidate.ops);
        candidate.cycles = predict_cycles(emit_in_order(candidate.ops, real_), real_);
        candidates_++;
        if (!best_ || candidate.cycles < best_->cycles) best_ = std::move(candidate);
    }
    // Repeats moves planned for group 0 for all groups.
    Ops for_all_groups(const Ops &ops) const {
        Ops all;
        for (const MicroOp &op : ops) {
            const sim::Mv &m = op.word().mv;
            if (m.op == sim::MvOp::None) {
                all.push_back(op);
            } else if (m.op == sim::MvOp::Copy) { // one for each group
                for (int g = 0; g < real_.groups; g++) {
                    all.push_back(op);
                    sim::Mv &own = all.back().word().mv;
                    own.child = uint8_t(m.child + g * real_.l2bs);
                    own.l2bs = (m.l2bs & ((1u << real_.l2bs) - 1)) << (g * real_.l2bs);
                }
            } else {
                all.push_back(op);
                sim::Mv &own = all.back().word().mv;
                own.groups = uint16_t((1u << real_.groups) - 1);
                own.l2bs = 0;
                for (int g = 0; g < real_.groups; g++)
                    own.l2bs |= (m.l2bs & ((1u << real_.l2bs) - 1)) << (g * real_.l2bs);
            }
        }
        return all;
    }
};

Contents first_units(const Contents &t, int units) {
    Contents made(t.memory(), units, t.words(), t.lanes());
    if (t.words()) std::copy_n(t.at(0, 0), size_t(units) * size_t(t.words()) * size_t(t.lanes()), made.at(0, 0));
    return made;
}

// Whether every part of the units does what the first does: elements may have other numbers, and a
// part may require less.
bool alike(const Contents &from, const Contents &to, int parts) {
    const size_t from_size = size_t(from.units() / parts) * size_t(from.words()) * size_t(from.lanes());
    const size_t to_size = size_t(to.units() / parts) * size_t(to.words()) * size_t(to.lanes());
    const int32_t *f = from.words() ? from.at(0, 0) : nullptr, *t = to.words() ? to.at(0, 0) : nullptr;
    int32_t last = -1;
    for (size_t i = 0; i < from_size; i++) last = std::max(last, f[i]);
    std::vector<int32_t> number(size_t(last + 1));
    for (int k = 0; k < parts; k++) {
        std::fill(number.begin(), number.end(), anything);
        const int32_t *own = f + size_t(k) * from_size;
        std::vector<bool> known(number.size());
        for (size_t i = 0; i < from_size; i++) {
            if (f[i] < 0) continue;
            // A copy that the part has only once would still be read elsewhere.
            if (known[size_t(f[i])] && number[size_t(f[i])] != own[i]) return false;
            known[size_t(f[i])] = true;
            number[size_t(f[i])] = own[i];
        }
        const int32_t *wanted = t + size_t(k) * to_size;
        for (size_t i = 0; i < to_size; i++) {
            if (wanted[i] == anything && t[i] != untouched) continue;
            if (t[i] < 0 ? wanted[i] != t[i] : t[i] > last || number[size_t(t[i])] != wanted[i]) return false;
        }
    }
    return true;
}

// The scopes in which the move may be planned, the narrowest first, the whole chip last.
std::vector<Scope> scopes(const State &from, const State &to, const sim::Config &c) {
    std::vector<Scope> all;
    const int least = std::min(rank_of(from.memory), rank_of(to.memory));
    const struct {
        Level level;
        int rank, parts;
    } levels[] = {{Level::Mab, 3, c.total_mabs()},
                  {Level::L1b, 2, c.total_l1bs()},
                  {Level::L2b, 1, c.total_l2bs()},
                  {Level::Group, 0, c.groups}};
    for (const auto &l : levels) {
        if (least < l.rank || !alike(from.table, to.table, l.parts)) continue;
        Scope s{l.level, false, c, {}, {}};
        s.config.groups = 1;
        if (l.level != Level::Group) s.config.l2bs = 1;
        if (l.level == Level::Mab || l.level == Level::L1b) s.config.l1bs = 1;
        if (l.level == Level::Mab) s.config.mabs = 1;
        s.from = {from.memory, from.base, first_units(from.table, from.table.units() / l.parts)};
        s.to = {to.memory, to.base, first_units(to.table, to.table.units() / l.parts)};
        all.push_back(std::move(s));
    }
    if (all.empty() || all.back().level != Level::Group || c.groups > 1)
        all.push_back({Level::Group, true, c, from, to});
    return all;
}

struct Words {
    const char *what;
    Memory memory;
    int64_t begin, end;
};

void check_apart(const std::vector<Words> &all) {
    for (size_t i = 0; i < all.size(); i++)
        for (size_t j = i + 1; j < all.size(); j++) {
            const Words &a = all[i], &b = all[j];
            if (a.memory == b.memory && a.begin < b.end && b.begin < a.end)
                throw UserError(fmt::format("a move's {} at {}[{}..{}] and its {} at {}[{}..{}] share words", a.what,
                                            name_of(a.memory), a.begin, a.end - 1, b.what, name_of(b.memory), b.begin,
                                            b.end - 1));
        }
}

} // namespace

Move plan_move(const Placement &from, const Placement &to, const Scratch &scratch, const sim::Config &c,
               const MoveOptions &options) {
    check(from, c);
    check(to, c);
    std::vector<int64_t> sent = from.layout.extents();
    if (options.reduction && options.reduction->axis >= 0 && size_t(options.reduction->axis) < sent.size())
        sent.erase(sent.begin() + options.reduction->axis);
    if (from.layout.type() != to.layout.type() || sent != to.layout.extents())
        throw UserError(fmt::format("{} and {} are not one tensor: {} of {} and {} of {}", from.to_string(),
                                    to.to_string(), name_of(from.layout.type()), fmt::join(sent, " × "),
                                    name_of(to.layout.type()), fmt::join(to.layout.extents(), " × ")));
    const ConversionBound bound = options.reduction ? ConversionBound() : conversion_bound(from, to, c);
    for (const Placement *p : {&from, &to})
        if (p->memory <= Memory::Pdm && p->base % c.moves.granule)
            throw UserError(fmt::format("{}: moves off the chip need addresses that are multiples of {} LW",
                                        p->to_string(), c.moves.granule));
    State target{to.memory, to.base, contents(to, c)};
    target = lengthened(
        target, std::min(size_of(to.memory, c) - to.base, round_up(target.table.words(), grain_of(to.memory, c))));
    if (options.keep_padding)
        for (int u = 0; u < target.table.units(); u++)
            for (int64_t a = 0; a < target.table.words(); a++)
                if (!requires_element(target.table.at(u, a), target.table.lanes()))
                    std::fill_n(target.table.at(u, a), target.table.lanes(), untouched);
    std::vector<Words> words = {{"source", from.memory, from.base, from.base + from.layout.words()},
                                {"destination", to.memory, to.base, to.base + target.table.words()}};
    for (int m = int(Memory::L2bm); m < memory_count; m++) {
        const Scratch::Range &r = range_of(scratch, Memory(m));
        if (r.words() <= 0) continue;
        if (r.begin < 0 || r.end > size_of(Memory(m), c))
            throw UserError(fmt::format("scratch at {}[{}..{}] is outside its {} LW", name_of(Memory(m)), r.begin,
                                        r.end - 1, size_of(Memory(m), c)));
        words.push_back({"scratch", Memory(m), r.begin, r.end});
    }
    if (scratch.tag_begin < 0 || scratch.tag_end > 16 || scratch.mask_begin < 1 || scratch.mask_end > 16)
        throw UserError(
            fmt::format("scratch tags {}..{} and mask entries {}..{}: there are tags 0..15 and entries 1..15",
                        scratch.tag_begin, scratch.tag_end - 1, scratch.mask_begin, scratch.mask_end - 1));
    check_apart(words);

    Move m;
    Reduced reduced;
    if (options.reduction)
        reduced = reduce(from, *options.reduction, scratch, c);
    else
        reduced = {{from.memory, from.base, contents(from, c)}, {}, {}, scratch};

    std::optional<Candidate> best;
    std::string lacking;
    for (const Scope &scope : scopes(reduced.state, target, c)) {
        // A wider scope may find another path; it is tried if that is quick or nothing else was
        // found.
        const double places = double(scope.from.table.units()) * double(scope.from.table.words()) +
                              double(scope.to.table.units()) * double(scope.to.table.words());
        if (best && (best->cycles <= 2 * bound.cycles + 40 || places > 4096)) break;
        Search search(scope, reduced.left, c);
        search.run(bound, best, lacking);
        m.candidates += search.candidates();
    }
    if (!best)
        throw Unsupported(fmt::format(
            "{} to {}: no sequence of operations was found; it would take {}", from.to_string(), to.to_string(),
            options.keep_padding
                ? "a destination whose padding may be overwritten, or that is written in whole steps: " + lacking
                : lacking));
    for (const std::string &t : reduced.texts) m.stages.push_back({t});
    for (std::string &t : best->texts) m.stages.push_back({std::move(t)});
    m.ops = std::move(reduced.ops);
    m.ops.insert(m.ops.end(), best->ops.begin(), best->ops.end());
    m.cycles = options.reduction ? predict_cycles(emit_in_order(m.ops, c), c) : best->cycles;
    m.bound = bound;
    return m;
}

sim::Program program_of(const Move &move, const sim::Config &config) {
    sim::Program p;
    p.machine = config.name;
    p.words = fold(emit_in_order(move.ops, config), config);
    return p;
}

std::string Move::to_string() const {
    std::string s = fmt::format("{} cycles, {} micro-operations, {} sequences costed; {}\n", cycles, ops.size(),
                                candidates, bound.to_string());
    for (const Stage &stage : stages) s += "  " + stage.text + "\n";
    return s;
}

} // namespace kumiko::chip
