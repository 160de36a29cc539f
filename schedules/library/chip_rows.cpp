#include "schedules/library/chip_rows.h"

#include "dsl/reads.h"
#include "machine/machine.h"
#include "schedules/library/structure.h"
#include "support/error.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::library {

namespace {

// The op's rows. Every stage has the output's leading axes, optionally followed by the row axis.
// Reductions run along the last axis of the tensors that they read.
struct ChipRowsRoles {
    const Stage *output = nullptr;
    size_t leading = 0;     // axes that select a row
    size_t distributed = 0; // the longest of these, which is distributed over units
    bool whole_row = false; // the output has the row axis too
    int64_t row = 1;        // extent of the row axis
    std::vector<int64_t> extents;
    int lanes = 2;
    bool has_row_axis(const Stage &s) const { return s.is_reduction() || s.axes.size() > leading; }
    // by_rows: the input has the axes that select rows; otherwise all rows share it. along: it has
    // the row axis.
    bool by_rows(const Input &in) const {
        return in.axes.size() >= leading && in.axes[distributed].name() == output->axes[distributed].name();
    }
    bool along(const Input &in) const { return in.axes.size() > (by_rows(in) ? leading : 0); }
};

// Whether the reduction axis is used in the last index only, for each tensor read.
bool reads_along(const Stage &s) {
    for (const Component &c : s.components) {
        for (const Halide::Internal::Call *read : tensor_reads(c.term)) {
            for (size_t d = 0; d + 1 < read->args.size(); d++) {
                for (const Axis &k : s.reduction_axes) {
                    if (Halide::Internal::expr_uses_var(read->args[d], k.name())) return false;
                }
            }
        }
    }
    return true;
}

std::optional<ChipRowsRoles> chip_rows_roles(const Op &op) {
    if (op.outputs().size() != 1) return std::nullopt;
    ChipRowsRoles r;
    r.output = &op.stage(op.outputs()[0]);
    if (r.output->axes.empty()) return std::nullopt;
    const Stage *reduction = nullptr;
    for (const Stage &s : op.stages()) {
        if (s.kind == Stage::Kind::Padding) return std::nullopt;
        for (const auto *axes : {&s.axes, &s.reduction_axes}) {
            for (const Axis &a : *axes) {
                if (!constant_extent(a)) return std::nullopt;
            }
        }
        if (!s.is_reduction()) {
            if (s.type.bytes() == 2) r.lanes = 4;
            continue;
        }
        const bool index = s.reduction_kind == "argmax" || s.reduction_kind == "argmin";
        // the tree adds and compares
        if (s.reduction_kind == "product" || !reads_along(s)) return std::nullopt;
        if (s.reduction_axes.size() != 1 || s.axes.empty() || s.components.size() != (index ? 2 : 1))
            return std::nullopt;
        if (index && op.stages().size() > 1) return std::nullopt; // only as the sole stage
        if (!s.properties.associative || !s.properties.commutative) return std::nullopt;
        if (reduction && reduction->axes.size() != s.axes.size()) return std::nullopt;
        reduction = &s;
        if (s.components.back().type.bytes() == 2) r.lanes = 4;
        r.row = std::max(r.row, *constant_extent(s.reduction_axes.front()));
    }
    if (!reduction) return std::nullopt;
    for (const Input &in : op.inputs()) {
        if (in.type.bytes() == 2) r.lanes = 4;
    }
    r.leading = reduction->axes.size();
    if (r.output->axes.size() != r.leading && r.output->axes.size() != r.leading + 1) return std::nullopt;
    r.whole_row = r.output->axes.size() == r.leading + 1;
    for (const Stage &s : op.stages()) {
        if (s.axes.size() < r.leading || s.axes.size() > r.leading + 1) return std::nullopt;
        for (size_t d = 0; d < r.leading; d++) {
            if (s.axes[d].name() != r.output->axes[d].name()) return std::nullopt;
        }
    }
    for (size_t d = 0; d < r.leading; d++) r.extents.push_back(*constant_extent(r.output->axes[d]));
    r.distributed = size_t(std::max_element(r.extents.begin(), r.extents.end()) - r.extents.begin());
    return r;
}

// Whether a stage is computed on its own rather than inlined. Elementwise stages along the row are
// inlined if they have one consumer or if rows stream through LM (`pass`).
bool kept(const Schedule &s, const ChipRowsRoles &r, const Stage &stage, bool pass) {
    if (stage.is_reduction() || stage.name == r.output->name) return true;
    return !r.has_row_axis(stage) || (!pass && s.state().consumers(stage.name).size() > 1);
}

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// LW per PE of the values that exist once per row, for `rows` rows.
int64_t scalar_words(const Schedule &s, const ChipRowsRoles &r, int64_t rows) {
    int64_t n = 0;
    for (const Stage &stage : s.op().stages()) {
        if (stage.name == r.output->name || (!stage.is_reduction() && r.has_row_axis(stage))) continue;
        n += rows * r.lanes * (stage.is_reduction() ? stage.components.front().type : stage.type).bytes() / 8;
    }
    return n;
}

// Whether these values are held in registers: they may take an eighth of GRF1.
bool scalars_in_registers(const Schedule &s, const Machine &machine, const ChipRowsRoles &r, int64_t rows) {
    return scalar_words(s, r, rows) * 8 <= machine.level("GRF1").bytes / 8;
}

// Words of a row per PE. `mabs`: MABs, over all L1Bs, that share the row.
int64_t words_of_row(const Machine &machine, const ChipRowsRoles &r, int64_t mabs) {
    const int64_t pes = machine.find_unit("PE")->count * mabs;
    return round_up((r.row + r.lanes - 1) / r.lanes, pes) / pes;
}

// The number of words with which every PE gets a part of each 64-LW block of DRAM.
int64_t unit_of_steps(const Machine &machine, int64_t mabs) {
    return std::max<int64_t>(1, 64 / (machine.find_unit("PE")->count * mabs));
}

// Whether `rows` rows, `steps` words of each (0: all), fit LM0 and LM1 of a PE. `twice`: with the
// next inputs beside them.
bool fits(const Op &op, const Machine &machine, const ChipRowsRoles &r, int64_t rows, int64_t mabs, int64_t steps,
          bool twice) {
    const int64_t of_row = steps ? steps : words_of_row(machine, r, mabs);
    int64_t lm0 = 0, lm1 = 0;
    for (const Input &in : op.inputs()) {
        const int64_t width = r.lanes * in.type.bytes() / 8;
        const bool by_rows = r.by_rows(in), along = r.along(in);
        const int64_t n = width * (along ? of_row : 1) * (by_rows ? rows : 1);
        lm0 += n;
        if (twice && (by_rows || (steps && along))) lm1 += n;
    }
    const Schedule s(op, machine);
    for (const Stage &stage : op.stages()) {
        if (stage.is_reduction() || stage.name == r.output->name || !r.has_row_axis(stage) ||
            !kept(s, r, stage, steps > 0))
            continue;
        lm1 += rows * of_row * r.lanes * stage.type.bytes() / 8;
    }
    if (!scalars_in_registers(s, machine, r, rows)) lm1 += scalar_words(s, r, rows);
    return std::max(lm0, lm1) <= machine.level("LM0").bytes / 8;
}

} // namespace

bool is_chip_rows(const Op &op) { return chip_rows_roles(op).has_value(); }

bool chip_rows_fits(const Op &op, const Machine &machine) {
    const ChipRowsRoles r = *chip_rows_roles(op);
    return fits(op, machine, r, r.lanes, machine.unit("MAB").count, 0, false);
}

bool chip_rows_fill(const Op &op, const Machine &machine) {
    const ChipRowsRoles r = *chip_rows_roles(op);
    int64_t rows = 1;
    for (size_t d = 0; d < r.leading; d++) rows *= r.extents[d];
    return rows >= 64 * int64_t(machine.units_in_all("L1B"));
}

ChipRowsParameters chip_rows_parameters(const Op &op, const Machine &machine) {
    const ChipRowsRoles r = *chip_rows_roles(op);
    ChipRowsParameters p;
    std::vector<int64_t> legal;
    const int64_t all = machine.find_unit("MAB")->count, pes = machine.find_unit("PE")->count;
    for (int64_t m = 1; m <= all; m *= 2) legal.push_back(m);
    // All units that share a row hold its one result; a block of 64 LW of results needs all MABs.
    if (legal.back() != all || !r.whole_row) legal = {all};
    int64_t mabs = legal.back();
    for (size_t i = legal.size(); i-- > 0;) {
        if (legal[i] * pes * r.lanes >= r.row) mabs = legal[i];
    }
    p.mabs = Tile::nearest(mabs, legal);
    // Rows that do not fit stream through LM, in the largest steps for which four rows fit.
    const bool whole = chip_rows_fits(op, machine);
    const int64_t unit = unit_of_steps(machine, p.mabs), of_row = words_of_row(machine, r, p.mabs);
    std::vector<int64_t> steps(whole ? 1 : 0, 0);
    for (int64_t n = unit; n == unit || n < of_row; n *= 2) {
        if (n == unit || fits(op, machine, r, 4, p.mabs, n, true)) steps.push_back(n);
    }
    p.steps = Tile(whole ? 0 : steps.back(), steps);
    // Rows at a time: as many as fit while every unit has some. With 16 or more, sums need not wait
    // for one another.
    const int64_t registers = machine.level("GRF0").bytes / 8;
    std::vector<int64_t> rows;
    for (int64_t n = r.lanes; n <= 64; n *= 2) {
        // LW per row
        const int64_t each = r.output->is_reduction() && r.output->components.size() > 1 ? 8 : 4;
        if (n == r.lanes || (fits(op, machine, r, n, p.mabs, p.steps, true) && each * n <= registers))
            rows.push_back(n);
    }
    const int64_t l1bs = machine.units_in_all("L1B") * (all / p.mabs);
    int64_t wish = rows.front();
    for (const int64_t n : rows) {
        if (r.whole_row && n > 4 && 2 * r.lanes * n > registers)
            continue; // values computed per element need registers too
        if (n <= (whole ? 16 : 4) &&
            (!r.whole_row || n <= 4 || n <= r.lanes * 2 || r.extents[r.distributed] >= n * l1bs))
            wish = n;
    }
    p.rows = Tile::nearest(wish, rows);
    // With few rows, or a remainder, some L1Bs are idle. Sharing rows must save 10 %, because the
    // tree takes time.
    const int64_t of_l2b = machine.unit("L1B").count, units = machine.units_in_all("L1B") / of_l2b;
    const auto rounds = [&](int64_t units) {
        return (r.extents[r.distributed] + p.rows * units - 1) / (p.rows * units);
    };
    p.wide = whole ? Flag(false, {false}) : Flag(10 * rounds(units) < 9 * of_l2b * rounds(units * of_l2b));
    return p;
}

namespace {

// The loops of the output over blocks of rows, and those of the stages kept inside of them.
class ChipRowsLoops {
public:
    ChipRowsLoops(const Op &op, const Machine &machine, const ChipRowsRoles &r, const ChipRowsParameters &p)
        : op_(op), machine_(machine), r_(r), p_(p), s_(op, machine) {}

    Schedule schedule() {
        for (const Stage &stage : op_.stages()) {
            if (!kept(s_, r_, stage, pass_)) s_.stage(stage.name).inline_into();
        }
        std::vector<LoopName> order = distribute_rows();
        append_row(order);
        around_[r_.output->name] = at_;
        for (size_t n = op_.stages().size(); n-- > 0;) { // consumers before producers
            const Stage &stage = op_.stages()[n];
            if (stage.name != r_.output->name && kept(s_, r_, stage, pass_)) schedule_kept(stage);
        }
        place_inputs();
        return std::move(s_);
    }

private:
    StageHandle output() { return s_.stage(r_.output->name); }

    // Some rows per L1B at a time; its other MABs, L1Bs, L2Bs and groups take others. Returns the
    // loops, outermost first, down to the loop over blocks of rows, which becomes at_.
    std::vector<LoopName> distribute_rows() {
        StageHandle Y = output();
        Y.split(rows_axis_, p_.rows, {"rows", "row"});
        at_ = "rows";
        std::vector<LoopName> order;
        const auto distribute = [&](int64_t count, const std::string &name, const std::string &level) {
            Y.split(at_, count, {name + ".o", name});
            at_ = name + ".o";
            Y.bind(name, level);
            order.insert(order.begin(), name);
        };
        const int64_t all_mabs = machine_.find_unit("MAB")->count;
        if (p_.mabs < all_mabs) distribute(all_mabs / p_.mabs, "rows.mab", "MAB");
        if (!wide_) distribute(l1bs_, "rows.l1b", "L1B");
        distribute(machine_.find_unit("L2B")->count, "rows.l2b", "L2B");
        distribute(machine_.find_unit("group")->count, "rows.group", "group");
        for (size_t d = 0; d < r_.leading; d++) {
            if (d != r_.distributed) order.push_back(r_.output->axes[d].name());
        }
        order.push_back(at_);
        return order;
    }

    // Distributes an axis along the row over lanes, PEs and MABs. The rest stays in time, in loop
    // "<axis>.t", or in tiles of it.
    void distribute_along(StageHandle S, const std::string &axis) {
        S.split(axis, r_.lanes, {axis + ".w", axis + ".v"});
        S.split(axis + ".w", pes_, {axis + ".m", axis + ".pe"});
        S.split(axis + ".m", p_.mabs, {axis + (pass_ ? ".u" : ".t"), axis + ".mab"});
        if (pass_) {
            const int64_t units = wide_ ? p_.mabs * l1bs_ : int64_t(p_.mabs);
            const std::string rest = axis + (wide_ ? ".l" : ".u");
            if (wide_) {
                S.split(axis + ".u", l1bs_, {rest, axis + ".l1b"});
                S.bind(axis + ".l1b", "L1B");
            }
            const int64_t steps =
                balanced_block(words_of_row(machine_, r_, units), p_.steps, unit_of_steps(machine_, units));
            S.split(rest, steps, {axis + ".tile", axis + ".t"});
        }
        S.vectorize(axis + ".v").bind(axis + ".pe", "PE").bind(axis + ".mab", "MAB");
    }

    // Appends the output's loops inside of a block of rows, and sets their order.
    void append_row(std::vector<LoopName> &order) {
        StageHandle Y = output();
        const bool reduces = r_.output->is_reduction();
        if (reduces || r_.whole_row) {
            const std::string j = reduces ? r_.output->reduction_axes.front().name() : r_.output->axes.back().name();
            distribute_along(Y, j);
            if (wide_) order.push_back(j + ".l1b");
            order.insert(order.end(), {j + ".mab", j + ".pe"});
            if (pass_) order.push_back(tiles_[r_.output->name] = j + ".tile");
            order.insert(order.end(), {"row", j + ".t", j + ".v"});
        } else {
            // All PEs hold the values of rows: each PE stores some, each lane one.
            Y.split("row", r_.lanes, {"row.w", "row.v"});
            if (p_.rows >= r_.lanes * pes_) {
                Y.split("row.w", pes_, {"row.t", "row.pe"});
                Y.bind("row.pe", "PE");
                for (const char *l : {"row.pe", "row.t", "row.v"}) order.push_back(l);
            } else {
                for (const char *l : {"row.w", "row.v"}) order.push_back(l);
            }
        }
        Y.reorder(order);
        if (!reduces && !r_.whole_row) Y.vectorize("row.v");
        if (reduces) s_.accumulate_in(r_.output->name, "GRF0", at_);
    }

    // The loops of a stage that is computed for each block of rows.
    void schedule_kept(const Stage &stage) {
        StageHandle S = s_.stage(stage.name);
        S.compute_at(r_.output->name, at_);
        S.split(rows_axis_, p_.rows, {"rows", "row"});
        around_[stage.name] = "rows";
        std::vector<LoopName> own;
        const bool has_row = r_.has_row_axis(stage);
        const std::string j = stage.is_reduction() ? stage.reduction_axes.front().name() : stage.axes.back().name();
        if (has_row) {
            distribute_along(S, j);
            own = {j + ".mab", j + ".pe"};
            if (wide_) own.insert(own.begin(), j + ".l1b");
        }
        for (size_t d = 0; d < r_.leading; d++) {
            if (d != r_.distributed) own.push_back(stage.axes[d].name());
        }
        own.push_back("rows");
        if (has_row && pass_) own.push_back(tiles_[stage.name] = j + ".tile");
        own.push_back("row");
        if (has_row) {
            own.push_back(j + ".t");
            own.push_back(j + ".v");
        }
        S.reorder(own);
        const bool scalar = stage.is_reduction() || !has_row;
        S.place_in(scalar && scalars_in_registers(s_, machine_, r_, p_.rows) ? "GRF1" : "LM1");
    }

    void place_inputs() {
        const bool twice = fits(op_, machine_, r_, p_.rows, p_.mabs, p_.steps, true) ||
                           !fits(op_, machine_, r_, p_.rows, p_.mabs, p_.steps, false);
        for (const Input &in : op_.inputs()) {
            for (const auto &[stage, loop] : around_) {
                const auto readers = s_.state().consumers(in.name);
                if (std::find(readers.begin(), readers.end(), stage) == readers.end()) continue;
                const bool passes = r_.along(in) && tiles_.contains(stage);
                auto copy = s_.place_in(in.name, "LM0", stage, passes ? tiles_[stage] : loop);
                if (twice && (r_.by_rows(in) || passes)) copy.double_buffer();
            }
        }
    }

    const Op &op_;
    const Machine &machine_;
    const ChipRowsRoles &r_;
    const ChipRowsParameters &p_;
    Schedule s_;
    // Whether rows pass through LM; whether all L1Bs share a row.
    const bool pass_ = p_.steps > 0, wide_ = pass_ && p_.wide;
    const int64_t l1bs_ = machine_.find_unit("L1B")->count, pes_ = machine_.find_unit("PE")->count;
    // The axis of which each unit takes a part.
    const std::string rows_axis_ = r_.output->axes[r_.distributed].name();
    std::string at_; // the output's loop over blocks of rows
    // Stages that rows stream through: the loop over tiles.
    std::map<std::string, std::string> tiles_;
    // Stage to the loop at which its operands are copied.
    std::map<std::string, std::string> around_;
};

} // namespace

Schedule schedule_chip_rows(const Op &op, const Machine &machine, const ChipRowsParameters &p) {
    const ChipRowsRoles r = *chip_rows_roles(op);
    return ChipRowsLoops(op, machine, r, p).schedule();
}

} // namespace kumiko::library
