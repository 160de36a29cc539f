#include "schedules/library/one_nest.h"

#include "dsl/extern.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "machine/machine.h"
#include "schedules/library/functions.h"
#include "schedules/library/structure.h"
#include "schedules/shared_loops.h"

#include <algorithm>

namespace kumiko::library {

namespace {

// The number of arrays that hardware prefetchers can follow at once.
constexpr size_t max_arrays = 10;

// Arrays read by the stage and by the stages that are computed in its loops.
std::set<std::string> arrays_read(const ScheduleState &state, const StageState &stage) {
    std::set<std::string> names;
    for (const Expr &e : stage.def.expressions()) names.merge(tensors_read(e));
    for (const StageState &inner : state.stages) {
        if (inner.placement.kind == Placement::Kind::At && inner.placement.consumer == stage.name())
            names.merge(arrays_read(state, inner));
    }
    return names;
}

// Function calls in the stage, and reads of inlined stages that call functions.
using Calls = std::set<Expr, Halide::Internal::IRDeepCompare>;
Calls functions_of(const ScheduleState &state, const StageState &s) {
    struct Find : Halide::Internal::IRGraphVisitor {
        using IRGraphVisitor::visit;
        const ScheduleState *state;
        Calls calls;
        void visit(const Halide::Internal::Call *op) override {
            const StageState *read = state->find(op->name);
            const bool inlined = read && read->placement.kind == Placement::Kind::Inline;
            if (is_function(op) || (inlined && !functions_of(*state, *read).empty())) calls.insert(op);
            IRGraphVisitor::visit(op);
        }
    } find;
    find.state = &state;
    for (const Expr &e : s.def.expressions()) e.accept(&find);
    return find.calls;
}

// Whether two sets of calls share one, or are both empty. In one nest, a shared call is computed
// once; different functions are separate long chains.
bool common_or_none(const Calls &a, const Calls &b) {
    if (a.empty() && b.empty()) return true;
    return std::any_of(a.begin(), a.end(), [&](const Expr &call) { return b.count(call) != 0; });
}

// Vector registers that hold partial results throughout the reduction.
int64_t accumulators(const StageState &s, const Machine &machine) {
    if (!s.def.is_reduction()) return 0;
    int64_t elements = 1;
    bool inside = false; // the loop at which they are kept
    for (const std::string &l : s.order) {
        const LoopState &loop = s.loop(l);
        const bool copied = loop.kind == LoopKind::Unrolled || loop.kind == LoopKind::Vectorized;
        if ((copied || inside) && !loop.reduction) elements *= Halide::Internal::as_const_int(loop.extent).value_or(1);
        inside = inside || (s.accumulate && s.accumulate->loop == l);
    }
    int64_t registers = 0;
    for (const Component &c : s.def.components)
        registers += (elements + machine.lanes(c.type.bits()) - 1) / machine.lanes(c.type.bits());
    return registers;
}

// The nesting depth of the stage in loops of other stages.
int depth_of(const ScheduleState &state, const StageState &s) {
    return s.placement.kind == Placement::Kind::At ? 1 + depth_of(state, state.stage(s.placement.consumer)) : 0;
}

// The indices at which other stages read this one.
using Places = std::set<Expr, Halide::Internal::IRDeepCompare>;
Places places_read(const ScheduleState &state, const std::string &stage) {
    Places all;
    for (const StageState &reader : state.stages) {
        for (const Expr &e : reader.def.expressions()) {
            for (const Halide::Internal::Call *read : tensor_reads(e)) {
                if (read->name == stage)
                    all.insert(Halide::Internal::Call::make(Int(32), "place", read->args,
                                                            Halide::Internal::Call::PureIntrinsic));
            }
        }
    }
    return all;
}

// Whether an iteration of the loop at which both are computed needs the same part of both. Stages
// at the root are computed whole.
bool same_parts(const ScheduleState &state, const std::string &a, const std::string &b) {
    if (state.stage(a).placement.kind != Placement::Kind::At) return true;
    const Places of_a = places_read(state, a), of_b = places_read(state, b);
    return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                      [](const Expr &x, const Expr &y) { return Halide::Internal::equal(x, y); });
}

// The innermost of the leader's `loops` outermost loops that the stage can share; "" if there is
// none. Inside of it, each stage may have its own vectors, unrolled copies and reduction.
std::string shared_loop(const ScheduleState &state, const std::string &name, const std::string &leader, size_t loops) {
    const StageState &l = state.stage(leader);
    for (size_t n = std::min(l.order.size(), loops); n-- > 0;) {
        if (!loop_conflict(state, name, leader, l.order[n])) return l.order[n];
        const LoopState &own = l.loop(l.order[n]);
        if (!own.reduction && own.kind != LoopKind::Vectorized && own.kind != LoopKind::Unrolled) break;
    }
    return "";
}

struct Group {
    std::string leader;
    std::set<std::string> arrays; // read, or written
    Calls calls;
    int64_t registers = 0;
    size_t loops = SIZE_MAX; // outermost loops of the leader that all stages share
};

// The partial results of a reduction, one for each lane of a block (reduce_row).
struct PartialSums {
    const StageState *stage = nullptr;
    int64_t block = 0; // lanes
    std::string lane;  // the loop over them
};

std::optional<PartialSums> partial_sums(const StageState &s) {
    if (!s.def.is_reduction() || s.def.axes.size() != 1 || !s.accumulate || s.shared ||
        s.placement.kind != Placement::Kind::Root)
        return std::nullopt;
    const auto block = constant_extent(s.def.axes[0]);
    if (!block || s.order.empty() || s.loop(s.order.back()).kind != LoopKind::Vectorized) return std::nullopt;
    return PartialSums{&s, *block, s.def.axes[0].name()};
}

// Whether the stage's elements, with the last axis in blocks, correspond to the steps of the
// reduction.
bool same_elements(const Stage &stage, const PartialSums &sums) {
    const std::vector<Axis> &steps = sums.stage->def.reduction_axes;
    if (stage.axes.size() != steps.size()) return false;
    for (size_t d = 0; d + 1 < steps.size(); d++) {
        if (stage.axes[d].name() != steps[d].name() ||
            !Halide::Internal::can_prove(stage.axes[d].extent() == steps[d].extent()))
            return false;
    }
    const auto elements = constant_extent(stage.axes.back()), blocks = constant_extent(steps.back());
    return elements && blocks && *elements > (*blocks - 1) * sums.block && *elements <= *blocks * sums.block;
}

} // namespace

bool join_partial_sums(Schedule &schedule, const Stage &stage) {
    if (stage.kind != Stage::Kind::Pointwise || is_extern(stage) || stage.reads_itself() || calls_functions(stage) ||
        schedule.state().stage(stage.name).placement.kind != Placement::Kind::Root)
        return false;
    const std::set<std::string> read = arrays_read(schedule.state(), schedule.state().stage(stage.name));
    for (const StageState &other : schedule.state().stages) {
        const auto sums = partial_sums(other);
        if (!sums || !same_elements(stage, *sums) || calls_functions(other.def)) continue;
        std::set<std::string> all = arrays_read(schedule.state(), other);
        const size_t apart_read = all.size() + read.size();
        all.insert(read.begin(), read.end());
        if (all.size() == apart_read || all.size() >= max_arrays) continue;
        Schedule joined = schedule;
        StageHandle S = joined.stage(stage.name);
        const std::string outer = other.def.reduction_axes.back().name();
        S.split(stage.axes.back().name(), sums->block, {.outer = outer, .inner = sums->lane, .tail = Tail::Mask});
        const int64_t lanes = std::min<int64_t>(vector_lanes(schedule.machine(), stage.type), sums->block);
        S.vectorize(sums->lane, lanes);
        if (lanes < sums->block) S.unroll(sums->lane + ".o");
        std::string innermost = outer; // innermost loop around the lanes
        for (const Relation &r : other.relations) {
            const auto *split = std::get_if<SplitRelation>(&r);
            if (!split || !other.loop(split->parent).reduction) continue;
            S.split(split->parent, split->factor, {.outer = split->outer, .inner = split->inner});
            if (split->parent == innermost) innermost = split->inner;
        }
        if (loop_conflict(joined.state(), stage.name, other.name(), innermost)) continue;
        S.compute_with(other.name(), innermost);
        schedule = joined;
        return true;
    }
    return false;
}

void share_nests(Schedule &schedule, const std::set<std::string> &left_out) {
    const ScheduleState &state = schedule.state();
    if (state.stages.size() > most_stages || state.op.stages().size() < 2) return;
    std::vector<std::pair<int, std::string>> stages; // hosts before the stages computed in them
    for (const StageState &s : state.stages) stages.emplace_back(depth_of(state, s), s.name());
    std::stable_sort(stages.begin(), stages.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    std::vector<Group> groups;
    for (const auto &[depth, name] : stages) {
        const StageState &s = schedule.state().stage(name);
        if (s.placement.kind == Placement::Kind::Inline || s.order.empty() || left_out.count(name)) continue;
        const Calls calls = functions_of(schedule.state(), s);
        const std::set<std::string> read = arrays_read(schedule.state(), s);
        const int64_t registers = accumulators(s, schedule.machine());
        std::string loop; // shared with the group that is found
        const auto joins = [&, name = name](const Group &g) {
            std::set<std::string> all = g.arrays;
            all.insert(read.begin(), read.end());
            const bool common = all.size() < g.arrays.size() + read.size();
            all.insert(name);
            return common && all.size() <= max_arrays && common_or_none(g.calls, calls) &&
                   g.registers + registers < schedule.machine().vector_registers &&
                   same_parts(schedule.state(), name, g.leader) &&
                   !(loop = shared_loop(schedule.state(), name, g.leader, g.loops)).empty();
        };
        const auto g = std::find_if(groups.begin(), groups.end(), joins);
        if (g != groups.end()) {
            const bool deeper = s.shared && s.shared->stage == g->leader &&
                                // than the loop at which stages are computed that both read
                                s.position(loop) > s.position(s.shared->loop);
            if (!s.shared || deeper) schedule.stage(name).compute_with(g->leader, loop);
            g->loops = std::min(g->loops, schedule.state().stage(g->leader).position(loop) + 1);
            g->arrays.insert(read.begin(), read.end());
            g->arrays.insert(name);
            g->registers += registers;
            g->calls.insert(calls.begin(), calls.end());
        } else {
            Group alone{name, read, calls, registers};
            alone.arrays.insert(name);
            groups.push_back(std::move(alone));
        }
    }
}

} // namespace kumiko::library
