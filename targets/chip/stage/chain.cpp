#include "targets/chip/stage/chain.h"
#include "targets/chip/stage/root_reduction.h"
#include "targets/chip/stage/stages.h"

#include "dsl/print.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

int64_t ChainStage::index(const Values &values) const {
    int64_t k = 0;
    for (const size_t l : time) k = k * plan->loops()[l].extent + values[l];
    return k;
}

void ChainStage::set(Values &values, int64_t point) const {
    point = std::min(point, points - 1);
    for (size_t i = time.size(); i-- > 0;) {
        values[time[i]] = point % plan->loops()[time[i]].extent;
        point /= plan->loops()[time[i]].extent;
    }
}

Chain::Chain(Context &c, const ScheduleState &state, const StageState &root) : c_(c), state_(state) {
    collect(root);
    for (ChainStage &s : stages_) read_all(s);
    make_store();
    allocate_results();
    std::vector<std::pair<const TransferPath *, std::pair<bool, bool>>> users;
    for (const Loaded &l : loaders_) users.push_back({&l.loader->path(), {true, l.loader->through_l2()}});
    users.push_back({store_.get(), {true, true}});
    const auto rings = share_rings(c_, users, 1);
    for (size_t i = 0; i < loaders_.size(); i++) loaders_[i].loader->set_rings(rings[i]);
    store_rings_ = rings.back();
    for (const ChainStage &s : stages_) {
        c_.l2 += fmt::format("stage {}{}\n", s.name, &s == root_ ? "" : fmt::format(", {} points a tile", s.points));
    }
    c_.l2 += c_.planner.to_string();
}

// Allocates the results of the stages before the root, sums in progress, and intermediate values.
void Chain::allocate_results() {
    const auto parts = [&](kumiko::Type t) { return four_ && t.bits() == 32 ? 2 : 1; };
    const auto in_steps = [](int64_t points) {
        return (points + cycles_per_step - 1) / cycles_per_step * cycles_per_step;
    };
    int64_t sums = 0;
    bool over_l1bs = false, over_units = false;
    for (ChainStage &s : stages_) {
        if (&s == root_) continue;
        const std::string level = s.stage->level.empty() ? "GRF1" : s.stage->level;
        bool found = false;
        for (const Bank b : {Bank::Lm0, Bank::Lm1, Bank::Grf0, Bank::Grf1}) {
            if (level == memory_name(b)) s.result_bank = b, found = true;
        }
        if (!found)
            throw Unsupported("stage " + s.name + " is kept in " + level +
                              "; results of a chain can be in GRF0, GRF1, LM0 or LM1");
        s.at = c_.planner.take(s.result_bank, in_steps(s.points) * parts(s.type), s.name);
        if (!s.fold) continue;
        sums = std::max(sums, in_steps(s.points) * parts(s.type) * chains(s));
        for (size_t l = s.plan->first_own(); l < s.plan->loops().size(); l++) {
            const PlannedLoop &p = s.plan->loops()[l];
            over_units = over_units || (p.reduction && p.kind == PlannedLoop::Kind::Unit && p.level <= Tier::Mab);
            over_l1bs = over_l1bs || (p.reduction && p.kind == PlannedLoop::Kind::Unit && p.level <= Tier::L1b);
        }
    }
    if (sums) accumulators_ = c_.planner.take(Bank::Grf0, sums, "sums");
    std::array<RegisterRange, 2> registers;
    for (size_t b = 0; b < 2; b++) {
        const Bank bank = b ? Bank::Grf1 : Bank::Grf0;
        const int64_t words = c_.planner.free_words(bank);
        registers[b] = {int(c_.planner.take(bank, words, "intermediate values")), int(words)};
    }
    code_ = std::make_unique<VectorEmitter>(c_.packer, "stage " + root_->name, registers, four_, 5);
    if (over_units) {
        const int64_t words = over_l1bs ? 256 : 16 * 8;
        tree_l1bm_ = Ring(c_.planner.take(Bank::L1bm, words, "sums over units"), words);
    }
    if (over_l1bs) tree_l2bm_ = Ring(c_.planner.take(Bank::L2bm, 256, "sums over units"), 256);
}

void Chain::run() {
    outer_values_.assign(root_->plan->loops().size(), 0);
    walk(outer_, [&] {
        for (ChainStage &s : stages_) {
            if (&s == root_) break;
            load_copies(s);
            s.fold ? reduce(s) : compute(s);
        }
        walk(tiles_, [&] { compute_tile(); });
    });
    place_pending_store();
}

void Chain::walk(const std::vector<size_t> &loops, const std::function<void()> &inside, size_t depth) {
    if (depth == loops.size()) {
        inside();
        return;
    }
    for (int64_t v = 0; v < root_->plan->loops()[loops[depth]].extent; v++) {
        outer_values_[loops[depth]] = v;
        walk(loops, inside, depth + 1);
    }
    outer_values_[loops[depth]] = 0;
}

void Chain::place_pending_store() {
    if (pending_store_) pending_store_->place(~0u);
    pending_store_.reset();
}

void Chain::load_copies(ChainStage &s) {
    const Values values = group(s, 0).values[0];
    for (const ChainRead &r : s.reads) {
        if (r.loader) r.loader->ensure(loader_values(r, values));
    }
}

void Chain::compute_tile() {
    ChainStage &r = *root_;
    load_copies(r);
    const int n_parts = code_->parts(vector_type(r.type, r.name));
    std::optional<std::pair<int64_t, Operand>> made; // both words of four points
    const auto gather = [&](int64_t n, int w, int64_t l1bm) {
        L1 l1;
        if (store_->from_one_mab()) { // a reduction over one MAB, which copies its value
            l1.op = L1Op::MabReduce;
            l1.reduction = Reduction::AddI32;
            l1.mabs = 1;
        } else {
            l1.op = L1Op::Gather;
        }
        l1.at.at = uint16_t(l1bm);
        MicroOp m;
        if (n_parts == 1) { // the last operation's forward is the result
            Group g = group(r, n * cycles_per_step);
            m = code_->run_to_last(r.program, [&](int which, int part) { return read_word(g, which, part); });
            release(g);
            l1.from = VectorEmitter::forward(m);
            m.next();
        } else {
            if (!made || made->first != n) {
                if (made) code_->give_back(made->second);
                made = {n, code_->take(2, 1)};
                Group g = group(r, n * cycles_per_step);
                code_->run(
                    r.program, [&](int which, int part) { return read_word(g, which, part); },
                    [&](int part) {
                        Operand o = made->second;
                        o.address.at[0] = uint16_t(o.address.at[0] + part);
                        return o;
                    });
                release(g);
            }
            Operand o = made->second;
            o.address.at[0] = uint16_t(o.address.at[0] + w);
            l1.from = m.read(o);
        }
        m.word().l1 = l1;
        c_.packer.place(m);
    };
    const int64_t key = store_->key(outer_values_);
    for (int64_t part = 0; part < store_parts(*store_, store_rings_); part++) {
        // A part's move is placed after the loads of the next part, if L2BM has room for both.
        StoredPart stored = store_part(c_, *store_, store_rings_, store_dram_, key, part, gather);
        place_pending_store();
        pending_store_ = std::move(stored);
        if (store_ahead(*store_, store_rings_) < 1) place_pending_store();
    }
    if (made) code_->give_back(made->second);
}

// Computes all points of a stage that is not the root, into its location.
void Chain::compute(ChainStage &s) {
    const int n = code_->parts(vector_type(s.type, s.name));
    for (int64_t p = compute_in_runs(s); p < s.points; p += cycles_per_step) {
        Group g = group(s, p);
        code_->run(
            s.program, [&](int which, int part) { return read_word(g, which, part); },
            [&](int part) {
                PointAddresses at;
                for (int t = 0; t < cycles_per_step; t++) at[size_t(t)] = s.at + (p + t) * n + part;
                return words_at(c_.config, s.result_bank, at);
            });
        release(g);
    }
}

void lower_pointwise(Context &c, const ScheduleState &state, const StageState &stage) { Chain(c, state, stage).run(); }

} // namespace kumiko::chip
