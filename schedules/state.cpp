#include "schedules/state.h"

#include "dsl/extern.h"
#include "dsl/recurrence.h"
#include "machine/instruction.h"
#include "support/error.h"
#include "support/names.h"

namespace kumiko {

Expr count_blocks(const Expr &extent, int64_t factor) {
    if (const auto n = Halide::Internal::as_const_int(extent))
        return Expr(static_cast<int>((*n + factor - 1) / factor));
    const Expr f = static_cast<int>(factor);
    return (extent + f - 1) / f;
}

using namespace Halide::Internal;

const char *kind_name(LoopKind kind) {
    switch (kind) {
    case LoopKind::Serial:
        return "serial";
    case LoopKind::Parallel:
        return "parallel";
    case LoopKind::Vectorized:
        return "vectorized";
    case LoopKind::Unrolled:
        return "unrolled";
    case LoopKind::Bound:
        return "bound";
    }
    return "";
}

namespace {
constexpr const char *tail_names[] = {"auto", "guard", "mask", "shift", "pad"};
}

const char *tail_name(Tail tail) { return tail_names[static_cast<int>(tail)]; }

Tail tail_from_name(const std::string &name) {
    for (int t = 0; t < 5; t++) {
        if (name == tail_names[t]) return static_cast<Tail>(t);
    }
    throw UserError("unknown tail strategy \"" + name + "\"; legal are auto, guard, mask, shift, pad");
}

std::string LayoutTerm::to_string() const {
    if (part == Part::Whole) return axis;
    return axis + (part == Part::Outer ? "/" : "%") + std::to_string(block);
}

bool StageState::has_loop(const std::string &loop) const {
    return std::find(order.begin(), order.end(), loop) != order.end();
}

const LoopState *StageState::find_loop(const std::string &name) const {
    for (const LoopState &l : loops) {
        if (l.name == name) return &l;
    }
    return nullptr;
}

LoopState &StageState::loop(const std::string &name) {
    for (LoopState &l : loops) {
        if (l.name == name) return l;
    }
    throw InternalError("stage " + def.name + " has no loop " + name);
}

const LoopState &StageState::loop(const std::string &name) const { return const_cast<StageState *>(this)->loop(name); }

size_t StageState::position(const std::string &loop) const {
    const auto it = std::find(order.begin(), order.end(), loop);
    if (it == order.end()) throw InternalError("loop " + loop + " of stage " + def.name + " does not stand");
    return it - order.begin();
}

bool StageState::derived_from(const std::string &loop, const std::string &ancestor) const {
    if (loop == ancestor) return true;
    for (const Relation &r : relations) {
        if (const auto *s = std::get_if<SplitRelation>(&r)) {
            if ((s->outer == loop || s->inner == loop) && derived_from(s->parent, ancestor)) return true;
        } else if (const auto &f = std::get<FuseRelation>(r); f.fused == loop) {
            if (derived_from(f.outer, ancestor) || derived_from(f.inner, ancestor)) return true;
        }
    }
    return false;
}

std::vector<std::string> StageState::axes_of(const std::string &loop) const {
    std::vector<std::string> names;
    for (const Axis &a : def.axes) {
        if (derived_from(loop, a.name())) names.push_back(a.name());
    }
    for (const Axis &a : def.reduction_axes) {
        if (derived_from(loop, a.name())) names.push_back(a.name());
    }
    return names;
}

size_t StageState::end_of_steps() const {
    if (waiting && has_loop(waiting->loop)) return position(waiting->loop) + 1;
    return accumulate && has_loop(accumulate->loop) ? position(accumulate->loop) + 1 : first_reduction();
}

size_t StageState::first_reduction() const {
    for (size_t i = 0; i < order.size(); i++) {
        if (loop(order[i]).reduction) return i;
    }
    return order.size();
}

const SplitRelation *StageState::padded_split() const {
    for (const Relation &r : relations) {
        const auto *split = std::get_if<SplitRelation>(&r);
        if (split && split->tail == Tail::Pad) return split;
    }
    return nullptr;
}

ScheduleState::ScheduleState(const Op &op, std::shared_ptr<const Machine> machine,
                             std::shared_ptr<const InstructionSet> instructions)
    : op(op), machine(std::move(machine)), instructions(std::move(instructions)) {
    if (!this->instructions) {
        this->instructions =
            std::shared_ptr<const InstructionSet>(std::shared_ptr<const InstructionSet>(), &InstructionSet::builtin());
    }
    for (const Stage &def : op.stages()) {
        StageState s;
        s.def = def;
        // An extern call has no loops.
        for (const Axis &a : is_extern(def) ? std::vector<Axis>() : def.axes) {
            s.loops.push_back({a.name(), a.extent(), false, LoopKind::Serial});
            s.order.push_back(a.name());
        }
        for (const Axis &a : def.reduction_axes) {
            s.loops.push_back({a.name(), a.extent(), true, LoopKind::Serial});
            s.order.push_back(a.name());
        }
        if (def.kind == Stage::Kind::Padding) s.placement.kind = Placement::Kind::Inline;
        stages.push_back(std::move(s));
    }
    // The step loop of a recurrence is outermost, and its stages are computed in it.
    for (StageState &s : stages) {
        if (!s.def.takes_steps()) continue;
        const auto loop = std::find(s.order.begin(), s.order.end(), s.def.step_axis);
        std::rotate(s.order.begin(), loop, loop + 1);
        for (const std::string &name : in_steps(*this, s))
            stage(name).placement = {Placement::Kind::At, s.name(), s.def.step_axis};
    }
}

std::set<std::string> in_steps(const ScheduleState &state, const StageState &recurrence) {
    std::vector<const Stage *> all;
    for (const StageState &s : state.stages) all.push_back(&s.def);
    std::set<std::string> names = stages_of_steps(all, recurrence.def);
    names.erase(recurrence.name());
    return names;
}

// Searches from the last result. After each directive, obligations are checked in stage order, so
// most searches ask for the same stage or the next.
StageState *ScheduleState::find(const std::string &name) {
    thread_local size_t last = 0;
    const size_t n = stages.size();
    for (size_t k = 0, at = last < n ? last : 0; k < n; k++, at = at + 1 < n ? at + 1 : 0) {
        if (stages[at].name() != name) continue;
        last = at;
        return &stages[at];
    }
    return nullptr;
}

std::string ScheduleState::stage_names() const {
    std::string all;
    for (const StageState &s : stages) all += (all.empty() ? "" : ", ") + s.name();
    return all;
}

const StageState *ScheduleState::find(const std::string &name) const {
    return const_cast<ScheduleState *>(this)->find(name);
}

StageState &ScheduleState::stage(const std::string &name) {
    if (StageState *s = find(name)) return *s;
    throw UserError("op " + op.name() + " has no stage \"" + name + "\"; its stages are " + stage_names());
}

const StageState &ScheduleState::stage(const std::string &name) const {
    return const_cast<ScheduleState *>(this)->stage(name);
}

const StageState *ScheduleState::producer(const std::string &tensor) const {
    for (const StageState &s : stages) {
        if (s.name() == tensor) return &s;
        for (const Component &c : s.def.components) {
            if (c.tensor == tensor) return &s;
        }
    }
    return nullptr;
}

const std::vector<Axis> &ScheduleState::axes_of(const std::string &tensor) const {
    if (const Input *in = op.find_input(tensor)) return in->axes;
    if (const StageState *s = producer(tensor)) return s->def.axes;
    std::string all;
    for (const Input &in : op.inputs()) all += (all.empty() ? "" : ", ") + in.name;
    for (const StageState &s : stages) all += ", " + s.name();
    throw UserError("op " + op.name() + " has no tensor \"" + tensor + "\"; its tensors are " + all);
}

Type ScheduleState::type_of(const std::string &tensor) const {
    if (const Input *in = op.find_input(tensor)) return in->type;
    axes_of(tensor); // throws if unknown
    const StageState *s = producer(tensor);
    for (const Component &c : s->def.components) {
        if (c.tensor == tensor) return c.type;
    }
    return s->def.type;
}

std::vector<std::string> ScheduleState::readers(const std::string &tensor) const {
    std::set<std::string> names = {tensor};
    const StageState *own = producer(tensor);
    if (own) {
        for (const Component &c : own->def.components) names.insert(c.tensor);
    }
    // Unlike reads_of_tensors, it stops at the first read: directives ask for readers very often.
    struct Reads : Halide::Internal::IRGraphVisitor {
        using IRGraphVisitor::visit;
        const std::set<std::string> *names;
        bool any = false;
        void visit(const Halide::Internal::Call *op) override {
            any = any || (op->call_type == Halide::Internal::Call::Image && names->count(op->name));
            if (!any) IRGraphVisitor::visit(op);
        }
    };
    std::vector<std::string> found;
    for (const StageState &s : stages) {
        if (own == &s) continue; // a recurrence reads itself
        Reads reads;
        reads.names = &names;
        for (const Expr &e : s.def.expressions()) e.accept(&reads);
        if (reads.any) found.push_back(s.name());
    }
    return found;
}

std::vector<std::string> ScheduleState::consumers(const std::string &tensor) const {
    std::vector<std::string> found;
    const auto add = [&](const std::string &s) {
        if (std::find(found.begin(), found.end(), s) == found.end()) found.push_back(s);
    };
    for (const std::string &reader : readers(tensor)) {
        const StageState &s = stage(reader);
        if (s.placement.kind == Placement::Kind::Inline) {
            for (const std::string &c : consumers(reader)) add(c);
        } else {
            add(reader);
        }
    }
    return found;
}

bool joins_lanes(const Stage &stage, const Machine &machine) {
    const std::string &kind = stage.reduction_kind;
    if (machine.architecture == "chip" && (kind == "argmax" || kind == "argmin")) return true;
    return stage.components.size() == 1 &&
           (kind == "sum" || kind == "product" || kind == "maximum" || kind == "minimum");
}

} // namespace kumiko
