#include "dsl/print.h"
#include "schedules/candidates.h"
#include "schedules/facts.h"
#include "schedules/parts.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/storage.h"
#include "schedules/tensor_match.h"
#include "schedules/values.h"
#include "support/error.h"

namespace kumiko {

namespace {

using namespace Halide::Internal;

// Offsets of tensor elements, as far as the schedule determines them.
class Offsets {
public:
    Offsets(const ScheduleState &state, const StageState &stage, const Frame &frame, const Bounds &bounds)
        : state_(state), stage_(stage), frame_(frame), bounds_(bounds) {}

    Expr of(const Expr &e) const {
        const Call *read = e.as<Call>();
        std::vector<std::string> names;
        for (const Axis &a : state_.axes_of(read->name)) names.push_back(a.name());
        if (const Input *in = state_.op.find_input(read->name)) {
            Expr sum = 0;
            for (size_t d = 0; d < names.size(); d++) sum = sum + read->args[d] * in->strides[d];
            return join_remainders(simplify_index(sum, bounds_));
        }
        const StageState &p = *state_.producer(read->name);
        const std::optional<Region> region = stored(p, read->name);
        if (!region) return Expr();
        std::vector<Expr> indices, extents;
        for (size_t d = 0; d < names.size(); d++) {
            const Expr index = simplify_index(join_remainders(read->args[d]) - region->min[d], bounds_);
            indices.push_back(simplify_index(index / region->step_of(d), bounds_));
            const auto most = upper_bound_of(region->extent[d], bounds_);
            extents.push_back(most ? Expr(static_cast<int>(*most)) : region->extent[d]);
        }
        const bool accumulator = p.name() == stage_.tensor() && stage_.accumulate;
        return join_remainders(
            storage_offset(accumulator ? accumulator_layout(stage_) : p.layout, names, extents, indices));
    }

private:
    const ScheduleState &state_;
    const StageState &stage_;
    const Frame &frame_;
    const Bounds &bounds_;

    // The stored region of p that the stage reads; nullopt if that depends on other stages.
    std::optional<Region> stored(const StageState &p, const std::string &tensor) const {
        Region r;
        if (p.name() == stage_.tensor() && stage_.accumulate) {
            const size_t depth = stage_.position(stage_.accumulate->loop) + 1;
            for (const Axis &a : stage_.def.axes) {
                const Interval i = frame_.axis_interval(a.name(), depth, bounds_);
                r.min.push_back(i.min);
                r.extent.push_back(simplify_index(i.max - i.min + 1, bounds_));
            }
            return r;
        }
        if (p.placement.kind == Placement::Kind::Root) return whole_region(p.def);
        if (p.placement.consumer != stage_.name() || !stage_.has_loop(p.placement.loop)) return std::nullopt;
        const size_t depth = stage_.position(p.placement.loop) + 1;
        Bounds scope;
        for (const Axis &a : stage_.def.axes) scope.push(a.name(), frame_.axis_interval(a.name(), depth, bounds_));
        for (const Axis &a : stage_.def.reduction_axes)
            scope.push(a.name(), frame_.axis_interval(a.name(), depth, bounds_));
        std::vector<Expr> reads;
        for (const Expr &e : stage_.def.expressions()) reads.push_back(with_inlined(state_, e));
        if (p.is_copy && state_.consumers(p.name()).size() == 1)
            return lattice_read(reads, tensor, scope, whole_region(p.def), bounds_);
        std::optional<Region> all;
        for (const Expr &e : reads) {
            if (auto read = region_read(e, tensor, scope, whole_region(p.def), bounds_))
                all = all ? region_union(*all, *read, bounds_) : read;
        }
        return all;
    }
};

// "i < 8, k < 2"
std::string ranges(const Instruction &instruction) {
    std::string text;
    const Stage &s = instruction.meaning.stages().front();
    for (const auto *list : {&s.axes, &s.reduction_axes}) {
        for (const Axis &a : *list) text += (text.empty() ? "" : ", ") + a.name() + " < " + to_string(a.extent());
    }
    return text;
}

// Why the split that made `loop` never leaves a full block; "" if it can.
std::string never_whole(const StageState &s, const Frame &frame, const std::string &loop, const Bounds &bounds) {
    for (const Relation &r : s.relations) {
        const auto *split = std::get_if<SplitRelation>(&r);
        if (!split || split->inner != loop) continue;
        const Expr extent = frame.extent(split->parent), factor = static_cast<int>(split->factor);
        if (proves(extent < factor, bounds))
            return "loop " + split->parent + " has " + to_string(simplify_index(extent, bounds)) +
                   " iterations, fewer than a block";
        // The tail is a separate loop.
        const bool cut = split->tail == Tail::Auto || split->tail == Tail::Shift;
        if (!cut && !proves(extent % factor == 0, bounds))
            return "the tail " + std::string(tail_name(split->tail)) + " of loop " + split->parent +
                   " needs a guard in every block";
    }
    return "";
}

// Why an operand can have values outside the range for which the instruction is exact; "" if it
// cannot.
std::string values_outside(const ScheduleState &state, const Instruction &instruction, const TensorMatch &match) {
    for (size_t o = 0; o < instruction.operands.size(); o++) {
        for (const OperandRange &r : instruction.ranges) {
            if (r.tensor != instruction.operands[o].tensor) continue;
            const Expr &read = match.operands[o].read;
            if (const auto number = as_const_int(read); number && r.min <= *number && *number <= r.max) continue;
            if (const auto number = as_const_uint(read);
                number && int64_t(*number) >= 0 && r.min <= int64_t(*number) && int64_t(*number) <= r.max)
                continue;
            if (!read.as<Call>())
                return fmt::format("it is exact only while {} is within [{}, {}], but {} has other values", r.tensor,
                                   r.min, r.max, to_string(read));
            const std::string &tensor = read.as<Call>()->name;
            const auto values = values_of(state, tensor);
            if (values && values->within({r.min, r.max})) continue;
            const StageState *s = state.find(tensor);
            const std::string from = s && s->is_copy ? s->copied : tensor;
            return fmt::format("it is exact only while {} is within [{}, {}], which is not known of {}; assume "
                               "within(\"{}\", {}, {}) first, if it holds",
                               r.tensor, r.min, r.max, from, from, r.min, r.max);
        }
    }
    return "";
}

// The first difference between the block inside `loop` and the instruction, if the stage runs over
// `box`; "" if there is none.
std::string mismatch_in(const ScheduleState &known, const StageState &s, const std::string &loop,
                        const Instruction &instruction, const Region &box, Bounds bounds) {
    const Frame frame(s, box, "");
    TensorBlock block;
    block.bounds = &bounds;
    for (size_t i = 0; i < s.order.size(); i++) {
        const LoopState &l = s.loop(s.order[i]);
        const Expr extent = simplify_index(frame.extent(l.name), bounds);
        bounds.push(l.name, Interval(0, simplify(extent - 1)));
        if (i < s.position(loop)) continue;
        if (l.kind != LoopKind::Serial)
            return "loop " + l.name + " is " + kind_name(l.kind) +
                   "; the loops of the block must be serial, because the instruction replaces them";
        if (std::any_of(s.peels.begin(), s.peels.end(), [&](const Peel &p) { return p.loop == l.name; }))
            return "loop " + l.name + " is peeled, which divides the block";
        const auto n = as_const_int(extent);
        if (!n) return "the extent of loop " + l.name + " is known only at run time";
        block.loops.push_back({l.name, *n, l.reduction});
    }
    // If the instruction places its own operands, it also pads blocks.
    for (size_t i = s.position(loop); i < s.order.size() && !instruction.placed; i++) {
        if (const std::string why = never_whole(s, frame, s.order[i], bounds); !why.empty()) return why;
    }
    std::map<std::string, Expr> index;
    std::vector<Expr> own;
    for (const Axis &a : s.def.axes) {
        index[a.name()] = simplify_index(frame.index(a.name()), bounds);
        own.push_back(index[a.name()]);
    }
    for (const Axis &a : s.def.reduction_axes) index[a.name()] = simplify_index(frame.index(a.name()), bounds);
    const Component &c = s.def.components.front();
    block.target = read_tensor(c.type, c.tensor, own);
    block.value = substitute(
        {{accumulator_variable(0), block.target}, {term_variable(0), substitute(index, with_inlined(known, c.term))}},
        c.combined);
    const Offsets offsets(known, s, frame, bounds);
    block.offset = [&](const Expr &read) { return instruction.placed ? Expr() : offsets.of(read); };
    const TensorMatch match = match_tensor(instruction, block);
    return match.difference.empty() ? values_outside(known, instruction, match) : match.difference;
}

// The same for all boxes on which the stage runs.
std::string mismatch(const ScheduleState &state, const StageState &stage, const std::string &loop,
                     const Instruction &instruction) {
    if (!stage.has_loop(loop)) return "loop " + loop + " of stage " + stage.name() + " no longer exists";
    if (!stage.def.is_reduction() || stage.def.components.size() != 1)
        return stage.name() + " is not a reduction of one value, but the instruction is";
    // accumulate_in reports this.
    if (stage.accumulate && !stage.has_loop(stage.accumulate->loop)) return "";
    if (stage.accumulate && stage.position(stage.accumulate->loop) >= stage.position(loop)) {
        return "stage " + stage.name() + " accumulates inside of loop " + loop;
    }
    for (const StageState &p : state.stages) {
        if (p.placement.kind == Placement::Kind::At && p.placement.consumer == stage.name() &&
            stage.has_loop(p.placement.loop) && stage.position(p.placement.loop) >= stage.position(loop)) {
            return "stage " + p.name() + " is computed inside of loop " + loop;
        }
    }
    std::vector<Expr> assumed;
    for (const Assume &a : state.assumptions) assumed.push_back(a.condition);
    const Facts facts = facts_of(state.op, assumed);
    const ScheduleState known = facts.apply(state);
    const StageState &s = known.stage(stage.name());
    for (const Region &box : own_boxes(known, s)) {
        if (const std::string why = mismatch_in(known, s, loop, instruction, box, facts.bounds()); !why.empty())
            return why;
    }
    return "";
}

void apply_tensorize(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const std::string name = text_argument(d, "instruction");
    const Instruction *instruction = state.instructions->find(name);
    if (!instruction) {
        try {
            state.instructions->get(name);
        } catch (const UserError &e) {
            refuse(state, d, e.what());
        }
    }
    if (stage.tensorize)
        refuse(state, d, "stage " + stage.name() + " is tensorized already", &stage, loop.name,
               "one tensorize of a stage");
    if (!instruction->available_on(*state.machine)) {
        std::string have;
        for (const Instruction *i : state.instructions->available_on(*state.machine))
            have += (have.empty() ? "" : ", ") + i->name;
        refuse(state, d, "machine " + state.machine->name + " does not have the instruction", nullptr, "",
               have.empty() ? "no tensor instruction" : have);
    }
    if (const std::string why = mismatch(state, stage, loop.name, *instruction); !why.empty()) {
        refuse(state, d, "the block does not compute the meaning of the instruction: " + why, &stage, loop.name,
               "a block that is " + to_string(instruction->meaning.stages().front()) + ", with " +
                   ranges(*instruction));
    }
    stage.tensorize = Tensorize{loop.name, name};
    state.obligations.push_back({index, [n = stage.name(), l = loop.name, i = *instruction](const ScheduleState &s) {
                                     return mismatch(s, *s.find(n), l, i);
                                 }});
}

} // namespace

StageHandle &StageHandle::tensorize(LoopName loop, const std::string &instruction, Place where) {
    return apply("tensorize", {{"loop", loop.name}, {"instruction", instruction}}, where);
}

StageHandle &StageHandle::tensorize(LoopName loop, const Instruction &instruction, Place where) {
    schedule_->know(instruction);
    return tensorize(std::move(loop), instruction.name, where);
}

namespace {

Values available_instructions(const ScheduleState &state, const Directive &) {
    Values names;
    for (const Instruction *i : state.instructions->available_on(*state.machine)) names.push_back(i->name);
    return names;
}

} // namespace

const Primitive &tensorize_primitive() {
    static const Primitive record = {
        "tensorize",
        "machine",
        "Computes the block inside a loop by one tensor instruction. "
        "It is first proved that the block has the meaning of the instruction. "
        "The proof covers the loops, the expression, and the addresses of each operand, after layout. "
        "An operand that is constant along an axis is repeated in its register. "
        "An operand that the instruction takes from memory may have rows at any constant distance. "
        "Some instructions are exact for some values of an operand only. "
        "The operand's type, or an assumption over the input, then has to guarantee these values. "
        "Plain loops compute a last, partial block.",
        "The stage is a reduction of one value. "
        "The loops from this one inwards are serial, of constant extent, and exactly those of the instruction. "
        "No stage is computed inside them. "
        "The machine has the instruction.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"loop", ArgumentKind::Loop, "the outermost loop of the block"},
         {"instruction", ArgumentKind::Text, "the instruction's name"}},
        apply_tensorize,
        {"matmul_i16",
         {{"split", {{"stage", "C"}, {"loop", "j"}, {"factor", 8}}, {}},
          {"split", {{"stage", "C"}, {"loop", "k"}, {"factor", 2}}, {}},
          {"reorder", {{"stage", "C"}, {"loops", {"i", "j.o", "k.o", "j.i", "k.i"}}}, {}},
          {"prepack", {{"tensor", "B"}, {"terms", {"j/8", "k/2", "j%8", "k%2"}}}, {}},
          {"accumulate_in", {{"stage", "C"}, {"level", "registers"}, {"loop", "j.o"}}, {}}},
         {"tensorize", {{"stage", "C"}, {"loop", "j.i"}, {"instruction", "avx2.vpmaddwd"}}, {}}},
        {.order = 50, .candidates = {{"instruction", available_instructions}}},
    };
    return record;
}

} // namespace kumiko
