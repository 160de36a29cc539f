#include "schedules/library/placement_rules.h"

#include "dsl/bounded.h"
#include "dsl/extern.h"
#include "dsl/halide_passes.h"
#include "dsl/inout.h"
#include "dsl/reads.h"
#include "schedules/library/anchor.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/fold_loops.h"
#include "schedules/library/held_stages.h"
#include "schedules/library/records.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/rows_of_block.h"
#include "schedules/library/structure.h"
#include "schedules/own_part.h"
#include "schedules/rolling.h"
#include "schedules/shared_loops.h"

namespace kumiko::library {

std::optional<BelowSharedLoops> below_shared_loops(const Schedule &s, const Stage &stage, const Stage &padding) {
    const auto readers = s.state().consumers(padding.name);
    if (readers.size() != 1) return std::nullopt;
    const Stage &reader = s.state().stage(readers[0]).def;
    size_t shared = std::min(stage.axes.size(), reader.axes.size());
    for (const Expr &e : reader.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            if (read->name != padding.name) continue;
            for (size_t d = 0; d < shared; d++) {
                const auto *v = read->args[d].as<Halide::Internal::Variable>();
                if (!v || v->name != reader.axes[d].name()) shared = d;
            }
        }
    }
    shared = std::min(shared, reader.axes.size() - 1); // the last axis is divided into vectors
    if (shared == 0 || reader.is_reduction()) return std::nullopt;
    return BelowSharedLoops{stage.name, reader.name, reader.axes[shared - 1].name()};
}

namespace {

// Whether `where` excludes steps of the reduction for some elements along the axis.
bool bounded_along(const Stage &stage, const std::string &axis) {
    const auto bounds = term_bounds(stage);
    return std::any_of(bounds.begin(), bounds.end(),
                       [&](const Expr &bound) { return Halide::Internal::expr_uses_var(bound, axis); });
}

} // namespace

std::map<std::string, RowsOfPart> hold_stages(Schedule &s, const std::set<std::string> &apart,
                                              const std::set<std::string> &unfinished, bool parallel) {
    const Op op = s.op();
    if (reads_before_update(op)) return {};
    const bool several = op.outputs().size() > 1;
    std::string host = several ? "" : op.outputs()[0], end;
    // Of several, the largest output whose loops others can share.
    for (const std::string &output : op.outputs()) {
        const Stage &stage = op.stage(output);
        if (!several || is_extern(stage) || stage.reads_itself() || !s.state().readers(output).empty()) continue;
        if (host.empty() || work(stage) > work(op.stage(host))) host = output;
    }
    if (host.empty()) return {};
    std::map<std::string, std::set<std::string>> fixed;
    for (const Stage &stage : op.stages()) {
        if (s.state().stage(stage.name).placement.kind != Placement::Kind::Root || stage.axes.empty()) continue;
        const bool tiled = gets_tile(op, stage, s.machine());
        if (tiled) fixed[stage.name].insert(rows_of_tile(stage));
        const bool along = folds_in_lanes(op, stage, s.machine());
        if (tiled || !along) fixed[stage.name].insert(stage.axes.back().name());
        for (const size_t rank : record_ranks(stage, s.machine())) // vectors may run across records
            fixed[stage.name].insert(stage.axes[stage.axes.size() - 1 - rank].name());
        if (!stage.is_reduction() || !end.empty() || finishing_reader(s, stage, unfinished) != host) continue;
        if (!along && !tiled) return {}; // a window, which finishes in its own loops
        if (tiled) end = stage.name;
    }
    if (!end.empty()) std::swap(host, end);
    // The host's partial results are made by rfactor, which must precede compute_at in its loops.
    if (folds_in_lanes(op, op.stage(host), s.machine()) && !gets_tile(op, op.stage(host), s.machine())) return {};
    const auto held = stages_to_hold(s, host, end, fixed, apart);
    if (!held) return {};
    // an output that is the epilogue of a tile or window runs in its loops
    for (const Stage &stage : op.stages()) {
        if (stage.is_reduction() && held->beside.count(finishing_reader(s, stage, unfinished)) &&
            (gets_tile(op, stage, s.machine()) || !folds_in_lanes(op, stage, s.machine())))
            return {};
    }
    if (!end.empty()) s.stage(host).finish_in(end);
    std::map<std::string, RowsOfPart> parts;
    const Stage &h = op.stage(host);
    const std::string rows = gets_tile(op, h, s.machine()) ? rows_of_tile(h) : "";
    LoopName blocks = held->loop;
    constexpr int64_t rows_of_block = 12; // whole register tiles; more would read unneeded keys
    if (held->beside.empty() && held->depth < h.axes.size() && rows == h.axes[held->depth].name() &&
        bounded_along(h, rows) && constant_extent(h.axes[held->depth]).value_or(0) >= 2 * rows_of_block) {
        blocks = s.stage(host).split(rows, rows_of_block, {rows + ".b", rows + ".r"}).first;
        for (const std::string &name : held->rows) parts[name] = {host, held->loop, rows_of_block};
    }
    // compute_with requires equal kinds of loops
    if (!held->beside.empty() && parallel && work(h) >= min_parallel_elements) {
        s.stage(host).parallel(h.axes[0].name());
        for (const std::string &name : held->beside) s.stage(name).parallel(h.axes[0].name());
    }
    for (const std::string &name : held->beside) s.stage(name).compute_with(host, held->loop);
    // consumers first
    for (auto stage = op.stages().rbegin(); stage != op.stages().rend(); ++stage) {
        if (held->stages.count(stage->name))
            s.stage(stage->name).compute_at(host, parts.count(stage->name) ? blocks.name : held->loop);
    }
    return parts;
}

bool one_element_of_iteration(const Schedule &s, const StageState &stage) {
    const Placement &at = stage.placement;
    const bool inside = at.kind == Placement::Kind::At;
    if (stage.def.kind != Stage::Kind::Pointwise || (!inside && !stage.shared)) return false;
    const StageState &host = s.state().stage(inside ? at.consumer : stage.shared->stage);
    const auto outside =
        host.order.begin() + static_cast<std::ptrdiff_t>(host.position(inside ? at.loop : stage.shared->loop) + 1);
    return std::all_of(stage.def.axes.begin(), stage.def.axes.end(),
                       [&](const Axis &a) { return std::find(host.order.begin(), outside, a.name()) != outside; });
}

bool computes_planes(const Schedule &s, const std::string &stage, const LoopName &loop) {
    return std::any_of(s.state().stages.begin(), s.state().stages.end(), [&](const StageState &other) {
        return rolls(other) && other.computed->consumer == stage && other.computed->loop == loop.name;
    });
}

void roll_padding(Schedule &s, const Stage &padding, const ElementwiseParameters &p) {
    // Rows of a ring; each ring recomputes its border rows.
    constexpr int64_t min_rows = 8, max_rows = 64;
    constexpr int64_t rings_of_thread = 4;
    const auto consumers = s.state().consumers(padding.name);
    if (padding.type.bits() >= 32 || consumers.size() != 1) return;
    const Stage reader = s.state().stage(consumers[0]).def; // directives replace the state
    if (reader.kind != Stage::Kind::Pointwise || is_extern(reader) || reader.reads_itself()) return;
    if (reader.axes.size() < 2 || reader.axes.size() != padding.axes.size() || !constant_extent(reader.axes.back()) ||
        s.state().stage(reader.name).placement.kind != Placement::Kind::Root || holds_stages(s, reader.name))
        return;
    const size_t last = reader.axes.size() - 1;
    std::set<int64_t> neighbours;
    auto kept = kept_tensors(s.state());
    kept.insert(padding.name);
    for (const auto &[tensor, index] : reads_of(s.op(), reader, kept)) {
        if (tensor != padding.name) continue;
        for (size_t d = 0; d <= last; d++) {
            const Expr axis = Halide::Internal::Variable::make(Int(32), reader.axes[d].name());
            const auto offset = Halide::Internal::as_const_int(Halide::Internal::simplify(index[d] - axis));
            if (!offset) return;
            if (d == last) neighbours.insert(*offset);
        }
    }
    if (neighbours.size() < 2) return;
    constexpr int64_t many_vectors = 8; // per row; only the first and the last have missing lanes
    if (*constant_extent(reader.axes.back()) >= many_vectors * vector_lanes(s.machine(), reader.type) &&
        rows_of_block(s, reader))
        return;
    const std::string rows = reader.axes[last - 1].name();
    const int64_t n = constant_extent(reader.axes[last - 1]).value_or(1 << 20),
                  shared = p.parallel ? n / (rings_of_thread * threads_of(s.machine())) : n;
    const auto [o, i] = s.stage(reader.name).split(rows, std::clamp(shared, min_rows, max_rows));
    s.stage(padding.name).store_at(reader.name, o).compute_at(reader.name, i);
}

std::set<std::string> stages_read_in_place(const Schedule &s, const StageDecisions &decided) {
    std::set<std::string> names;
    const Op op = s.op();
    if (reads_before_update(op)) return names;
    for (const Stage &stage : op.stages()) {
        if (stage.kind != Stage::Kind::Pointwise || is_extern(stage) || stage.reads_itself() || stage.axes.empty() ||
            !stage.components.empty() || holds_stages(s, stage.name) || decided.loops.count(stage.name) ||
            decided.places.count(stage.name) || s.state().stage(stage.name).placement.kind != Placement::Kind::Root ||
            (!op.is_output(stage.name) && op.stages().size() > most_stages))
            continue;
        const auto consumers = s.state().consumers(stage.name);
        const bool in_place = std::all_of(consumers.begin(), consumers.end(), [&](const std::string &name) {
            const StageState &reader = s.state().stage(name);
            return reader.def.kind == Stage::Kind::Pointwise && reader.placement.kind == Placement::Kind::Root &&
                   !is_extern(reader.def) && !reader.def.reads_itself() && reads_at_axes(reader.def, stage);
        });
        if (!consumers.empty() && in_place) names.insert(stage.name);
    }
    return names;
}

bool compute_before_readers(Schedule &s, const Stage &stage) {
    if (!s.state().stage(stage.name).finished_by.empty()) return false;
    std::set<std::string> hosts; // nests of the readers
    for (const std::string &name : s.state().consumers(stage.name)) hosts.insert(host_of_nest(s, name).name());
    std::string leader = *hosts.begin();
    for (const std::string &name : hosts) {
        if (!s.state().stage(name).shared) leader = name;
    }
    const StageState &host = s.state().stage(leader);
    std::string block; // the loop around vectors and unrolled copies
    for (const std::string &l : host.order) {
        const LoopKind kind = host.loop(l).kind;
        if (kind == LoopKind::Vectorized || kind == LoopKind::Unrolled) break;
        block = l;
    }
    const bool beside = std::all_of(hosts.begin(), hosts.end(), [&](const std::string &name) {
        return name == leader || runs_beside(s.state(), name, leader, block);
    });
    const bool inside = std::all_of(s.state().stages.begin(), s.state().stages.end(), [&](const StageState &other) {
        return other.placement.kind != Placement::Kind::At || other.placement.consumer != leader ||
               other.placement.loop == block;
    });
    if (block.empty() || !beside || !inside || !host.finished_by.empty() ||
        !not_own_part(s.state(), stage.name, leader, block).empty())
        return false;
    s.stage(stage.name).compute_at(leader, block);
    return true;
}

} // namespace kumiko::library
