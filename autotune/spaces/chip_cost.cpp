// Estimates the cycles of a distribution, and the operations per element.
#include "autotune/spaces/chip_distribution.h"
#include "dsl/reads.h"

#include <algorithm>
#include <cmath>

namespace kumiko {

namespace {

// Weights of the estimate. They only rank distributions, of which the best are simulated.
constexpr int64_t operations_of_function = 12, operations_of_division = 10;
// LW per cycle from DRAM to an L2BM, from L2BM to each L1B (far), and of one row to all L1Bs
// (near).
constexpr double port_rate = 16, far_rate = 16, near_rate = 8;
// LW per cycle from L1BM to the PEs: of rows with different words for all of them, and of others.
constexpr double own_words_rate = 64, shared_words_rate = 8;
// Cycles of a reduction over these units.
constexpr double cycles_over_l1bs = 50, cycles_over_l2bs = 600;
// Vector operations that fold one result over lanes, over PEs, and into the words for the tree.
constexpr double folds_over_lanes = 8, folds_over_pes = 6, folds_into_tree = 6;
// Cycles of a dependence chain of folds, with and without lanes; several results hide them.
constexpr double long_chain = 80, short_chain = 20;
// Cycles to issue one move.
constexpr double cycles_of_issue = 16;
// The shares of the second and third busiest resource that the busiest one does not hide, with and
// without double buffering.
constexpr double exposed_second = 0.2, exposed_second_unbuffered = 0.6, exposed_third_unbuffered = 0.2;
// Cycles until a copy arrives.
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
    double outer = 1, vector = 0, words = 0, port = 0, l1 = 0, l2 = 0, latency = 0, waits = 0, fill = 0, issue = 0;
    bool overlaps = true;
    for (const size_t a : d.outer) outer *= double(d.left[a]);
    const bool near = decisions.choice("L1B", "") == "near";
    const auto moved = [&](const std::vector<std::optional<size_t>> &at, const auto &windows, int bytes, double times) {
        double all = bytes / 8.0, of_l2b = bytes / 8.0, of_l1b = bytes / 8.0;
        std::set<size_t> used;
        for (const auto &a : at) {
            if (a) used.insert(*a);
        }
        for (const size_t a : used) {
            const double n = double(d.padded(f, a));
            const double far = double(d.units(a, "group") * d.units(a, "L2B"));
            all *= n, of_l2b *= n / far, of_l1b *= n / far / double(d.units(a, "L1B"));
        }
        for (const auto &window : windows) {
            double reach = 1, far = 1, near_by = 1;
            for (const auto &[a, step] : window) {
                reach += double(step * (d.padded(f, a) - 1));
                far *= double(d.units(a, "group") * d.units(a, "L2B"));
                near_by *= double(d.units(a, "L1B"));
            }
            all *= reach, of_l2b *= reach / far, of_l1b *= reach / far / near_by;
        }
        if (!used.count(d.lanes)) all *= f.lanes, of_l2b *= f.lanes, of_l1b *= f.lanes;
        words += times * all;
        port += times * of_l2b / port_rate;
        l2 += times * of_l2b / (near ? near_rate * double(tree.of("L1B")) : far_rate);
        l1 += times * of_l1b / (used.count(d.lanes) ? own_words_rate : shared_words_rate);
    };
    std::set<ChipFormula::Read> loaded;
    for (const ChipFormula::Member &m : f.members) {
        const double parts = f.lanes * m.bytes() / 8 > 1 ? 2 : 1;
        const auto each = double(points_of(f, d, m, true));
        vector += outer * std::max(each, 4.0) * double(m.operations) * parts;
        if (m.stage->is_reduction()) { // after the loops in time
            const double groups = double((points_of(f, d, m, false) + 3) / 4);
            // Sets of units with different sums are processed one after the other.
            double folds = 0, mabs = 1, l1bs = 1;
            bool by_mab = false, by_l1b = false, far = false;
            for (size_t a = 0; a < f.axes.size(); a++) {
                if (!m.reduces(a)) {
                    mabs *= double(d.units(a, "MAB")), l1bs *= double(d.units(a, "L1B"));
                    continue;
                }
                if (a == d.lanes) folds += folds_over_lanes;
                if (d.units(a, "PE") > 1) folds += folds_over_pes;
                by_mab = by_mab || d.units(a, "MAB") > 1;
                by_l1b = by_l1b || d.units(a, "L1B") > 1;
                far = far || d.units(a, "L2B") * d.units(a, "group") > 1;
            }
            const double fours = std::ceil(groups * parts / 4);
            if (by_mab || by_l1b || far) folds += folds_into_tree * mabs;
            if (by_l1b || far) latency += outer * fours * mabs * l1bs * cycles_over_l1bs;
            if (far) latency += outer * fours * mabs * l1bs * cycles_over_l2bs;
            vector += outer * 4 * groups * folds * parts;
            latency += outer * (folds > folds_over_lanes ? long_chain : short_chain) / std::max(1.0, groups / 4);
        }
        for (const ChipFormula::Read &r : m.reads) {
            const bool again = streams(f, d, m, r);
            if (!again && !loaded.insert(r).second) continue;
            // Loops outside that do not use it load it again.
            double times = 1, pending = 1;
            for (const size_t a : d.outer) {
                if (!r.uses(a))
                    pending *= double(d.left[a]);
                else if (d.left[a] > 1)
                    times = pending;
            }
            if (again) times = pending;
            moved(r.at, r.windows, r.bytes, times);
            double loads = times; // one transfer each, and its latency down the tree
            for (size_t a = 0; a < f.axes.size(); a++) {
                if (r.uses(a)) loads *= double(f.axes[a].shared ? d.left[a] : m.has(a) ? d.tiles(a) : 1);
            }
            double parts = 1;
            for (size_t a = 0; a < f.axes.size(); a++) {
                if (r.uses(a)) parts *= double(d.units(a, "L2B") * d.units(a, "group"));
            }
            issue += loads * parts * cycles_of_issue * (near ? 1 : 2);
            const auto tile = double(copy_words(f, d, r) * 4 * tree.of("MAB") * tree.of("L1B"));
            overlaps = overlaps && kept_twice(decisions, r.tensor) && tile <= double(tree.l2bm) / 4;
            fill = std::max(fill, tile / port_rate);
            waits =
                std::max(waits, loads * (kept_twice(decisions, r.tensor) ? wait_of_two_buffers : wait_of_one_buffer));
        }
    }
    moved(f.output().indices(), std::vector<std::vector<std::pair<size_t, int64_t>>>(), f.output().bytes(), 1);
    std::vector<double> all = {words / tree.dram, std::max(port, issue), l2, l1, vector + latency, waits};
    std::sort(all.begin(), all.end());
    // Data that is not double-buffered is loaded when nothing else runs.
    return all[5] + (overlaps ? exposed_second : exposed_second_unbuffered) * all[4] +
           (overlaps ? 0 : exposed_third_unbuffered) * all[3] + fill + start_and_end;
}

} // namespace kumiko
