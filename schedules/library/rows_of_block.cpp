#include "schedules/library/rows_of_block.h"

#include "dsl/halide_passes.h"
#include "machine/machine.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/functions.h"
#include "schedules/library/inlining.h"
#include "schedules/library/structure.h"
#include "schedules/rolling.h"

#include <algorithm>
#include <set>

namespace kumiko::library {

namespace {

using Elements = std::set<Expr, Halide::Internal::IRDeepCompare>;

// The index without wrap-around: x + c - 1 in (x + c - 1) % c is x - 1.
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

// The elements that `rows` iterations of the axis read. Reads that do not depend on the axis are
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

// The loads of one row, and of several rows together, each element once.
struct Loads {
    double alone = 0, together = 0;
};

// The number of array rows that `rows` iterations of axis `d` load and store.
struct RowsOfArrays {
    int64_t all = 0, conflicting = 0; // conflicting: of arrays whose rows share L1 sets
};

RowsOfArrays rows_of_arrays(const Schedule &s, const Stage &stage, const Reads &reads, size_t d, int64_t rows) {
    const std::string &axis = stage.axes[d].name();
    Reads all, conflicting;
    for (auto [tensor, indices] : reads) {
        size_t moves = 0; // the first index that uses the axis
        while (moves < indices.size() && !Halide::Internal::expr_uses_var(indices[moves], axis)) moves++;
        if (moves + 1 >= indices.size()) continue;
        indices.pop_back();
        all.emplace_back(tensor, indices);
        if (conflict_in_l1(bytes_of(s.state().type_of(tensor), s.state().axes_of(tensor), moves + 1, 0), rows))
            conflicting.push_back(all.back());
    }
    const bool stores = conflict_in_l1(bytes_of(stage.type, stage.axes, d + 1, 0), rows);
    return {static_cast<int64_t>(elements_read(all, axis, rows).size()) + rows,
            static_cast<int64_t>(elements_read(conflicting, axis, rows).size()) + (stores ? rows : 0)};
}

// The same if rows take different branches because the stage divides the axis.
Loads loads_by_branch(const Schedule &s, const Stage &stage, const std::string &axis, int64_t rows) {
    const std::set<std::string> kept = kept_tensors(s.state());
    Loads loads;
    Elements all;
    for (int64_t row = 0; row < rows; row++) {
        const Elements own = elements_read(reads_of(s.op(), at_multiples(stage, axis, rows, row), kept), axis, 1);
        loads.alone += static_cast<double>(own.size()) / static_cast<double>(rows);
        all.insert(own.begin(), own.end());
    }
    loads.together = static_cast<double>(all.size());
    return loads;
}

// Whether a select condition of the stage depends on the axis.
bool selects_by(const Stage &stage, const std::string &axis) {
    struct Find : Halide::Internal::IRGraphVisitor {
        using IRGraphVisitor::visit;
        std::string axis;
        bool found = false;
        void visit(const Halide::Internal::Select *op) override {
            found = found || Halide::Internal::expr_uses_var(op->condition, axis);
            IRGraphVisitor::visit(op);
        }
    } find;
    find.axis = axis;
    for (const Expr &e : stage.expressions()) e.accept(&find);
    return find.found;
}

// Rows to unroll: rows that read the same elements, as in a stencil, so that each element is loaded
// once, or rows that take different branches.
std::optional<RowsOfBlock> rows_that_share(const Schedule &s, const Stage &stage, const Reads &reads) {
    constexpr double worth = 0.8;           // at most this fraction of the loads may remain
    constexpr double worth_twice = 0.9;     // of the loads that half as many rows leave
    constexpr int64_t max_operations = 256; // of all rows
    // On Emerald Rapids rows of 260 to 320 f32 that begin within lines are as fast either way.
    constexpr int64_t long_row = 1 << 10;    // bytes
    constexpr double pays_for_partial = 4.0; // loads that must be saved per store of a long row
    constexpr double pays_anyway = 0.3;      // this fraction of the loads suffices anyway
    // Hardware prefetchers follow few streams. Beyond L2 several rows of more streams than this are
    // slower than one row (wave of the suite own-ops on Zen 3).
    constexpr int64_t max_streams = 12;
    const int64_t of_element = std::max<int64_t>(operations(stage), 2 * static_cast<int64_t>(reads.size()));
    const int64_t most = std::min<int64_t>(s.machine().vector_registers / 4, max_operations / of_element);
    if (most < 2) return std::nullopt;
    const bool root = s.state().stage(stage.name).placement.kind == Placement::Kind::Root;
    const bool partial = root && stores_partial_lines(stage, s.machine());
    std::set<std::string> tensors = {stage.name};
    for (const auto &[tensor, indices] : reads) tensors.insert(tensor);
    const int64_t bytes = bytes_of(stage.type, stage.axes, 0, 0);
    const bool beyond_l2 = bytes * static_cast<int64_t>(tensors.size()) > cache_bytes(s.machine(), "L2", 512 << 10);
    // associativity of L1
    const int64_t ways = cache_bytes(s.machine(), "L1", 32 << 10) / page_bytes;
    const auto row = constant_extent(stage.axes.back());
    const bool is_long = row && *row * stage.type.bytes() > long_row;
    const bool narrow = 2 * s.machine().vector_bits == 8 * line_bytes; // two vectors fill a line
    const int vectors = partial || (narrow && is_long) ? 2 : 1;        // per row
    std::optional<RowsOfBlock> best;
    double least = worth;
    for (size_t d = stage.axes.size() - 1; d-- > 0;) {
        const std::string &axis = stage.axes[d].name();
        const int64_t parts = divisor_of(stage, stage.axes[d]);
        const size_t any = elements_read(reads, axis, 1).size(); // over all branches
        if (any == 0) continue;
        for (int64_t rows = 2; rows <= most && rows <= constant_extent(stage.axes[d]).value_or(rows); rows *= 2) {
            if (rows % parts) continue;
            const auto [alone, together] =
                parts > 1
                    ? loads_by_branch(s, stage, axis, rows)
                    : Loads{static_cast<double>(any), static_cast<double>(elements_read(reads, axis, rows).size())};
            if (alone == 0) break;
            const double n = static_cast<double>(rows), left = together / (n * alone);
            if (left >= least * (best && best->axis == axis ? worth_twice : 1)) continue;
            const RowsOfArrays arrays = rows_of_arrays(s, stage, reads, d, rows);
            if (arrays.conflicting > ways || (beyond_l2 && arrays.all > max_streams)) continue;
            if (partial && is_long && alone - together / n < pays_for_partial && left > pays_anyway) continue;
            least = left;
            best = {axis, rows, true, true, vectors};
        }
    }
    for (size_t d = stage.axes.size() - 1; d-- > 0 && !best;) {
        const Axis &axis = stage.axes[d];
        const int64_t parts = divisor_of(stage, axis);
        if (parts == 1 || parts > most) continue;
        if (selects_by(stage, axis.name())) best = {axis.name(), parts, true, false};
    }
    return best;
}

// The axis before the last, if all reads along the last axis are the same for each of its rows, at
// two places or more. Rows inside of a block of columns then load these, and compute from them,
// once.
std::optional<RowsOfBlock> rows_of_pairs(const Stage &stage, const Reads &reads) {
    constexpr int64_t min_rows = 8, rows_of_block = 32;
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
        constant_extent(*find_axis(stage, rows)).value_or(min_rows) < min_rows)
        return std::nullopt;
    return RowsOfBlock{rows, rows_of_block, false, true};
}

} // namespace

std::optional<RowsOfBlock> rows_of_block(const Schedule &s, const Stage &stage) {
    if (stage.is_reduction() || stage.axes.size() < 2 || holds_stages(s, stage.name) ||
        rolls(s.state().stage(stage.name)))
        return std::nullopt;
    const Reads reads = reads_of(s.op(), stage, kept_tensors(s.state()));
    if (const auto pairs = rows_of_pairs(stage, reads)) return pairs;
    if (calls_functions(stage)) return std::nullopt;
    return rows_that_share(s, stage, reads);
}

} // namespace kumiko::library
