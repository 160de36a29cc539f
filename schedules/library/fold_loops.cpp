#include "schedules/library/fold_loops.h"

#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "dsl/scatter.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/structure.h"
#include "schedules/rolling.h"

namespace kumiko::library {

bool reads_at_axes(const Stage &reader, const Stage &stage) {
    for (const Expr &e : reader.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            if (read->name == stage.name && !reads_at(read, stage.axes)) return false;
        }
    }
    return true;
}

namespace {

// Whether readers read the stage at its own axes only, also through inlined stages. These must also
// read, and be read, at their own axes; a stencil of clamped sums does not.
bool reads_at_axes_through_inlined(const Schedule &s, const Stage &stage) {
    for (const std::string &name : s.state().readers(stage.name)) {
        const StageState &r = s.state().stage(name);
        if (!reads_at_axes(r.def, stage)) return false;
        if (r.placement.kind == Placement::Kind::Inline && !reads_at_axes_through_inlined(s, r.def)) return false;
    }
    return true;
}

// Whether the index contains a reduction axis outside of the reads in it.
bool uses_reduction_axis(const Stage &stage, const Expr &index) {
    const Expr places = map_reads(index, [](const Halide::Internal::Call *read, const Expr &) {
        return Halide::Internal::make_zero(read->type);
    });
    return std::any_of(stage.reduction_axes.begin(), stage.reduction_axes.end(),
                       [&](const Axis &a) { return Halide::Internal::expr_uses_var(places, a.name()); });
}

} // namespace

std::string finishing_reader(const Schedule &s, const Stage &stage, const std::set<std::string> &unfinished) {
    const auto consumers = s.state().consumers(stage.name);
    if (s.op().is_output(stage.name) || consumers.size() != 1 || reads_before_update(s.op()) ||
        rolls(s.state().stage(stage.name)))
        return "";
    if (!s.state().stage(consumers[0]).finished_by.empty() || unfinished.count(consumers[0])) return "";
    const Stage &consumer = s.state().stage(consumers[0]).def;
    if (consumer.kind != Stage::Kind::Pointwise || is_extern(consumer) || consumer.reads_itself() ||
        !same_axes(stage, consumer))
        return "";
    if (!reads_at_axes_through_inlined(s, stage)) return "";
    return consumer.name;
}

void finish_in_reader(Schedule &s, StageHandle S, const Stage &stage, const std::set<std::string> &unfinished) {
    const std::string reader = finishing_reader(s, stage, unfinished);
    if (!reader.empty() && !holds_stages(s, reader)) S.finish_in(reader);
}

bool folds_in_lanes(const Op &op, const Stage &stage, const Machine &machine) {
    if (!stage.is_reduction()) return false;
    const Axis &last = stage.reduction_axes.back();
    if (reads_along(stage, last.name())) return true;
    const int64_t lanes = vector_lanes(machine, stage.type);
    if (constant_extent(last).value_or(2 * lanes) < 2 * lanes) return false;
    bool uses = false;
    for (const Expr &e : stage.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            for (const Expr &index : read->args) {
                if (!Halide::Internal::expr_uses_var(index, last.name())) continue;
                const auto *group = index.as<Halide::Internal::Div>();
                const auto of_group = group ? Halide::Internal::as_const_int(group->b) : std::nullopt;
                const auto in_group = group ? slope_of(group->a, last.name()) : std::nullopt;
                const bool same = of_group && in_group && std::abs(*in_group) * lanes <= *of_group;
                if (!same && !slope_of(index, last.name())) return false;
                uses = true;
            }
            const auto step = read->args.empty() ? std::nullopt : slope_of(read->args.back(), last.name());
            if (step && std::abs(*step) > shuffled_step) return false;
        }
    }
    const auto wide = [](const Halide::Internal::Call *read) { return read->type.bits() >= 32; };
    const auto farthest = farthest_step(op, stage, last.name()), narrow = farthest_step(op, stage, last.name(), wide);
    // Shuffles of bytes that are three elements apart cost more than they gain.
    return uses && farthest && *farthest <= shuffled_step && narrow != 3;
}

int64_t elements_of_step(const Stage &stage, const Machine &machine, int lanes, std::optional<int64_t> extent,
                         int64_t pieces) {
    constexpr int64_t vectors_of_row = 8, min_rows = 16;
    if (!extent || stage.components.size() != 1 || scattered(stage)) return lanes;
    const std::string &last = stage.axes.back().name();
    int64_t vectors = 1, steps = 1;
    for (const Axis &a : stage.reduction_axes) steps *= constant_extent(a).value_or(min_rows);
    for (const Expr &e : stage.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            const auto uses = [&](const Expr &index) { return Halide::Internal::expr_uses_var(index, last); };
            if (read->args.empty() || !uses(read->args.back())) continue;
            if (uses_reduction_axis(stage, read->args.back())) return lanes;
            for (const Expr &index : read->args) {
                if (reads_data(index) && !uses(index))
                    vectors = std::max<int64_t>(vectors, accumulator_registers(machine));
                else if (!uses(index) && uses_reduction_axis(stage, index))
                    vectors = std::max(vectors, steps >= min_rows ? vectors_of_row : 1);
            }
        }
    }
    const int64_t most = std::min(vectors * lanes, (*extent + pieces - 1) / pieces);
    return balanced_block(*extent, std::max<int64_t>(most, lanes), lanes);
}

void finish_windows(Schedule &s, StageHandle S, const Stage &stage, const LoopName &run, size_t inner,
                    const std::set<std::string> &unfinished) {
    constexpr int64_t short_row = 8, short_window = 16;
    if (stage.components.size() != 1 || scattered(stage)) return;
    const StageState &state = S.state();
    const size_t from = state.position(run.name) + 1, to = state.order.size() - inner;
    for (size_t d = 0; d < state.order.size(); d++) {
        if (state.loop(state.order[d]).reduction != (d >= from && d < to)) return;
    }
    const std::string window = state.order[to - 1];
    const auto n = constant_extent(stage.reduction_axes.back());
    s.accumulate_in(stage.name, "registers", run);
    if (n && *n <= short_row && window == stage.reduction_axes.back().name() && inner == 1) {
        S.unroll(window);
        // includes the window's rows, which are at the same places for all vectors
        int64_t steps = *n;
        for (size_t d = stage.reduction_axes.size() - 1; d-- > 0;) {
            const Axis &rows = stage.reduction_axes[d];
            steps *= constant_extent(rows).value_or(short_window + 1);
            if (steps > short_window || S.state().order[from + d] != rows.name()) break;
            S.unroll(rows.name());
        }
    }
    finish_in_reader(s, S, stage, unfinished);
}

} // namespace kumiko::library
