// One file, because it is one class: the rules that place and schedule the stages of an op.
#include "schedules/library/elementwise.h"

#include "dsl/bounded.h"
#include "dsl/extern.h"
#include "dsl/halide_passes.h"
#include "dsl/inout.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "dsl/recurrence.h"
#include "dsl/scatter.h"
#include "schedules/library/anchor.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/fold_loops.h"
#include "schedules/library/functions.h"
#include "schedules/library/held_recurrences.h"
#include "schedules/library/inlining.h"
#include "schedules/library/one_nest.h"
#include "schedules/library/placement_rules.h"
#include "schedules/library/records.h"
#include "schedules/library/recurrence_loops.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/rolled_stages.h"
#include "schedules/library/rows_of_block.h"
#include "schedules/library/scatter.h"
#include "schedules/library/streams.h"
#include "schedules/library/structure.h"
#include "schedules/library/tables.h"
#include "schedules/library/winograd.h"
#include "schedules/library/winograd_roles.h"
#include "schedules/own_part.h"
#include "schedules/primitive.h"
#include "schedules/primitives/expand.h"
#include "schedules/rolling.h"
#include "schedules/shared_loops.h"
#include "support/error.h"

#include <nlohmann/json.hpp>

#include <numeric>

namespace kumiko::library {

namespace {

// Elements or steps of a parallel task: fewer tasks than iterations, of a microsecond or more.
constexpr int64_t elements_of_task = 1 << 13;

// Iterations per parallel task of a loop with `n` iterations.
int64_t iterations_of_task(const Stage &s, int64_t n) { return elements_of_task / std::max<int64_t>(1, work(s) / n); }

// A schedule by the rules, except where a stage's decisions are given.
class RuleSchedule {
public:
    RuleSchedule(const Op &op, const Machine &machine, const ElementwiseParameters &p, const StageDecisions &decided)
        : op_(op), machine_(machine), p_(p), decided_(decided), s_(op, machine) {}

    Schedule schedule() {
        place_as_decided();
        inline_stages();
        hold_and_roll();
        read_in_place_ = stages_read_in_place(s_, decided_);
        schedule_nests();
        const auto &outputs = op_.outputs();
        if (std::none_of(outputs.begin(), outputs.end(), [&](const auto &o) { return splits_lines_of_rows(s_, o); }))
            stream_large_outputs(s_);
        return std::move(s_);
    }

private:
    // The loops of one stage while they are split.
    struct Loops {
        const Stage &stage;
        StageHandle S;
        std::string last; // the innermost loop of the results
        std::optional<int64_t> extent;
        int widest, lanes;  // of vectors for the stage's type, and of those that `last` fills
        bool inside;        // computed at a loop of another stage
        LoopName outer;     // the outermost loop, skipping loops of one iteration
        bool whole = false; // partial results are kept through the outer loop's only iteration
    };

    void place_as_decided() {
        for (const Stage &stage : op_.stages()) {
            const auto place = decided_.places.find(stage.name);
            if (place == decided_.places.end()) continue;
            if (place->second == StageDecisions::Place::Inline) {
                s_.stage(stage.name).inline_into();
            } else {
                apart_.insert(stage.name);
                if (stage.kind == Stage::Kind::Padding) s_.stage(stage.name).compute_root();
            }
        }
    }

    bool holds(const std::string &name) const {
        return holds_stages(s_, name) ||
               std::any_of(below_.begin(), below_.end(), [&](const auto &b) { return b.reader == name; });
    }

    // Inlining a pointwise stage with one reader costs nothing. A stage that is read several times
    // through padding is kept for the elements that share it.
    void inline_stages() {
        std::map<std::string, int64_t> inlined; // operations of inlined stages, counted as trees
        for (const Stage &stage : op_.stages()) {
            if (decided_.places.count(stage.name)) continue;
            if (stage.kind != Stage::Kind::Pointwise || op_.is_output(stage.name) || stage.reads_itself()) continue;
            if (is_extern(stage)) continue;
            if (in_place_) continue; // readers of an updated tensor are computed before the update
            const auto readers = s_.state().readers(stage.name);
            const Stage *padding = readers.size() == 1 ? &s_.state().stage(readers[0]).def : nullptr;
            if (!holds(stage.name) && pays_to_inline(s_, stage, inlined)) {
                s_.stage(stage.name).inline_into();
            } else if (padding && padding->kind == Stage::Kind::Padding && !decided_.hold) {
                if (const auto loop = below_shared_loops(s_, stage, *padding)) below_.push_back(*loop);
            } else if (inlines_into_reader(stage, inlined)) {
                s_.stage(stage.name).inline_into();
            }
        }
    }

    // Whether the stage has one reader that is no reduction, and costs little more in it.
    bool inlines_into_reader(const Stage &stage, std::map<std::string, int64_t> &inlined) {
        const auto consumers = s_.state().consumers(stage.name);
        if (consumers.size() != 1) return false;
        const Stage &reader = s_.state().stage(consumers[0]).def;
        return !reader.is_reduction() && !is_extern(reader) && !holds(stage.name) &&
               !divides_for_each_lane(stage, reader) &&
               !(calls_functions(stage) && (reader.axes.size() > stage.axes.size() || reader.reads_itself())) &&
               inlines_cheaply(op_, stage, reader, inlined);
    }

    // Computes stages at loops of others, or in rings of planes.
    void hold_and_roll() {
        std::set<std::string> with_own_loops = apart_;
        for (const auto &[name, loops] : decided_.loops) with_own_loops.insert(name);
        if (decided_.hold) {
            decided_.hold(s_);
        } else if (in_place_ || !roll_stages(s_, with_own_loops, p_.parallel)) {
            for (const BelowSharedLoops &b : below_) s_.stage(b.stage).compute_at(b.reader, b.loop);
            parts_ = hold_stages(s_, apart_, decided_.unfinished, p_.parallel);
        }
        apart_ = std::move(with_own_loops);
        if (!decided_.hold && !in_place_) hold_recurrences(s_, apart_);
        for (const Stage &stage : op_.stages()) {
            if (stage.kind != Stage::Kind::Padding || in_place_ || decided_.places.count(stage.name)) continue;
            const auto readers = s_.state().consumers(stage.name);
            const auto is_made = [&](const std::string &r) { return decided_.loops.count(r) != 0; };
            if (std::none_of(readers.begin(), readers.end(), is_made)) roll_padding(s_, stage, p_);
        }
    }

    // Whether the stage may join the nest of a reduction to one value, which gets its loops first.
    bool may_join(const Stage &stage) const {
        const auto folds_as_many = [&](const Stage &other) {
            return other.axes.empty() && other.reduction_axes.size() == stage.axes.size();
        };
        return std::any_of(op_.stages().begin(), op_.stages().end(), folds_as_many) && decided_.share_nests &&
               !in_place_ && stage.kind == Stage::Kind::Pointwise && !decided_.loops.count(stage.name) &&
               !decided_.places.count(stage.name) && !holds_stages(s_, stage.name) &&
               !(p_.parallel && work(stage) >= min_parallel_elements);
    }

    // Splits the loops of all stages, and joins nests.
    void schedule_nests() {
        for (const Stage &stage : op_.stages()) {
            if (!read_in_place_.count(stage.name) && !may_join(stage)) schedule_loops(stage);
        }
        for (const Stage &stage : op_.stages()) {
            if (!read_in_place_.count(stage.name) && may_join(stage) && !join_partial_sums(s_, stage))
                schedule_loops(stage);
        }
        if (decided_.share_nests) share_nests(s_, read_in_place_);
        bool some_apart = false; // some outputs could still share a nest
        for (auto stage = op_.stages().rbegin(); stage != op_.stages().rend(); ++stage) {
            if (!read_in_place_.count(stage->name)) continue;
            const bool placed = decided_.share_nests && compute_before_readers(s_, *stage);
            schedule_loops(*stage);
            some_apart = some_apart || !placed;
        }
        if (decided_.share_nests && some_apart) share_nests(s_);
    }

    bool parallel_pays(const Stage &stage) const { return p_.parallel && work(stage) >= min_parallel_elements; }

    void schedule_loops(const Stage &stage) {
        StageHandle S = s_.stage(stage.name);
        if (S.state().placement.kind == Placement::Kind::Inline || is_extern(stage)) return;
        if (!S.state().finished_by.empty()) return;
        if (one_element_of_iteration(s_, S.state())) return;
        if (const auto loops = decided_.loops.find(stage.name); loops != decided_.loops.end()) {
            loops->second(s_);
            return;
        }
        if (schedule_reduction_alone(stage)) return;
        if (visits_elements(stage) && !in_place_ && !holds_stages(s_, stage.name)) {
            const int64_t block = columns_together(stage, machine_);
            const bool inside = S.state().placement.kind == Placement::Kind::At;
            visit_elements(s_, stage, block, !inside && parallel_pays(stage));
            return;
        }
        if (stage.axes.empty()) {
            if (folds_along(stage))
                reduce_row(s_, stage.name, vector_lanes(machine_, stage.type), partial_vectors(stage));
            return;
        }
        if (stage.reads_itself())
            schedule_recurrence(s_, stage, vector_lanes(machine_, stage.type), p_);
        else
            schedule_elements(stage, S);
    }

    // Whether the stage is computed in each step of a recurrence.
    bool is_in_steps(const std::string &name) const {
        const Placement &at = s_.state().stage(name).placement;
        if (at.kind != Placement::Kind::At) return false;
        const Stage &host = s_.state().stage(at.consumer).def;
        return host.takes_steps() && at.loop == host.step_axis;
    }

    // Copies of inputs that are made in each step are made once, before all.
    void copy_before_steps() {
        std::vector<std::string> copies;
        for (const StageState &copy : s_.state().stages) {
            if (!copy.is_copy || copy.placement.kind != Placement::Kind::At) continue;
            const StageState *view = s_.state().find(copy.copied);
            const std::set<std::string> sources = view && view->placement.kind == Placement::Kind::Inline
                                                      ? tensors_read(view->def.value)
                                                      : std::set<std::string>{copy.copied};
            const bool of_inputs = std::all_of(sources.begin(), sources.end(),
                                               [&](const std::string &t) { return s_.state().is_input(t); });
            if (of_inputs && is_in_steps(copy.placement.consumer)) copies.push_back(copy.name());
        }
        for (const std::string &copy : copies) s_.stage(copy).compute_root();
    }

    // Schedules a reduction at the root, or in the steps of a recurrence, by the library schedule
    // of an op that consists of it.
    bool schedule_reduction_alone(const Stage &stage) {
        const bool in_steps = is_in_steps(stage.name);
        const auto at_root = [&](const std::string &name) {
            return (in_steps ? is_in_steps(name) : s_.state().stage(name).placement.kind == Placement::Kind::Root) &&
                   !holds_stages(s_, name);
        };
        // The stage moves to the place of the reader in which it is finished.
        const auto ends_at_root = [&] {
            const std::string end = finishing_reader(s_, stage, decided_.unfinished);
            return end.empty() || at_root(end);
        };
        if (!stage.is_reduction() || in_place_ || !at_root(stage.name) || !ends_at_root() ||
            !schedule_as_alone(s_, stage, p_.parallel && !in_steps))
            return false;
        if (in_steps) copy_before_steps();
        finish_in_reader(s_, s_.stage(stage.name), stage, decided_.unfinished);
        return true;
    }

    // Partial results of many components spill, and horizontal reduction of them costs more than
    // strided loads.
    static bool has_many_values(const Stage &stage) {
        constexpr size_t max_values = 4;
        return stage.components.size() > max_values;
    }

    // Vectors of partial results in the reduction of a row. Bounded rows begin and end anywhere.
    int64_t partial_vectors(const Stage &stage) const {
        constexpr int steps_of_bounded_row = 16, vectors_of_row = 4;
        if (has_many_values(stage)) return 1;
        return stage.bounded ? std::max(1, steps_of_bounded_row / vector_lanes(machine_, stage.type)) : vectors_of_row;
    }

    static bool folds_in_any_order(const Stage &stage) {
        return !stage.is_reduction() || (stage.properties.associative && stage.properties.commutative);
    }

    bool folds_along(const Stage &stage) const {
        return folds_in_any_order(stage) && !in_place_ && !scattered(stage) && folds_in_lanes(op_, stage, machine_);
    }

    // The loops of a stage with axes that does not read itself.
    void schedule_elements(const Stage &stage, StageHandle S) {
        const int widest = vector_lanes(machine_, stage.type);
        const auto [last, extent] = join_last_axes(op_, s_, S, stage, widest * p_.unroll);
        Loops l{stage,
                S,
                last,
                extent,
                widest,
                fitting_lanes(stage.type, widest, extent),
                S.state().placement.kind == Placement::Kind::At,
                S.state().order.front()};
        for (const std::string &name : S.state().order) {
            if (Halide::Internal::is_const_one(S.state().loop(name).extent)) continue;
            l.outer = name;
            break;
        }
        const auto step = farthest_step(op_, stage, stage.axes.back().name());
        const bool tiled = gets_tile(op_, stage, machine_);
        const bool fills = l.lanes > 1 && (!extent || *extent >= l.lanes);
        const bool strided = has_many_values(stage) && fills && step;
        const bool rows = folds_along(stage) && (step != 1 || !fills) && !tiled && !strided;
        if (!step && !tiled && fills && vectorize_phases(l)) {
            distribute(l);
            return;
        }
        const bool vectors =
            tiled || (fills && folds_in_any_order(stage) &&
                      ((step && *step <= shuffled_step) || strided || pays_to_gather(op_, stage, machine_)));
        if (rows)
            reduce_row(s_, stage.name, widest, partial_vectors(stage));
        else if (vectors)
            vectorize(l, tiled);
        else
            schedule_without_vectors(l);
        distribute(l);
    }

    // Vectors along the last loop: in blocks, in register tiles, or for each step of a reduction.
    void vectorize(Loops &l, bool tiled) {
        const Stage &stage = l.stage;
        const auto together = l.last == stage.axes.back().name() ? rows_of_block(s_, stage) : std::nullopt;
        // Stages that may share a nest get equal blocks. Unrolled rows replace vectors.
        int64_t block = std::max<int64_t>(l.lanes, lanes_of_narrowest_neighbour(s_, stage)) * p_.unroll;
        if (together && together->unrolled && together->inside) block = together->vectors * l.lanes;
        if (l.inside && read_in_place_.count(stage.name))
            block = std::clamp<int64_t>(elements_of_block(s_, l.S.state(), l.last), l.lanes, block) / l.lanes * l.lanes;
        if (!stage.is_reduction() && (!l.extent || *l.extent >= 2 * block)) {
            vectorize_blocks(l, block, together);
        } else if (tiled) {
            const auto part = parts_.find(stage.name);
            l.outer = tile_in_registers(s_, l.S, stage, l.lanes,
                                        part == parts_.end() ? std::nullopt : std::optional(part->second));
            finish_in_reader(s_, l.S, stage, decided_.unfinished);
        } else if (stage.is_reduction()) {
            vectorize_steps(l);
        } else {
            l.S.vectorize(l.last, l.lanes);
            if (l.outer.name == l.last && *l.extent != l.lanes) l.outer = l.last + ".o";
        }
    }

    void vectorize_blocks(Loops &l, int64_t block, const std::optional<RowsOfBlock> &together) {
        const auto &extent = l.extent;
        LoopName blocks = l.last;
        if (!l.inside && parallel_pays(l.stage) && l.outer.name == l.last && extent && *extent % block) {
            // Splits into tasks first, so that only the last block has masks.
            const int64_t n = (*extent + block - 1) / block, task = iterations_of_task(l.stage, n);
            if (task > 1 && n >= 2 * task) std::tie(l.outer, blocks) = l.S.split(l.last, task * block);
        }
        auto [o, i] = l.S.split(blocks, block);
        if (l.outer.name == l.last) l.outer = o;
        if (together && l.S.state().has_loop(together->axis)) {
            auto [ro, ri] = l.S.split(together->axis, together->rows);
            if (l.outer.name == together->axis) l.outer = ro;
            if (together->inside) l.S.reorder({o, ri});
            if (together->unrolled) l.S.unroll(ri);
        }
        if (calls_functions(l.stage)) {
            l.S.vectorize(i);
        } else {
            l.S.vectorize(i, l.lanes);
            if (block > l.lanes) l.S.unroll(i.name + ".o");
        }
    }

    // The reduction's steps are outside the vectors: each adds to a run of elements.
    void vectorize_steps(Loops &l) {
        const Stage &stage = l.stage;
        const int64_t pieces = p_.parallel && l.outer.name == l.last ? threads_of(machine_) : 1;
        int64_t block = elements_of_step(stage, machine_, l.lanes, l.extent, pieces);
        if (l.last != stage.axes.back().name()) {
            // Whole runs of the last axis, so that its index is constant in each lane.
            const int64_t runs = std::lcm(int64_t(l.lanes), *constant_extent(stage.axes.back())),
                          most = std::min<int64_t>(block, accumulator_registers(machine_) * l.lanes);
            block = std::max(runs, most / runs * runs);
        }
        auto [o, i] = l.S.split(l.last, block);
        if (l.outer.name == l.last) l.outer = o;
        std::vector<LoopName> order;
        for (const std::string &name : l.S.state().order) {
            if (name != i.name) order.push_back(name);
        }
        order.push_back(i);
        l.S.reorder(order);
        if (block == l.lanes)
            l.S.vectorize(i);
        else
            l.S.vectorize(i, l.lanes).unroll(i.name + ".o");
        finish_windows(s_, l.S, stage, o, block > l.lanes ? 2 : 1, decided_.unfinished);
        if (l.outer.name == o.name) l.whole = true;
    }

    // A stage that divides its last index by a constant: vectors of elements with the same
    // remainder, which are shuffled together when they are stored.
    bool vectorize_phases(Loops &l) {
        const Axis &last = l.stage.axes.back();
        if (l.stage.is_reduction() || l.last != last.name() || divisor_of(l.stage, last) == 1 || rolls(l.S.state()))
            return false;
        const auto across = vectorize_across_records(s_, l.S, l.stage, 0, l.widest);
        if (across && !l.S.state().has_loop(l.outer.name)) l.outer = *across;
        return across.has_value();
    }

    void schedule_without_vectors(Loops &l) {
        std::optional<LoopName> across;
        const bool records = l.widest > 1 && !rolls(l.S.state()); // rolled stages split planes
        for (const size_t rank : records ? record_ranks(l.stage, machine_) : std::vector<size_t>())
            across = across ? across : vectorize_across_records(s_, l.S, l.stage, rank, l.widest);
        if (across && !l.S.state().has_loop(l.outer.name)) l.outer = *across;
        if (!across) unroll_record(l.S, l.stage);
    }

    // Distributes the outermost loop over cores, in tasks of several iterations if these are short.
    void distribute(const Loops &l) {
        const LoopState *first = l.S.state().find_loop(l.outer.name);
        if (l.inside || !parallel_pays(l.stage) || !first || !l.S.state().has_loop(l.outer.name) ||
            first->kind != LoopKind::Serial || first->reduction || computes_planes(s_, l.stage.name, l.outer))
            return;
        StageHandle S = l.S;
        const auto n = Halide::Internal::as_const_int(first->extent);
        const int64_t task = n ? iterations_of_task(l.stage, *n) : 1;
        const bool divide = !l.whole && task > 1 && *n >= 2 * task && !holds_stages(s_, l.stage.name, l.outer);
        S.parallel(divide ? S.split(l.outer, task).first : l.outer);
    }

    const Op &op_;
    const Machine &machine_;
    const ElementwiseParameters &p_;
    const StageDecisions &decided_;
    Schedule s_;
    const bool in_place_ = reads_before_update(op_);
    std::set<std::string> apart_; // stages that no rule places
    std::vector<BelowSharedLoops> below_;
    std::map<std::string, RowsOfPart> parts_; // stages computed for a block of rows at a time
    std::set<std::string> read_in_place_;
};

// Multiplies out products of elements with zero points if an instruction can then multiply the
// elements, except in the stages in `excluded`.
void expand_products(Schedule &s, const std::set<std::string> &excluded) {
    for (const Stage &stage : s.op().stages()) {
        if (!is_shifted_contraction(stage) || excluded.count(stage.name)) continue;
        constexpr int64_t min_steps = 16; // so that the sums of both factors cost little
        int64_t steps = 1;
        for (const Axis &k : stage.reduction_axes) steps *= constant_extent(k).value_or(min_steps);
        if (steps < min_steps) continue;
        try {
            Schedule expanded = s;
            const std::string product = expanded.stage(stage.name).expand().name();
            if (!has_instruction(expanded.op(), expanded.state().stage(product).def, s.machine())) continue;
            s = expanded;
        } catch (const UserError &) {   // the names of its new stages are taken
        } catch (const Unsupported &) { // a tensor is too large for an op of its own
        }
    }
}

// Rewrites stages, and schedules the resulting ones by rules. Nothing if no rewriting pays.
std::optional<Schedule> schedule_rewritten(const Op &op, const Machine &machine, const ElementwiseParameters &p,
                                           const StageDecisions &decided) {
    if (decided.hold) return std::nullopt;
    std::set<std::string> decided_stages;
    for (const auto &[name, loops] : decided.loops) decided_stages.insert(name);
    for (const auto &[name, place] : decided.places) decided_stages.insert(name);
    Schedule s(op, machine);
    expand_products(s, decided_stages);
    StageDecisions kept = decided;
    for (const std::string &table : tabulate_functions(s, decided_stages))
        kept.places[table] = StageDecisions::Place::Kept;
    if (s.directives().empty()) return std::nullopt;
    std::vector<Stage> stages;
    for (const StageState &stage : s.state().stages) stages.push_back(stage.def);
    const Schedule scheduled = schedule_by_rules(op.with_stages(stages), machine, p, kept);
    for (const Directive &d : scheduled.directives()) s.apply(d);
    return s;
}

// Gives the stages of a convolution by Winograd's products the library schedule of an op of these
// stages alone, and schedules an op of the other stages by rules. Nothing if there is no such
// convolution.
std::optional<Schedule> schedule_group_apart(const Op &op, const Machine &machine, const ElementwiseParameters &p,
                                             const StageDecisions &decided) {
    const bool updates = std::any_of(op.inputs().begin(), op.inputs().end(), [](const Input &i) { return i.inout; });
    if (decided.hold || updates || !op.earlier().empty()) return std::nullopt;
    const auto is_decided = [&](const std::string &stage) {
        return decided.loops.count(stage) || decided.places.count(stage) || decided.unfinished.count(stage);
    };
    for (const Stage &stage : op.stages()) {
        const auto group = winograd_roles(op, stage);
        if (!group || group->stages.size() == op.stages().size() ||
            std::any_of(group->stages.begin(), group->stages.end(), is_decided))
            continue;
        std::set<std::string> others;
        for (const Stage &s : op.stages()) {
            if (!group->stages.count(s.name)) others.insert(s.name);
        }
        try {
            Schedule s(op, machine);
            const Op alone = op.part(group->stages);
            const Schedule of_group = schedule_winograd(alone, machine, winograd_parameters(alone, machine)),
                           of_others = schedule_by_rules(op.part(others), machine, p, decided);
            for (const Schedule *part : {&of_group, &of_others}) {
                for (const Directive &d : part->directives()) {
                    // Arrays between the parts are read again, and conditions apply to whole ops.
                    const bool between = d.primitive == "stream" && !op.is_output(d.arguments.at("stage"));
                    const bool alone_only = d.primitive == "specialize" || (d.primitive == "parallel" && !p.parallel);
                    if (!between && !alone_only) s.apply(d);
                }
            }
            s.require_applied();
            return s;
        } catch (const UserError &) { // a directive is not legal in the whole op
        } catch (const Unsupported &) {
        }
    }
    return std::nullopt;
}

} // namespace

bool is_elementwise(const Op &) { return true; }

ElementwiseParameters elementwise_parameters(const Op &op, const Machine &machine) {
    ElementwiseParameters p;
    const bool functions = std::any_of(op.stages().begin(), op.stages().end(), calls_functions);
    // If several outputs are computed together, longer runs of each complete more cache lines.
    const auto partial_outputs = std::count_if(op.stages().begin(), op.stages().end(), [&](const Stage &stage) {
        return op.is_output(stage.name) && !stage.is_reduction() && stores_partial_lines(stage, machine);
    });
    p.unroll = Tile(functions ? vectors_of_functions : partial_outputs > 1 ? 4 : 2, {1, 2, 4, 8});
    p.parallel = Flag(pays_to_share(op, machine));
    return p;
}

Schedule schedule_elementwise(const Op &op, const Machine &machine, const ElementwiseParameters &p) {
    return schedule_by_rules(op, machine, p, StageDecisions());
}

Schedule schedule_by_rules(const Op &op, const Machine &machine, const ElementwiseParameters &p,
                           const StageDecisions &decided) {
    if (const auto rewritten = schedule_rewritten(op, machine, p, decided)) return *rewritten;
    if (const auto divided = schedule_group_apart(op, machine, p, decided)) return *divided;
    return RuleSchedule(op, machine, p, decided).schedule();
}

} // namespace kumiko::library
