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
#include "schedules/library/functions.h"
#include "schedules/library/held_recurrences.h"
#include "schedules/library/held_stages.h"
#include "schedules/library/inlining.h"
#include "schedules/library/one_nest.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/rolled_stages.h"
#include "schedules/library/rows_of_block.h"
#include "schedules/library/scatter.h"
#include "schedules/library/streams.h"
#include "schedules/library/structure.h"
#include "schedules/own_part.h"
#include "schedules/primitive.h"
#include "schedules/primitives/expand.h"
#include "schedules/rolling.h"
#include "schedules/shared_loops.h"
#include "support/error.h"

#include <numeric>

namespace kumiko::library {

namespace {

// The number of elements or steps that a stage computes; a symbolic extent counts as 2^20.
int64_t work(const Stage &s) {
    int64_t n = 1;
    for (const auto *axes : {&s.axes, &s.reduction_axes}) {
        for (const Axis &a : *axes) n *= constant_extent(a).value_or(1 << 20);
    }
    return n;
}

// Iterations per parallel task of a loop with `n` iterations, such that a task computes about 8,000
// elements.
int64_t iterations_of_task(const Stage &s, int64_t n) { return (1 << 13) / std::max<int64_t>(1, work(s) / n); }

// A stage that is padded, and the loop of the padding's only reader at which it is computed.
struct BelowSharedLoops {
    std::string stage, reader, loop;
};

// Finds the innermost loop of the reader such that the axes up to it have the same value in all
// reads of the padding: reader(…, y, …) reads padding(…, y, …).
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

// Loops of a stage that reads its own earlier elements. The last axis is vectorized if the loops
// around it carry all such reads, so that a whole run depends on earlier runs only. Otherwise each
// element waits for the previous one: some rows run interleaved, and some steps are unrolled, with
// their results in registers.
void schedule_recurrence(Schedule &s, const Stage &stage, int lanes, const ElementwiseParameters &p) {
    StageHandle S = s.stage(stage.name);
    const std::string last = stage.axes.back().name();
    const auto extent = [&](const std::string &axis) { return constant_extent(*find_axis(stage, axis)); };
    std::vector<LoopName> outside, ordered;
    for (const Axis &a : stage.axes) (is_ordered(stage, a.name()) ? ordered : outside).push_back(a.name());
    const bool waits = is_ordered(stage, last);
    const bool vectors = others_carry(stage, last) && lanes > 1 && extent(last).value_or(lanes) >= lanes &&
                         farthest_step(s.op(), stage, last) == 1;
    const bool steps = stage.takes_steps(); // other stages are computed in each step
    if (steps) {
        ordered.insert(ordered.end(), outside.begin(), outside.end());
        std::stable_partition(ordered.begin(), ordered.end(),
                              [&](const LoopName &l) { return l.name == stage.step_axis; });
        std::stable_partition(ordered.begin() + 1, ordered.end(), [&](const LoopName &l) { return l.name != last; });
        outside.clear();
    }
    std::vector<LoopName> inside = ordered, unrolled;
    if (vectors && !waits && !steps) {
        auto [o, run] = S.split(last, std::clamp<int64_t>(extent(last).value_or(1024), 1, 1024));
        auto [m, i] = S.split(run, lanes * p.unroll);
        outside.back() = o;
        inside.insert(inside.end(), {m, i});
    } else if (vectors) {
        auto [m, i] = S.split(last, lanes * p.unroll);
        inside.back() = m;
        inside.push_back(i);
    } else {
        const RecurrenceBlock block = block_of_recurrence(stage);
        const auto divisible = [&](const LoopName &l) { return !holds_stages(s, stage.name, l.name); };
        if (divisible(ordered.back())) {
            auto [blocks, step] = S.split(ordered.back(), block.steps);
            inside.back() = blocks;
            unrolled.push_back(step);
        }
        if (!outside.empty() && divisible(outside.back())) {
            auto [o, rows] = S.split(outside.back(), block.rows);
            outside.back() = o;
            unrolled.insert(unrolled.begin(), rows);
        }
        inside.insert(inside.end(), unrolled.begin(), unrolled.end());
    }
    std::vector<LoopName> order = outside;
    order.insert(order.end(), inside.begin(), inside.end());
    S.reorder(order);
    if (vectors) {
        S.vectorize(order.back(), lanes);
        if (p.unroll > 1) S.unroll(order.back().name + ".o");
    }
    for (const LoopName &l : unrolled) S.unroll(l);
    const bool inside_reader = S.state().placement.kind == Placement::Kind::At;
    for (const LoopName &l : outside) {
        if (Halide::Internal::is_const_one(S.state().loop(l).extent)) continue;
        if (p.parallel && !inside_reader && work(stage) >= (1 << 16)) S.parallel(l);
        break;
    }
}

// Whether the reader reads the stage at the stage's own axes only.
bool reads_at_axes(const Stage &reader, const Stage &stage) {
    for (const Expr &e : reader.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            if (read->name == stage.name && !reads_at(read, stage.axes)) return false;
        }
    }
    return true;
}

// The same, if the reader may read the stage through inlined stages. These must also read, and be
// read, at their own axes; a stencil of clamped sums does not.
bool reads_at_axes_through_inlined(const Schedule &s, const Stage &stage) {
    for (const std::string &name : s.state().readers(stage.name)) {
        const StageState &r = s.state().stage(name);
        if (!reads_at_axes(r.def, stage)) return false;
        if (r.placement.kind == Placement::Kind::Inline && !reads_at_axes_through_inlined(s, r.def)) return false;
    }
    return true;
}

// The only pointwise stage that reads the reduction, if it does so at its own indices; "" if there
// is none, or if that stage is the epilogue of another.
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

// Makes the reader the epilogue of the reduction, so that sums are not stored.
void finish_in_reader(Schedule &s, StageHandle S, const Stage &stage, const std::set<std::string> &unfinished) {
    const std::string reader = finishing_reader(s, stage, unfinished);
    if (!reader.empty() && !holds_stages(s, reader)) S.finish_in(reader);
}

// For a stage computed at a loop of its reader: the number of elements along `axis` that the loops
// inside that one cover.
int64_t elements_of_block(const Schedule &s, const StageState &stage, const std::string &axis) {
    const StageState &host = s.state().stage(stage.placement.consumer);
    int64_t elements = 1;
    for (size_t l = host.position(stage.placement.loop) + 1; l < host.order.size(); l++) {
        if (host.derived_from(host.order[l], axis))
            elements *= Halide::Internal::as_const_int(host.loop(host.order[l]).extent).value_or(1);
    }
    return elements;
}

// The most vector lanes among the stages that may share a nest with this one: pointwise stages over
// the same elements that read a common tensor. 1 if there is none.
int lanes_of_narrowest_neighbour(const Schedule &s, const Stage &stage) {
    if (s.state().stages.size() > most_stages) return 1; // such ops share no nests
    const std::set<std::string> kept = kept_tensors(s.state());
    const auto reads = [&](const Stage &stage) {
        std::set<std::string> all;
        for (const auto &[tensor, indices] : reads_of(s.op(), stage, kept)) all.insert(tensor);
        return all;
    };
    const std::set<std::string> own = reads(stage);
    int lanes = 1;
    for (const StageState &other : s.state().stages) {
        if (other.def.kind != Stage::Kind::Pointwise || other.placement.kind != Placement::Kind::Root ||
            is_extern(other.def) || other.def.reads_itself() || calls_functions(other.def) != calls_functions(stage) ||
            !same_axes(stage, other.def))
            continue;
        const std::set<std::string> theirs = reads(other.def);
        if (std::any_of(own.begin(), own.end(), [&](const std::string &t) { return theirs.count(t) != 0; }))
            lanes = std::max(lanes, vector_lanes(s.machine(), other.def.type));
    }
    return lanes;
}

// Whether the index contains a reduction axis outside of the reads in it.
bool uses_reduction_axis(const Stage &stage, const Expr &index) {
    const Expr places = map_reads(index, [](const Halide::Internal::Call *read, const Expr &) {
        return Halide::Internal::make_zero(read->type);
    });
    return std::any_of(stage.reduction_axes.begin(), stage.reduction_axes.end(),
                       [&](const Axis &a) { return Halide::Internal::expr_uses_var(places, a.name()); });
}

// Whether vectors along the last reduction axis can hold partial results, which are joined at the
// end. Reads along the axis must be contiguous, a few elements apart, or the same element for at
// least one vector of steps, such as the scale of a group.
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

// The number of elements to which one step of the reduction adds. A step of a window adds to one
// vector. If steps read rows that are far apart, a step adds to several vectors of a row. If the
// rows are gathered, it adds to as many vectors as there are accumulator registers, because all use
// one address. The last axis has at least `pieces` blocks.
int64_t elements_of_step(const Stage &stage, const Machine &machine, int lanes, std::optional<int64_t> extent,
                         int64_t pieces) {
    constexpr int64_t vectors_of_row = 8, fewest_rows = 16;
    if (!extent || stage.components.size() != 1 || scattered(stage)) return lanes;
    const std::string &last = stage.axes.back().name();
    int64_t vectors = 1, steps = 1;
    for (const Axis &a : stage.reduction_axes) steps *= constant_extent(a).value_or(fewest_rows);
    for (const Expr &e : stage.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            const auto uses = [&](const Expr &index) { return Halide::Internal::expr_uses_var(index, last); };
            if (read->args.empty() || !uses(read->args.back())) continue;
            if (uses_reduction_axis(stage, read->args.back())) return lanes;
            for (const Expr &index : read->args) {
                if (reads_data(index) && !uses(index))
                    vectors = std::max<int64_t>(vectors, accumulator_registers(machine));
                else if (!uses(index) && uses_reduction_axis(stage, index))
                    vectors = std::max(vectors, steps >= fewest_rows ? vectors_of_row : 1);
            }
        }
    }
    const int64_t most = std::min(vectors * lanes, (*extent + pieces - 1) / pieces);
    return balanced_block(*extent, std::max<int64_t>(most, lanes), lanes);
}

// Keeps the results of windows in registers until they are stored, by their only reader if that
// reads each at its own indices. The steps of a window are inside loop `run` and outside of the
// `inner` innermost loops, over its results.
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

// Stages without vectors unroll records of at most this many elements, for example a small matrix.
constexpr int64_t elements_of_record = 16;

// Whether an element needs a float division or a square root.
bool divides_values(const Stage &stage) {
    struct Divides : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        bool found = false;
        void visit(const Halide::Internal::Div *op) override {
            found = found || op->type.is_float();
            IRVisitor::visit(op);
        }
        void visit(const Halide::Internal::Call *op) override {
            found = found || (op->is_pure() && op->name.starts_with("sqrt"));
            IRVisitor::visit(op);
        }
    } divides;
    for (const Expr &e : stage.expressions()) e.accept(&divides);
    return divides.found;
}

// Candidate record ranks: how many last axes form a record. One vector holds the same element of
// several records. A record is the last axis, for example the components of a point, or several
// axes, for example a small matrix. The latter pays only if elements take enough operations, since
// their accesses are far apart. It requires whole vectors of records, elements of at least 32 bits,
// and either scatter instructions or a division per element.
std::vector<size_t> record_ranks(const Stage &stage, const Machine &machine) {
    constexpr int64_t fewest_operations = 6; // per element, besides its strided store
    std::vector<size_t> ranks;
    if (stage.is_reduction() || !stage.strides.empty()) return ranks;
    int64_t elements = 1;
    for (size_t rank = 1; rank < stage.axes.size(); rank++) {
        const auto n = constant_extent(stage.axes[stage.axes.size() - rank]);
        if (!n) break;
        elements *= *n;
        if (rank == 1 ? elements > shuffled_step
                      : elements > elements_of_record || operations(stage) < fewest_operations)
            break;
        const auto records = constant_extent(stage.axes[stage.axes.size() - rank - 1]);
        const bool pays = machine.vector_bits >= 512 || (machine.vector_bits >= 256 && divides_values(stage));
        const bool whole = stage.type.bits() >= 32 && records && *records >= vector_lanes(machine, stage.type);
        if (rank == 1 || (pays && whole)) ranks.push_back(rank);
    }
    return ranks;
}

// Vectorizes the axis before a record of `rank` axes, whose elements are shuffled together. A
// partial last vector could not be shuffled and would be stored lane by lane, so it is moved
// inwards. Returns the loop over vectors. Returns nothing and leaves the schedule unchanged if
// reads are farther apart.
std::optional<LoopName> vectorize_across_records(Schedule &s, StageHandle S, const Stage &stage, size_t rank,
                                                 int lanes) {
    const size_t first = stage.axes.size() - rank;
    const Axis &points = stage.axes[first - 1];
    const std::string &across = points.name();
    int64_t elements = 1;
    std::vector<std::string> record;
    for (size_t d = first; d < stage.axes.size(); d++) {
        elements *= *constant_extent(stage.axes[d]);
        record.push_back(stage.axes[d].name());
    }
    const auto records = constant_extent(points);
    const int64_t parts = divisor_of(stage, points);
    const auto step = farthest_step(s.op(), at_multiples(stage, across, parts), across);
    if (records && elements * *records > elements_of_record) lanes = fitting_lanes(stage.type, lanes, *records / parts);
    const std::vector<std::string> &order = S.state().order;
    if (!step || *step > std::max(elements, shuffled_step) || (records && *records < lanes * parts) ||
        order.size() < rank || !std::equal(record.rbegin(), record.rend(), order.rbegin()) ||
        !S.state().has_loop(across) || holds_stages(s, stage.name, across))
        return std::nullopt;
    LoopName whole = across;
    std::vector<LoopName> inside(record.begin(), record.end());
    if (parts > 1) {
        const auto [o, part] = S.split(across, parts);
        whole = o;
        inside.insert(inside.begin(), part);
        S.unroll(part);
    }
    const bool inwards = records && *records / parts % lanes && tail_may_overlap(s.op());
    auto [o, i] = S.split(whole, lanes, {.tail = inwards ? Tail::Shift : Tail::Auto});
    inside.push_back(i);
    S.reorder(inside).vectorize(i);
    for (const std::string &axis : record) S.unroll(axis);
    return o;
}

// Unrolls the last axes if they form a record, so that common subexpressions of its elements are
// computed once. For stages without vectors.
void unroll_record(StageHandle S, const Stage &stage) {
    constexpr int64_t most_operations = 512;
    if (stage.is_reduction()) return;
    int64_t elements = 1;
    for (size_t d = stage.axes.size(); d-- > 0;) {
        const std::string &axis = stage.axes[d].name();
        const auto n = constant_extent(stage.axes[d]);
        elements *= n.value_or(1);
        if (!n || elements > elements_of_record || elements * operations(stage) > most_operations ||
            !S.state().has_loop(axis) || S.state().order[d] != axis)
            return;
        if (d > 0) S.unroll(axis);
    }
}

// Whether vectors along the last axis pay although some elements are gathered at data-dependent
// indices: the processor has a gather instruction, all other reads are contiguous, and there are
// enough operations.
bool pays_to_gather(const Op &op, const Stage &stage, const Machine &machine) {
    constexpr int64_t fewest_operations = 6; // per gathered element
    if (stage.is_reduction() || machine.architecture != "x86-64" || machine.vector_bits < 256) return false;
    const std::string &last = stage.axes.back().name();
    const auto gathers = [](const Halide::Internal::Call *read) {
        return std::any_of(read->args.begin(), read->args.end(), [](const Expr &index) { return reads_data(index); });
    };
    std::set<Expr, Halide::Internal::IRDeepCompare> gathered;
    for (const Halide::Internal::Call *read : tensor_reads(stage.value)) {
        const Expr e(read);
        if (!gathers(read) || !Halide::Internal::expr_uses_var(e, last)) continue;
        if (read->type.bits() < 32) return false;
        gathered.insert(e);
    }
    const auto step = farthest_step(op, stage, last, gathers);
    return !gathered.empty() && step && *step <= shuffled_step &&
           operations(stage) >= fewest_operations * static_cast<int64_t>(gathered.size());
}

// Whether `where` excludes steps of the reduction for some elements along the axis.
bool bounded_along(const Stage &stage, const std::string &axis) {
    const auto bounds = term_bounds(stage);
    return std::any_of(bounds.begin(), bounds.end(),
                       [&](const Expr &bound) { return Halide::Internal::expr_uses_var(bound, axis); });
}

// Computes stages in the loops of the op's largest output, or of the reduction that it is an
// epilogue of, if their results would not stay in L2. If `where` bounds the steps of that reduction
// by its row, as in causal attention, the stages are computed for a block of rows at a time, and
// only at the elements that the block reads. Stages in `apart` stay in place. Returns the stages
// that are computed in such blocks.
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
    if (!held->beside.empty() && parallel && work(h) >= (1 << 16)) {
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

// Whether one iteration of the loop at which the stage is computed, or of the innermost loop that
// it shares, needs one element of it: all its axes are loops outside, with the same names.
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

// Whether iterations of the loop compute consecutive planes of another stage.
bool computes_planes(const Schedule &s, const std::string &stage, const LoopName &loop) {
    return std::any_of(s.state().stages.begin(), s.state().stages.end(), [&](const StageState &other) {
        return rolls(other) && other.computed->consumer == stage && other.computed->loop == loop.name;
    });
}

// Keeps padding of narrow types in a ring of rows of its reader if the reader reads neighbours
// along rows. A load with missing lanes is done lane by lane: then once per row instead of once per
// read. Not worthwhile if few vectors of a row have missing lanes and rows of a block share loads.
void roll_padding(Schedule &s, const Stage &padding, const ElementwiseParameters &p) {
    // Rows of a ring; each ring recomputes its border rows.
    constexpr int64_t fewest_rows = 8, most_rows = 64;
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
    const auto [o, i] = s.stage(reader.name).split(rows, std::clamp(shared, fewest_rows, most_rows));
    s.stage(padding.name).store_at(reader.name, o).compute_at(reader.name, i);
}

// Pointwise stages that are read only by stages at the root and only at their own axes. The readers
// get their loops first.
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

// Computes a stage in the nest of its reader, or in the nest that all its readers share, for each
// block of vectors before the readers. Returns false and leaves it at the root if there is no such
// nest.
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

// Multiplies out products of elements with zero points if an instruction can then multiply the
// elements, and schedules the resulting stages. Nothing if there is no such product.
std::optional<Schedule> schedule_expanded(const Op &op, const Machine &machine, const ElementwiseParameters &p,
                                          const StageDecisions &decided) {
    if (decided.hold) return std::nullopt;
    std::optional<Schedule> s; // set by the first such product
    for (const Stage &stage : op.stages()) {
        if (!is_shifted_contraction(stage) || decided.loops.count(stage.name) || decided.places.count(stage.name))
            continue;
        constexpr int64_t fewest_steps = 16; // so that the sums of both factors cost little
        int64_t steps = 1;
        for (const Axis &k : stage.reduction_axes) steps *= constant_extent(k).value_or(fewest_steps);
        if (steps < fewest_steps) continue;
        try {
            Schedule expanded = s ? *s : Schedule(op, machine);
            const std::string product = expanded.stage(stage.name).expand().name();
            if (!has_instruction(expanded.op(), expanded.state().stage(product).def, machine)) continue;
            s = expanded;
        } catch (const UserError &) {   // the names of its new stages are taken
        } catch (const Unsupported &) { // a tensor is too large for an op of its own
        }
    }
    if (!s) return std::nullopt;
    std::vector<Stage> stages;
    for (const StageState &stage : s->state().stages) stages.push_back(stage.def);
    const Schedule scheduled = schedule_by_rules(op.with_stages(stages), machine, p, decided);
    for (const Directive &d : scheduled.directives()) s->apply(d);
    return s;
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
    if (const auto expanded = schedule_expanded(op, machine, p, decided)) return *expanded;
    Schedule s(op, machine);
    const bool in_place = reads_before_update(op);
    std::set<std::string> apart;
    std::map<std::string, int64_t> inlined; // operations of inlined stages, counted as trees
    for (const Stage &stage : op.stages()) {
        const auto place = decided.places.find(stage.name);
        if (place == decided.places.end()) continue;
        if (place->second == StageDecisions::Place::Inline) {
            s.stage(stage.name).inline_into();
        } else {
            apart.insert(stage.name);
            if (stage.kind == Stage::Kind::Padding) s.stage(stage.name).compute_root();
        }
    }
    std::vector<BelowSharedLoops> below;
    const auto holds = [&](const std::string &name) {
        return holds_stages(s, name) ||
               std::any_of(below.begin(), below.end(), [&](const auto &b) { return b.reader == name; });
    };
    // Inlining a pointwise stage with one reader costs nothing. A stage that is read several times
    // through padding is kept for the elements that share it.
    for (const Stage &stage : op.stages()) {
        if (decided.places.count(stage.name)) continue;
        if (stage.kind != Stage::Kind::Pointwise || op.is_output(stage.name) || stage.reads_itself()) continue;
        if (is_extern(stage)) continue;
        if (in_place) continue; // readers of an updated tensor are computed before the update
        const auto readers = s.state().readers(stage.name), consumers = s.state().consumers(stage.name);
        const Stage *padding = readers.size() == 1 ? &s.state().stage(readers[0]).def : nullptr;
        if (!holds(stage.name) && pays_to_inline(s, stage, inlined))
            s.stage(stage.name).inline_into();
        else if (padding && padding->kind == Stage::Kind::Padding && !decided.hold) {
            if (const auto loop = below_shared_loops(s, stage, *padding)) below.push_back(*loop);
        } else if (consumers.size() == 1 && !s.state().stage(consumers[0]).def.is_reduction() &&
                   !is_extern(s.state().stage(consumers[0]).def) && !holds(stage.name) &&
                   !divides_for_each_lane(stage, s.state().stage(consumers[0]).def) &&
                   !(calls_functions(stage) && (s.state().stage(consumers[0]).def.axes.size() > stage.axes.size() ||
                                                s.state().stage(consumers[0]).def.reads_itself())) &&
                   inlines_cheaply(op, stage, s.state().stage(consumers[0]).def, inlined))
            s.stage(stage.name).inline_into();
    }
    std::map<std::string, RowsOfPart> parts;
    std::set<std::string> with_own_loops = apart;
    for (const auto &[name, loops] : decided.loops) with_own_loops.insert(name);
    if (decided.hold) {
        decided.hold(s);
    } else if (in_place || !roll_stages(s, with_own_loops, p.parallel)) {
        for (const BelowSharedLoops &b : below) s.stage(b.stage).compute_at(b.reader, b.loop);
        parts = hold_stages(s, apart, decided.unfinished, p.parallel);
    }
    apart = std::move(with_own_loops);
    if (!decided.hold && !in_place) hold_recurrences(s, apart);
    for (const Stage &stage : op.stages()) {
        if (stage.kind != Stage::Kind::Padding || in_place || decided.places.count(stage.name)) continue;
        const auto readers = s.state().consumers(stage.name);
        const auto is_made = [&](const std::string &r) { return decided.loops.count(r) != 0; };
        if (std::none_of(readers.begin(), readers.end(), is_made)) roll_padding(s, stage, p);
    }
    const auto read_in_place = stages_read_in_place(s, decided);
    const auto schedule_loops = [&](const Stage &stage) {
        StageHandle S = s.stage(stage.name);
        if (S.state().placement.kind == Placement::Kind::Inline || is_extern(stage)) return;
        if (!S.state().finished_by.empty()) return;
        if (one_element_of_iteration(s, S.state())) return;
        if (const auto loops = decided.loops.find(stage.name); loops != decided.loops.end()) {
            loops->second(s);
            return;
        }
        const auto at_root = [&](const std::string &name) {
            return s.state().stage(name).placement.kind == Placement::Kind::Root && !holds_stages(s, name);
        };
        // The stage moves to the place of the reader in which it is finished.
        const auto ends_at_root = [&] {
            const std::string end = finishing_reader(s, stage, decided.unfinished);
            return end.empty() || at_root(end);
        };
        if (stage.is_reduction() && !in_place && at_root(stage.name) && ends_at_root() &&
            schedule_as_alone(s, stage, p.parallel)) {
            finish_in_reader(s, s.stage(stage.name), stage, decided.unfinished);
            return;
        }
        if (visits_elements(stage) && !in_place && !holds_stages(s, stage.name)) {
            const int64_t block = columns_together(stage, machine);
            const bool inside = S.state().placement.kind == Placement::Kind::At;
            visit_elements(s, stage, block, p.parallel && !inside && work(stage) >= (1 << 16));
            return;
        }
        const int widest = vector_lanes(machine, stage.type);
        // Partial results of many components spill, and horizontal reduction of them costs more
        // than strided loads.
        const bool many_values = stage.components.size() > 4;
        // For the reduction of a row. Bounded rows begin and end anywhere.
        const int64_t partial_vectors = many_values ? 1 : stage.bounded ? std::max(1, 16 / widest) : 4;
        const bool any_order = !stage.is_reduction() || (stage.properties.associative && stage.properties.commutative);
        const bool along = any_order && !in_place && !scattered(stage) && folds_in_lanes(op, stage, machine);
        if (stage.axes.empty()) {
            if (along) reduce_row(s, stage.name, widest, partial_vectors);
            return;
        }
        if (stage.reads_itself()) {
            schedule_recurrence(s, stage, widest, p);
            return;
        }
        const auto [last, extent] = join_last_axes(op, s, S, stage, widest * p.unroll);
        const int lanes = fitting_lanes(stage.type, widest, extent);
        const bool inside = S.state().placement.kind == Placement::Kind::At;
        LoopName outer = S.state().order.front();
        for (const std::string &l : S.state().order) { // skip loops of one iteration
            if (Halide::Internal::is_const_one(S.state().loop(l).extent)) continue;
            outer = l;
            break;
        }
        bool whole = false; // partial results are kept through the outer loop's only iteration
        const auto step = farthest_step(op, stage, stage.axes.back().name());
        const bool tiled = gets_tile(op, stage, machine);
        const bool fills = lanes > 1 && (!extent || *extent >= lanes);
        const bool strided = many_values && fills && step;
        const bool rows = along && (step != 1 || !fills) && !tiled && !strided;
        const bool vectors =
            tiled ||
            (fills && any_order && ((step && *step <= shuffled_step) || strided || pays_to_gather(op, stage, machine)));
        if (rows) {
            reduce_row(s, stage.name, widest, partial_vectors);
        } else if (vectors) {
            const auto together = last == stage.axes.back().name() ? rows_of_block(s, stage) : std::nullopt;
            // Stages that may share a nest get equal blocks. Unrolled rows replace vectors.
            int64_t block = std::max<int64_t>(lanes, lanes_of_narrowest_neighbour(s, stage)) * p.unroll;
            if (together && together->unrolled && together->inside) block = together->vectors * lanes;
            if (inside && read_in_place.count(stage.name))
                block = std::clamp<int64_t>(elements_of_block(s, S.state(), last), lanes, block) / lanes * lanes;
            if (!stage.is_reduction() && (!extent || *extent >= 2 * block)) {
                LoopName blocks = last;
                if (p.parallel && !inside && work(stage) >= (1 << 16) && outer.name == last && extent &&
                    *extent % block) {
                    // Splits into tasks first, so that only the last block has masks.
                    const int64_t n = (*extent + block - 1) / block, task = iterations_of_task(stage, n);
                    if (task > 1 && n >= 2 * task) std::tie(outer, blocks) = S.split(last, task * block);
                }
                auto [o, i] = S.split(blocks, block);
                if (outer.name == last) outer = o;
                if (together && S.state().has_loop(together->axis)) {
                    auto [ro, ri] = S.split(together->axis, together->rows);
                    if (outer.name == together->axis) outer = ro;
                    if (together->inside) S.reorder({o, ri});
                    if (together->unrolled) S.unroll(ri);
                }
                if (calls_functions(stage)) {
                    S.vectorize(i);
                } else {
                    S.vectorize(i, lanes);
                    if (block > lanes) S.unroll(i.name + ".o");
                }
            } else if (tiled) {
                const auto part = parts.find(stage.name);
                outer = tile_in_registers(s, S, stage, lanes,
                                          part == parts.end() ? std::nullopt : std::optional(part->second));
                finish_in_reader(s, S, stage, decided.unfinished);
            } else if (stage.is_reduction()) {
                // The reduction's steps are outside the vectors: each adds to a run of elements.
                const int64_t pieces = p.parallel && outer.name == last ? threads_of(machine) : 1;
                int64_t block = elements_of_step(stage, machine, lanes, extent, pieces);
                if (last != stage.axes.back().name()) {
                    // Whole runs of the last axis, so that its index is constant in each lane.
                    const int64_t runs = std::lcm(int64_t(lanes), *constant_extent(stage.axes.back())),
                                  most = std::min<int64_t>(block, accumulator_registers(machine) * lanes);
                    block = std::max(runs, most / runs * runs);
                }
                auto [o, i] = S.split(last, block);
                if (outer.name == last) outer = o;
                std::vector<LoopName> order;
                for (const std::string &l : S.state().order) {
                    if (l != i.name) order.push_back(l);
                }
                order.push_back(i);
                S.reorder(order);
                if (block == lanes)
                    S.vectorize(i);
                else
                    S.vectorize(i, lanes).unroll(i.name + ".o");
                finish_windows(s, S, stage, o, block > lanes ? 2 : 1, decided.unfinished);
                if (outer.name == o.name) whole = true;
            } else {
                S.vectorize(last, lanes);
                if (outer.name == last && *extent != lanes) outer = last + ".o";
            }
        }
        if (!rows && !vectors) {
            std::optional<LoopName> across;
            const bool records = widest > 1 && !rolls(S.state()); // rolled stages split planes
            for (const size_t rank : records ? record_ranks(stage, machine) : std::vector<size_t>())
                across = across ? across : vectorize_across_records(s, S, stage, rank, widest);
            if (across && !S.state().has_loop(outer.name)) outer = *across;
            if (!across) unroll_record(S, stage);
        }
        const LoopState *first = S.state().find_loop(outer.name);
        if (p.parallel && !inside && work(stage) >= (1 << 16) && first && S.state().has_loop(outer.name) &&
            first->kind == LoopKind::Serial && !first->reduction && !computes_planes(s, stage.name, outer)) {
            const auto n = Halide::Internal::as_const_int(first->extent);
            const int64_t task = n ? iterations_of_task(stage, *n) : 1;
            const bool divide = !whole && task > 1 && *n >= 2 * task && !holds_stages(s, stage.name, outer);
            S.parallel(divide ? S.split(outer, task).first : outer);
        }
    };
    // the reduction that it would join gets its loops first
    const auto may_join = [&](const Stage &stage) {
        const auto folds_as_many = [&](const Stage &other) {
            return other.axes.empty() && other.reduction_axes.size() == stage.axes.size();
        };
        return std::any_of(op.stages().begin(), op.stages().end(), folds_as_many) && decided.share_nests && !in_place &&
               stage.kind == Stage::Kind::Pointwise && !decided.loops.count(stage.name) &&
               !decided.places.count(stage.name) && !holds_stages(s, stage.name) &&
               !(p.parallel && work(stage) >= (1 << 16));
    };
    for (const Stage &stage : op.stages()) {
        if (!read_in_place.count(stage.name) && !may_join(stage)) schedule_loops(stage);
    }
    for (const Stage &stage : op.stages()) {
        if (!read_in_place.count(stage.name) && may_join(stage) && !join_partial_sums(s, stage)) schedule_loops(stage);
    }
    if (decided.share_nests) share_nests(s, read_in_place);
    bool some_apart = false; // some outputs could still share a nest
    for (auto stage = op.stages().rbegin(); stage != op.stages().rend(); ++stage) {
        if (!read_in_place.count(stage->name)) continue;
        const bool placed = decided.share_nests && compute_before_readers(s, *stage);
        schedule_loops(*stage);
        some_apart = some_apart || !placed;
    }
    if (decided.share_nests && some_apart) share_nests(s);
    const auto &outputs = op.outputs();
    if (std::none_of(outputs.begin(), outputs.end(), [&](const auto &o) { return splits_lines_of_rows(s, o); }))
        stream_large_outputs(s);
    return s;
}

} // namespace kumiko::library
