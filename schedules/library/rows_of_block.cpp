#include "schedules/library/rows_of_block.h"

#include "dsl/halide_passes.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/functions.h"
#include "schedules/library/inlining.h"
#include "schedules/library/structure.h"

#include <algorithm>
#include <set>

namespace kumiko::library {

namespace {

using Elements = std::set<Expr, Halide::Internal::IRDeepCompare>;

// The index where it does not wrap around: x + c - 1 in (x + c - 1) % c is x - 1.
Expr without_wrapping(const Expr &index) {
    struct Unwrap : Halide::Internal::IRMutator {
        using IRMutator::visit;
        Expr visit(const Halide::Internal::Mod *op) override {
            const auto c = Halide::Internal::as_const_int(op->b);
            const auto *sum = op->a.as<Halide::Internal::Add>();
            const auto k = sum ? Halide::Internal::as_const_int(sum->b) : std::nullopt;
            if (!c || !k) return IRMutator::visit(op);
            return mutate(sum->a) + static_cast<int>(2 * *k > *c ? *k - *c : *k);
        }
    } unwrap;
    return unwrap.mutate(index);
}

// The elements that `rows` iterations of the axis read. Reads that do not move with the axis are
// left out.
Elements elements_read(const Reads &reads, const std::string &axis, int64_t rows) {
    namespace ir = Halide::Internal;
    Elements all;
    for (const auto &[tensor, indices] : reads) {
        const auto moves = [&](const Expr &index) { return ir::expr_uses_var(index, axis); };
        if (std::none_of(indices.begin(), indices.end(), moves)) continue;
        std::vector<Expr> plain;
        for (const Expr &index : indices) plain.push_back(without_wrapping(index));
        for (int64_t row = 0; row < rows; row++) {
            const Expr at = ir::Variable::make(Int(32), axis) + static_cast<int>(row);
            std::vector<Expr> args;
            for (const Expr &index : plain) args.push_back(ir::simplify(ir::substitute(axis, at, index)));
            all.insert(ir::Call::make(Int(32), tensor, args, ir::Call::PureIntrinsic));
        }
    }
    return all;
}

// Rows to unroll where different rows read the same elements, as in a stencil, so that each element
// is loaded once.
std::optional<RowsOfBlock> rows_that_share(const Stage &stage, const Reads &reads, const Machine &machine) {
    constexpr double worth = 0.8;            // of the loads are left
    constexpr double worth_twice = 0.9;      // that are left by half as many rows
    constexpr int64_t most_operations = 256; // of all copies
    const int64_t of_element = std::max<int64_t>(operations(stage), 2 * static_cast<int64_t>(reads.size()));
    const int64_t most = std::min<int64_t>(machine.vector_registers / 4, most_operations / of_element);
    if (most < 2) return std::nullopt;
    std::optional<RowsOfBlock> best;
    double least = worth;
    for (size_t d = stage.axes.size() - 1; d-- > 0;) {
        const std::string &axis = stage.axes[d].name();
        const size_t alone = elements_read(reads, axis, 1).size();
        if (alone == 0) continue;
        for (int64_t rows = 2; rows <= most && rows <= constant_extent(stage.axes[d]).value_or(rows); rows *= 2) {
            const size_t together = elements_read(reads, axis, rows).size();
            const double left =
                static_cast<double>(together) / (static_cast<double>(rows) * static_cast<double>(alone));
            if (left >= least * (best && best->axis == axis ? worth_twice : 1)) continue;
            least = left;
            best = {axis, rows, true};
        }
    }
    return best;
}

// The axis before the last, where all that is read along the last axis is the same for each of its
// rows, at two places or more: rows inside of a block of columns read, and compute from it, once.
std::optional<RowsOfBlock> rows_of_pairs(const Stage &stage, const Reads &reads) {
    constexpr int64_t fewest_rows = 8, rows_of_block = 32;
    const std::string &rows = stage.axes[stage.axes.size() - 2].name(), &last = stage.axes.back().name();
    Reads along;
    for (const auto &[tensor, indices] : reads) {
        const auto uses = [&, &all = indices](const std::string &axis) {
            return std::any_of(all.begin(), all.end(),
                               [&](const Expr &e) { return Halide::Internal::expr_uses_var(e, axis); });
        };
        if (!uses(last)) continue;
        if (uses(rows)) return std::nullopt;
        along.emplace_back(tensor, indices);
    }
    if (elements_read(along, last, 1).size() < 2 ||
        constant_extent(*find_axis(stage, rows)).value_or(fewest_rows) < fewest_rows)
        return std::nullopt;
    return RowsOfBlock{rows, rows_of_block, false};
}

} // namespace

std::optional<RowsOfBlock> rows_of_block(const Schedule &s, const Stage &stage) {
    if (stage.is_reduction() || stage.axes.size() < 2 || holds_stages(s, stage.name)) return std::nullopt;
    const Reads reads = reads_of(s.op(), stage, kept_tensors(s.state()));
    if (const auto pairs = rows_of_pairs(stage, reads)) return pairs;
    if (calls_functions(stage)) return std::nullopt;
    return rows_that_share(stage, reads, s.machine());
}

} // namespace kumiko::library
