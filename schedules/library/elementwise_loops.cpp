#include "schedules/library/elementwise_loops.h"

#include "dsl/extern.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "dsl/scatter.h"
#include "machine/machine.h"
#include "schedules/library/elementwise_reads.h"
#include "schedules/library/functions.h"
#include "schedules/library/inlining.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/structure.h"
#include "schedules/library/tables.h"

#include <algorithm>
#include <limits>

namespace kumiko::library {

namespace {

// Whether the stage's axes from d on are contiguous in every tensor that it reads: each has them as
// its adjacent last axes, or has none of them.
bool one_run(const Op &op, const Schedule &s, const Stage &stage, size_t d) {
    const auto variable = [](const Expr &e) {
        const auto *v = e.as<Halide::Internal::Variable>();
        return v ? v->name : std::string();
    };
    std::set<std::string> kept = kept_tensors(s.state());
    for (const Stage &padding : op.stages()) { // contiguous between its borders
        if (padding.kind == Stage::Kind::Padding) kept.insert(padding.name);
    }
    for (const auto &[name, index] : reads_of(op, stage, kept)) {
        const std::vector<Axis> &axes = s.state().axes_of(name);
        const auto uses = [&](const Expr &e) {
            return std::any_of(stage.axes.begin() + static_cast<std::ptrdiff_t>(d), stage.axes.end(),
                               [&](const Axis &a) { return Halide::Internal::expr_uses_var(e, a.name()); });
        };
        if (std::none_of(index.begin(), index.end(), uses)) continue;
        const size_t run = stage.axes.size() - d;
        if (index.size() < run || std::any_of(index.begin(), index.end() - static_cast<std::ptrdiff_t>(run), uses))
            return false;
        for (size_t k = 0; k < run; k++) {
            const Axis &mine = stage.axes[d + k];
            const size_t at = index.size() - run + k;
            Expr e = index[at];
            if (k == 0) { // the outermost may have an offset
                const Expr begin =
                    Halide::Internal::simplify(e - Halide::Internal::Variable::make(Int(32), mine.name()));
                if (!uses(begin)) continue;
            }
            if (variable(e) != mine.name() || constant_extent(axes[at]) != constant_extent(mine)) return false;
        }
    }
    return true;
}

// The number of reads, by the stage or by stages inlined into it, that may be out of bounds and so
// are guarded.
size_t padded_reads(const Schedule &s, const Stage &stage) {
    size_t n = 0;
    for (const Expr &e : stage.expressions()) {
        for (const Halide::Internal::Call *read : tensor_reads(e)) {
            const StageState *inner = s.state().producer(read->name);
            if (!inner) continue;
            const bool inlined = inner->placement.kind == Placement::Kind::Inline;
            n += inner->def.kind == Stage::Kind::Padding ? 1 : inlined ? padded_reads(s, inner->def) : 0;
        }
    }
    return n;
}

} // namespace

int64_t work(const Stage &s) {
    int64_t n = 1;
    for (const auto *axes : {&s.axes, &s.reduction_axes}) {
        for (const Axis &a : *axes) n *= constant_extent(a).value_or(1 << 20);
    }
    return n;
}

bool holds_stages(const Schedule &s, const std::string &stage, const std::optional<std::string> &loop) {
    const StageState &own = s.state().stage(stage);
    if (own.shared && (!loop || (own.has_loop(*loop) && own.position(*loop) <= own.position(own.shared->loop))))
        return true;
    return std::any_of(s.state().stages.begin(), s.state().stages.end(), [&](const StageState &other) {
        const Placement &computed = other.computed_at();
        return other.placement.kind == Placement::Kind::At &&
               ((other.placement.consumer == stage && (!loop || other.placement.loop == *loop)) ||
                (computed.consumer == stage && loop && computed.loop == *loop));
    });
}

const StageState &host_of_nest(const Schedule &s, const std::string &stage) {
    const StageState *host = &s.state().stage(stage);
    while (host->placement.kind == Placement::Kind::At) host = &s.state().stage(host->placement.consumer);
    return *host;
}

bool divides_for_each_lane(const Stage &stage, const Stage &reader) {
    struct Divides : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        bool found = false;
        void by(const Expr &type, const Expr &below) {
            const auto n = Halide::Internal::as_const_int(below);
            found = found || (type.type().is_int_or_uint() && !(n && *n > 0 && (*n & (*n - 1)) == 0));
        }
        void visit(const Halide::Internal::Div *op) override { by(op->a, op->b), IRVisitor::visit(op); }
        void visit(const Halide::Internal::Mod *op) override { by(op->a, op->b), IRVisitor::visit(op); }
    } divides;
    if (stage.axes.empty() || reader.axes.empty() || stage.axes.size() >= reader.axes.size()) return false;
    if (!find_axis(stage, reader.axes.back().name())) return false;
    for (const Expr &e : stage.expressions()) e.accept(&divides);
    return divides.found;
}

std::pair<std::string, std::optional<int64_t>> join_last_axes(const Op &op, Schedule &s, StageHandle S,
                                                              const Stage &stage, int64_t block) {
    std::string last = stage.axes.back().name();
    auto extent = constant_extent(stage.axes.back());
    const int64_t lanes = vector_lanes(s.machine(), stage.type);
    const bool short_window = stage.is_reduction() && extent && *extent < lanes && !scattered(stage);
    if ((stage.is_reduction() && !short_window) || !stage.strides.empty() ||
        S.state().placement.kind != Placement::Kind::Root)
        return {last, extent};
    // Vectors across the ends of arrays would access several arrays far out of bounds: each keeps
    // rows of its own.
    const size_t padded = padded_reads(s, stage);
    if (padded > 1 || (padded == 1 && extent && *extent >= lanes)) return {last, extent};
    for (size_t d = stage.axes.size() - 1; d-- > 0 && extent && *extent % block != 0;) {
        const auto outer = constant_extent(stage.axes[d]);
        if (!outer || *outer < 1 || *extent < 1 || !one_run(op, s, stage, d)) break;
        if (!S.state().has_loop(stage.axes[d].name()) || holds_stages(s, stage.name, stage.axes[d].name())) break;
        if (*outer * *extent > std::numeric_limits<int32_t>::max()) break; // of loop variables
        last = LoopName(S.fuse(stage.axes[d].name(), last)).name;
        extent = *outer * *extent;
    }
    return {last, extent};
}

int64_t elements_of_block(const Schedule &s, const StageState &stage, const std::string &axis) {
    const StageState &host = s.state().stage(stage.placement.consumer);
    int64_t elements = 1;
    for (size_t l = host.position(stage.placement.loop) + 1; l < host.order.size(); l++) {
        if (host.derived_from(host.order[l], axis))
            elements *= Halide::Internal::as_const_int(host.loop(host.order[l]).extent).value_or(1);
    }
    return elements;
}

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

bool pays_to_gather(const Op &op, const Stage &stage, const Machine &machine) {
    constexpr int64_t min_operations = 6; // per gathered element
    if (stage.is_reduction() || machine.architecture != "x86-64" || machine.vector_bits < 256) return false;
    const std::string &last = stage.axes.back().name();
    const auto gathers = [](const Halide::Internal::Call *read) {
        return std::any_of(read->args.begin(), read->args.end(), [](const Expr &index) { return reads_data(index); });
    };
    // Registers hold the whole tensor, so that gathering costs no load for each lane.
    const auto is_table = [&](const std::string &tensor) {
        const Stage *made = op.find_stage(tensor);
        const Input *in = op.find_input(tensor);
        if (made) return fits_lookup_registers(made->type, made->axes, machine);
        return in && fits_lookup_registers(in->type, in->axes, machine);
    };
    bool tables = false;
    std::set<Expr, Halide::Internal::IRDeepCompare> gathered;
    for (const Halide::Internal::Call *read : tensor_reads(stage.value)) {
        const Expr e(read);
        if (!gathers(read) || !Halide::Internal::expr_uses_var(e, last)) continue;
        if (is_table(read->name)) {
            tables = true;
            continue;
        }
        if (read->type.bits() < 32) return false;
        gathered.insert(e);
    }
    const auto step = farthest_step(op, stage, last, gathers);
    return (tables || !gathered.empty()) && step && *step <= shuffled_step &&
           operations(stage) >= min_operations * static_cast<int64_t>(gathered.size());
}

} // namespace kumiko::library
