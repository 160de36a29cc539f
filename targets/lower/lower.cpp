#include "targets/lower/lower.h"

#include "schedules/shared_loops.h"
#include "schedules/storage.h"
#include "schedules/values.h"
#include "support/error.h"
#include "targets/lower/lowering.h"

#include <chrono>

namespace kumiko {

namespace {

constexpr Pass passes[] = {
    {"build", build_nest, NestForm::Indexed},
    {"pads", fill_pads, NestForm::Indexed},
    {"flatten", flatten_storage, NestForm::Flat},
    {"tensorize", tensorize_blocks, NestForm::Flat},
    {"partition", partition_loops, NestForm::Flat},
    {"vectorize", vectorize_loops, NestForm::NoVectorLoops},
    {"unroll", unroll_loops, NestForm::NoUnrolledLoops},
    {"interleave", interleave_stores, NestForm::NoUnrolledLoops},
    {"simplify", simplify_indices, NestForm::NoUnrolledLoops},
    {"group", group_stores, NestForm::NoUnrolledLoops},
    {"join", join_stores, NestForm::NoUnrolledLoops},
    {"hoist", hoist_allocations, NestForm::NoUnrolledLoops},
    {"rename", rename_loops, NestForm::NoUnrolledLoops},
};

void run(const Pass &p, Lowering &l, const LowerOptions &options) {
    const auto start = std::chrono::steady_clock::now();
    p.run(l);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (options.timings) {
        auto &rows = *options.timings;
        const auto row = std::find_if(rows.begin(), rows.end(), [&](const PassReport &r) { return r.name == p.name; });
        if (row == rows.end())
            rows.push_back({p.name, took.count()});
        else
            row->milliseconds += took.count();
    }
    if (options.print) options.print(p.name, l.nest.body);
    if (options.verify_each && p.gives != NestForm::Indexed && !options.to_count) verify(l, p.gives);
}

// All passes but the last.
void run_all(Lowering &l, const LowerOptions &options) {
    for (const Pass &p : passes) {
        if (p.run == rename_loops || (p.run == simplify_indices && l.to_count && !l.copied)) continue;
        run(p, l, options);
    }
    if (options.verify && !options.verify_each && !options.to_count) verify(l, NestForm::NoUnrolledLoops);
}

TensorArgument input_argument(const Input &in) {
    TensorArgument t{in.name, in.type, in.inout, {}, in.strides, "", in.inout};
    for (const Axis &a : in.axes) t.extents.push_back(a.extent());
    return t;
}

TensorArgument packed_argument(const StageState &packed) {
    std::vector<std::string> axes;
    std::vector<Expr> extents;
    for (const Axis &a : packed.def.axes) {
        axes.push_back(a.name());
        extents.push_back(a.extent());
    }
    Expr elements = 1;
    for (const Expr &e : storage_extents(packed.layout, axes, extents)) elements = elements * e;
    return {packed.name(), packed.def.type, false, {Halide::Internal::simplify(elements)}, {1}, packed.copied};
}

TensorArgument output_argument(const ScheduleState &state, const std::string &name) {
    const Stage &stage = state.op.stage(name);
    TensorArgument t{name, stage.type, true, {}, stage.array_strides()};
    if (const StageState *s = state.find(name)) t.streamed = s->streamed;
    for (const Axis &a : stage.axes) t.extents.push_back(a.extent());
    return t;
}

void set_facts(Lowering &l, const ScheduleState &state, const std::vector<Expr> &conditions) {
    l.facts = facts_of(state.op, conditions);
    l.state = l.facts.apply(state);
    order_by_groups(l.state);
}

// Adds to conditions on values the array that holds them and its number of elements.
Expr with_arrays(const Nest &head, const Expr &condition) {
    struct Name : Halide::Internal::IRMutator {
        using IRMutator::visit;
        const Nest *head;
        Expr visit(const Halide::Internal::Call *op) override {
            const auto values = values_condition(op);
            if (!values) return IRMutator::visit(op);
            for (const TensorArgument &t : head->tensors) {
                if (t.name != values->input && t.packed_from != values->input) continue;
                Expr elements = 1;
                for (const Expr &e : t.extents) elements = elements * e;
                return Halide::Internal::Call::make(
                    op->type, op->name, {t.name, op->args[1], op->args[2], Halide::Internal::simplify(elements)},
                    op->call_type);
            }
            throw InternalError("values of " + values->input + ", which the kernel does not take");
        }
    } name;
    name.head = &head;
    return name.mutate(condition);
}

// Allocations are nested, one level for each stage, and passes recurse into them.
void check_number_of_stages(const ScheduleState &state) {
    constexpr int64_t most = 2000;
    const int64_t kept = std::count_if(state.stages.begin(), state.stages.end(),
                                       [](const StageState &s) { return s.placement.kind != Placement::Kind::Inline; });
    if (kept > most)
        throw UserError("op " + state.op.name() + " keeps " + std::to_string(kept) +
                        " stages in memory, and a kernel has at most " + std::to_string(most) +
                        "; inline some of them (inline_into), or divide the op into several");
}

// A schedule and, in front of it, those specialised for conditions. Each is lowered by itself.
Lowering lower_all(const Nest &head, const Schedule &schedule, const std::vector<Expr> &conditions,
                   const LowerOptions &options) {
    check_number_of_stages(schedule.state());
    Lowering l{.state = schedule.state(), .most_accesses = options.most_accesses, .to_count = options.to_count};
    l.nest = head;
    set_facts(l, schedule.state(), conditions);
    run_all(l, options);
    const auto &special = schedule.specializations();
    for (size_t s = special.size(); s-- > 0;) {
        std::vector<Expr> inside = conditions;
        Expr condition = special[s].condition;
        inside.push_back(condition);
        // The special schedule's own assumptions are part of the condition.
        for (const Assume &a : special[s].schedule->state().assumptions) {
            if (Halide::Internal::equal(a.condition, special[s].condition)) continue;
            inside.push_back(a.condition);
            condition = condition && a.condition;
        }
        Lowering one = lower_all(head, *special[s].schedule, inside, options);
        l.nest.body = Halide::Internal::IfThenElse::make(with_arrays(head, condition), one.nest.body, l.nest.body);
        for (LoopRow &row : one.nest.loops) l.nest.loops.push_back(row);
        for (BufferRow &row : one.nest.buffers) l.nest.buffers.push_back(row);
    }
    return l;
}

std::set<std::string> variables_of(const std::vector<Expr> &all) {
    struct Visitor : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        std::set<std::string> names;
        void visit(const Halide::Internal::Variable *v) override { names.insert(v->name); }
    } v;
    for (const Expr &e : all) e.accept(&v);
    return v.names;
}

// The kernel that pre-packs one input.
Nest pack_nest(const Nest &kernel, const Schedule &schedule, const StageState &packed, const LowerOptions &options) {
    const Input &in = *schedule.op().find_input(packed.copied);
    Lowering l{.state = schedule.state(), .packing = true};
    l.nest.name = kernel.name + "_pack_" + in.name;
    TensorArgument out = packed_argument(packed);
    out.output = true;
    l.nest.tensors = {input_argument(in), out};
    std::vector<Expr> used = l.nest.tensors[0].extents;
    for (const Expr &s : l.nest.tensors[0].strides) used.push_back(s);
    const std::set<std::string> names = variables_of(used);
    for (const std::string &s : kernel.sizes) {
        if (names.count(s)) l.nest.sizes.push_back(s);
    }
    std::vector<Expr> conditions;
    for (const Assume &a : schedule.state().assumptions) {
        const std::set<std::string> about = variables_of({a.condition});
        if (is_about_values(a.condition)) continue; // the kernel itself tests its input
        if (!std::includes(names.begin(), names.end(), about.begin(), about.end())) continue;
        conditions.push_back(a.condition);
        l.nest.assumptions.push_back({a.condition, a.text});
    }
    ScheduleState alone = schedule.state();
    alone.stages = {packed};
    set_facts(l, alone, conditions);
    run_all(l, options);
    rename_loops(l);
    return std::move(l.nest);
}

} // namespace

std::vector<std::string> pass_names() {
    std::vector<std::string> names;
    for (const Pass &p : passes) names.push_back(p.name);
    return names;
}

Nest lower(const Schedule &schedule, const LowerOptions &options) {
    schedule.require_applied();
    try {
        const Op &op = schedule.op();
        Nest head;
        for (const StageState &stage : schedule.state().stages) {
            if (!stage.write_back.empty())
                throw Unsupported(
                    "write_back of stage " + stage.name() +
                    ": this target cannot overlap stores with the next iteration; write_back is for the chip");
        }
        head.name = options.kernel_name.empty() ? op.name() : options.kernel_name;
        head.instructions = schedule.state().instructions;
        std::vector<const StageState *> packed;
        for (const Input &in : op.inputs()) {
            const StageState *copy = nullptr;
            for (const StageState &s : schedule.state().stages) {
                if (s.prepacked && s.copied == in.name) copy = &s;
            }
            head.tensors.push_back(copy ? packed_argument(*copy) : input_argument(in));
            if (copy) packed.push_back(copy);
        }
        for (const std::string &name : op.separate_outputs())
            head.tensors.push_back(output_argument(schedule.state(), name));
        head.sizes = op.sizes();
        std::vector<Expr> conditions;
        for (const Requirement &r : op.requirements()) head.assumptions.push_back({r.condition, r.text});
        for (const Assume &a : schedule.state().assumptions) {
            head.assumptions.push_back({with_arrays(head, a.condition), a.text});
            conditions.push_back(a.condition);
        }
        Lowering l = lower_all(head, schedule, conditions, options);
        if (options.to_count) return std::move(l.nest);
        for (const Pass &p : passes) {
            if (p.run == rename_loops) run(p, l, options);
        }
        for (const StageState *s : packed) l.nest.packs.push_back(pack_nest(head, schedule, *s, options));
        return std::move(l.nest);
    } catch (const Halide::Error &e) {
        throw InternalError(std::string("lowering ") + schedule.op().name() + ": " + e.what());
    }
}

} // namespace kumiko
