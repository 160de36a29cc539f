// Estimates the cycles of a distribution, and the operations per element.
#include "autotune/spaces/chip_distribution.h"
#include "dsl/reads.h"

#include <algorithm>
#include <cmath>

namespace kumiko {

namespace {

// Constants of the estimate. It only ranks distributions, and the best are simulated;
// `kumiko bench tune-chip` measures how well it ranks samples (the column "space's pairs").
//
// ALU operations of a function and of a division, which targets/chip/vector/functions.cpp emits.
constexpr int64_t operations_of_function = 12, operations_of_division = 10;
// LW per cycle, from sim/config.h: from DRAM to an L2BM (moves.l2bm_rate), from L2BM to each L1B by
// l2.bcast (links.l2_broadcast, far), and of one row to all L1Bs by l2.scatter (links.l2_scatter,
// near).
constexpr double port_rate = 16, far_rate = 16, near_rate = 8;
// LW per cycle from L1BM to the PEs: l1.scatter gives 64 PEs 4 LW of their own per step, l1.mab all
// MABs the same 32 LW.
constexpr double own_words_rate = 64, shared_words_rate = 8;
// Approximations of simulated cycles, as all constants below: a reduction over these units.
constexpr double cycles_over_l1bs = 50, cycles_over_l2bs = 600;
// Vector operations that fold one result over lanes, over PEs, and into the words for the tree.
constexpr double folds_over_lanes = 8, folds_over_pes = 6, folds_into_tree = 6;
// Cycles of a dependence chain of folds, with and without lanes; several results hide them.
constexpr double long_chain = 80, short_chain = 20;
// Cycles to issue one move: moves.issue_steps steps of four cycles.
constexpr double cycles_of_issue = 16;
// The shares of the second and third busiest resource that the busiest one does not hide, with and
// without double buffering.
constexpr double exposed_second = 0.2, exposed_second_unbuffered = 0.6, exposed_third_unbuffered = 0.2;
// Cycles until a copy arrives: moves.dram_start and the way down the tree, of which a second buffer
// hides a part.
constexpr double wait_of_two_buffers = 120, wait_of_one_buffer = 280;
// Cycles before the first tile and after the last one.
constexpr double start_and_end = 400;

int64_t operations(const Expr &e) {
    struct Count : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        int64_t n = 0;
        void visit(const Halide::Internal::Call *c) override {
            if (c->call_type != Halide::Internal::Call::Image) n += operations_of_function, IRVisitor::visit(c);
        }
        void visit(const Halide::Internal::Div *c) override { n += operations_of_division, IRVisitor::visit(c); }
        void visit(const Halide::Internal::Add *c) override { n++, IRVisitor::visit(c); }
        void visit(const Halide::Internal::Sub *c) override { n++, IRVisitor::visit(c); }
        void visit(const Halide::Internal::Mul *c) override { n++, IRVisitor::visit(c); }
        void visit(const Halide::Internal::Max *c) override { n++, IRVisitor::visit(c); }
        void visit(const Halide::Internal::Min *c) override { n++, IRVisitor::visit(c); }
        void visit(const Halide::Internal::Select *c) override { n += 2, IRVisitor::visit(c); }
        void visit(const Halide::Internal::Cast *c) override { n++, IRVisitor::visit(c); }
    } count;
    e.accept(&count);
    return count.n;
}

// The cycles of each resource while a distributed chain runs.
class ResourceCycles {
public:
    ResourceCycles(const ChipFormula &f, const ChipTree &tree, const ChipDistribution &d, const Decisions &decisions)
        : f_(f), tree_(tree), d_(d), decisions_(decisions), near_(decisions.choice("L1B", "") == "near") {
        for (const size_t a : d.outer) tiles_ *= double(d.left[a]);
    }

    void add(const ChipFormula::Member &m) {
        vector_ += tiles_ * std::max(double(points_of(f_, d_, m, true)), 4.0) * double(m.operations) * parts_of(m);
        if (m.stage->is_reduction()) add_folds(m);
        for (const ChipFormula::Read &r : m.reads) {
            const bool again = streams(f_, d_, m, r);
            if (again || loaded_.insert(r).second) add_load(m, r, again);
        }
    }
    void add_store(const ChipFormula::Member &m) { add_transfers(m.indices(), {}, m.bytes(), 1); }

    // Of the whole chain: the busiest resource, what it does not hide of the next ones, and the
    // latencies before and after.
    double total() const {
        std::vector<double> all = {words_ / tree_.dram, std::max(port_, issue_), l2_, l1_, vector_ + latency_, waits_};
        std::sort(all.begin(), all.end());
        // Data that is not double-buffered is loaded when nothing else runs.
        return all[5] + (overlaps_ ? exposed_second : exposed_second_unbuffered) * all[4] +
               (overlaps_ ? 0 : exposed_third_unbuffered) * all[3] + fill_ + start_and_end;
    }

private:
    // Words of a result.
    double parts_of(const ChipFormula::Member &m) const { return f_.lanes * m.bytes() / 8 > 1 ? 2 : 1; }
    double l2bs(size_t axis) const { return double(d_.units(axis, "group") * d_.units(axis, "L2B")); }

    // Combines the sums of lanes and units after the loops in time.
    void add_folds(const ChipFormula::Member &m) {
        const double parts = parts_of(m), groups = double((points_of(f_, d_, m, false) + 3) / 4);
        // Sets of units with different sums are processed one after the other.
        double folds = 0, mabs = 1, l1bs = 1;
        bool by_mab = false, by_l1b = false, far = false;
        for (size_t a = 0; a < f_.axes.size(); a++) {
            if (!m.reduces(a)) {
                mabs *= double(d_.units(a, "MAB")), l1bs *= double(d_.units(a, "L1B"));
                continue;
            }
            if (a == d_.lanes) folds += folds_over_lanes;
            if (d_.units(a, "PE") > 1) folds += folds_over_pes;
            by_mab = by_mab || d_.units(a, "MAB") > 1;
            by_l1b = by_l1b || d_.units(a, "L1B") > 1;
            far = far || l2bs(a) > 1;
        }
        const double fours = std::ceil(groups * parts / 4);
        if (by_mab || by_l1b || far) folds += folds_into_tree * mabs;
        if (by_l1b || far) latency_ += tiles_ * fours * mabs * l1bs * cycles_over_l1bs;
        if (far) latency_ += tiles_ * fours * mabs * l1bs * cycles_over_l2bs;
        vector_ += tiles_ * 4 * groups * folds * parts;
        latency_ += tiles_ * (folds > folds_over_lanes ? long_chain : short_chain) / std::max(1.0, groups / 4);
    }

    // How often the operand is loaded: loops outside that do not use it load it again.
    double times_loaded(const ChipFormula::Read &r, bool again) const {
        double times = 1, pending = 1;
        for (const size_t a : d_.outer) {
            if (!r.uses(a))
                pending *= double(d_.left[a]);
            else if (d_.left[a] > 1)
                times = pending;
        }
        return again ? pending : times;
    }

    // `again`: the operand is loaded for each result.
    void add_load(const ChipFormula::Member &m, const ChipFormula::Read &r, bool again) {
        const double times = times_loaded(r, again);
        add_transfers(r.at, r.windows, r.bytes, times);
        double loads = times, parts = 1; // one transfer each, and its latency down the tree
        for (size_t a = 0; a < f_.axes.size(); a++) {
            if (!r.uses(a)) continue;
            loads *= double(f_.axes[a].shared ? d_.left[a] : m.has(a) ? d_.tiles(a) : 1);
            parts *= l2bs(a);
        }
        issue_ += loads * parts * cycles_of_issue * (near_ ? 1 : 2);
        const auto tile = double(copy_words(f_, d_, r) * 4 * tree_.of("MAB") * tree_.of("L1B"));
        const bool twice = is_double_buffered(decisions_, r.tensor);
        overlaps_ = overlaps_ && twice && tile <= double(tree_.l2bm) / 4;
        fill_ = std::max(fill_, tile / port_rate);
        waits_ = std::max(waits_, loads * (twice ? wait_of_two_buffers : wait_of_one_buffer));
    }

    // Adds transfers of a tensor between DRAM and the PEs; its indices are as in
    // ChipFormula::Read.
    void add_transfers(const std::vector<std::optional<size_t>> &at,
                       const std::vector<std::vector<std::pair<size_t, int64_t>>> &windows, int bytes, double times) {
        double all = bytes / 8.0, of_l2b = bytes / 8.0, of_l1b = bytes / 8.0; // LW
        std::set<size_t> used;
        for (const auto &a : at) {
            if (a) used.insert(*a);
        }
        for (const size_t a : used) {
            const double n = double(d_.padded(f_, a));
            all *= n, of_l2b *= n / l2bs(a), of_l1b *= n / l2bs(a) / double(d_.units(a, "L1B"));
        }
        for (const auto &window : windows) {
            double reach = 1, far = 1, near_by = 1;
            for (const auto &[a, step] : window) {
                reach += double(step * (d_.padded(f_, a) - 1));
                far *= l2bs(a);
                near_by *= double(d_.units(a, "L1B"));
            }
            all *= reach, of_l2b *= reach / far, of_l1b *= reach / far / near_by;
        }
        const bool along_lanes = used.count(d_.lanes) != 0;
        if (!along_lanes) all *= f_.lanes, of_l2b *= f_.lanes, of_l1b *= f_.lanes;
        words_ += times * all;
        port_ += times * of_l2b / port_rate;
        l2_ += times * of_l2b / (near_ ? near_rate * double(tree_.of("L1B")) : far_rate);
        l1_ += times * of_l1b / (along_lanes ? own_words_rate : shared_words_rate);
    }

    const ChipFormula &f_;
    const ChipTree &tree_;
    const ChipDistribution &d_;
    const Decisions &decisions_;
    bool near_;                                     // rows are distributed to adjacent L1Bs
    bool overlaps_ = true;                          // all copies are double-buffered
    double tiles_ = 1;                              // iterations of the loops outside
    double words_ = 0;                              // LW from and to DRAM
    double port_ = 0, issue_ = 0, l2_ = 0, l1_ = 0; // of moves
    double vector_ = 0, latency_ = 0, waits_ = 0, fill_ = 0;
    std::set<ChipFormula::Read> loaded_;
};

} // namespace

int64_t chip_operations(const Op &op, const Stage &s, const std::set<std::string> &kept) {
    int64_t n = 0;
    for (const Expr &e : s.expressions()) {
        n += operations(e);
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            if (!op.find_input(read->name) && !kept.contains(read->name))
                n += chip_operations(op, op.stage(read->name), kept);
        }
    }
    return n;
}

double estimate(const ChipFormula &f, const ChipTree &tree, const ChipDistribution &d, const Decisions &decisions) {
    ResourceCycles cycles(f, tree, d, decisions);
    for (const ChipFormula::Member &m : f.members) cycles.add(m);
    cycles.add_store(f.output());
    return cycles.total();
}

} // namespace kumiko
