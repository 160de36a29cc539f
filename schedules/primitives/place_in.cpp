#include "dsl/reads.h"
#include "dsl/stage_builder.h"
#include "machine/machine.h"
#include "schedules/candidates.h"
#include "schedules/loop_geometry.h"
#include "schedules/parts.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"
#include "support/error.h"

namespace kumiko {

namespace {

using namespace Halide::Internal;

// Substitutes the inlined stages through which `tensor` is read.
Expr read_through(const ScheduleState &state, const std::string &tensor, const Expr &e) {
    return map_reads(e, [&](const Call *read, const Expr &e) {
        const StageState *s = state.find(read->name);
        if (!s || s->placement.kind != Placement::Kind::Inline || s->def.kind != Stage::Kind::Pointwise) return e;
        const Expr value = read_through(state, tensor, s->def.value);
        return tensors_read(value).count(tensor) ? at_indices(value, s->def.axes, read->args) : e;
    });
}

} // namespace

StageState copy_of(const ScheduleState &state, const std::string &tensor, const std::string &name) {
    StageState made;
    made.is_copy = true;
    made.copied = tensor;
    made.def.name = name;
    made.def.kind = Stage::Kind::Pointwise;
    made.def.type = state.type_of(tensor);
    made.def.axes = state.axes_of(tensor);
    if (const StageState *source = state.producer(tensor); source && source->def.kind == Stage::Kind::Padding)
        made.def.kind = Stage::Kind::Padding;
    std::vector<Expr> indices;
    for (const Axis &a : made.def.axes) {
        indices.push_back(a);
        made.loops.push_back({a.name(), a.extent(), false, LoopKind::Serial});
        made.order.push_back(a.name());
    }
    made.def.value = read_tensor(made.def.type, tensor, indices);
    return made;
}

void redirect_reads(StageState &reader, const std::string &from, const std::string &to) {
    if (reader.def.value.defined()) reader.def.value = redirect_reads(reader.def.value, from, to);
    for (Component &c : reader.def.components) c.term = redirect_reads(c.term, from, to);
}

namespace {

// Upper bound of the elements of `tensor` that the loops from `depth` on read; less than their
// region if they are not contiguous.
std::optional<int64_t> elements_below(const StageState &reader, const std::string &tensor, size_t depth,
                                      const Frame &frame) {
    const std::vector<Expr> expressions = reader.def.expressions();
    int64_t all = 0;
    for (const Call *read : reads_of_tensors(expressions, {tensor})) {
        std::set<std::string> used_axes;
        for (const Expr &index : read->args) used_axes.merge(variables_of(index));
        int64_t n = 1;
        for (size_t l = depth; l < reader.order.size(); l++) {
            bool used = false;
            for (const std::string &a : reader.axes_of(reader.order[l])) used = used || used_axes.count(a);
            const auto extent = as_const_int(simplify(frame.extent(reader.order[l])));
            if (!used) continue;
            if (!extent) return std::nullopt;
            n *= *extent;
        }
        all += n;
    }
    return all;
}

// The bytes of `tensor` that stage `reader` touches below `loop`; nullopt if not constant.
std::optional<int64_t> bytes_below(const ScheduleState &state, const StageState &reader, const std::string &tensor,
                                   const std::string &loop, const MemoryLevel &level) {
    Frame frame(reader, box_of(state, reader), "");
    const size_t depth = reader.position(loop) + 1;
    // Each unit that owns one or more such memories holds only its own iterations of a loop
    // distributed over these units.
    const std::vector<std::string> units = state.machine->unit_names();
    const auto rank = [&](const std::string &unit) {
        return std::find(units.begin(), units.end(), unit) - units.begin();
    };
    for (size_t i = depth; i < reader.order.size(); i++) {
        const LoopState &l = reader.loop(reader.order[i]);
        if (l.kind == LoopKind::Bound && rank(l.unit) <= rank(level.scope) && rank(level.scope) < int64_t(units.size()))
            frame.override_extent(l.name, 1);
    }
    Bounds known, scope;
    for (size_t i = 0; i < depth; i++) known.push(reader.order[i], Interval(0, frame.extent(reader.order[i]) - 1));
    const auto push = [&](const Axis &a) { scope.push(a.name(), frame.axis_interval(a.name(), depth, known)); };
    for (const Axis &a : reader.def.axes) push(a);
    for (const Axis &a : reader.def.reduction_axes) push(a);
    Region whole;
    for (const Axis &a : state.axes_of(tensor)) {
        whole.min.push_back(0);
        whole.extent.push_back(a.extent());
    }
    const auto region = lattice_read(reader.def.expressions(), tensor, scope, whole, known);
    int64_t bytes = region ? state.type_of(tensor).bytes() : 0;
    if (!region) return bytes;
    const auto touched = elements_below(reader, tensor, depth, frame);
    for (const Expr &extent : region->extent) {
        const auto n = upper_bound_of(extent, known);
        if (!n) return std::nullopt;
        bytes *= *n;
    }
    return touched ? std::min(bytes, *touched * state.type_of(tensor).bytes()) : bytes;
}

// The number of memories of the level that share a region. If memories belong to the innermost
// units and no loop is bound to those, vectors and tensor instructions distribute the region among
// them.
int64_t instances(const ScheduleState &state, const StageState &reader, const MemoryLevel &level) {
    const std::vector<UnitLevel> &units = state.machine->units;
    if (units.size() < 2 || level.scope != units.back().name) return 1;
    for (const std::string &l : reader.order) {
        if (reader.loop(l).unit == level.scope) return 1;
    }
    return units.back().count;
}

std::string shared_text(const ScheduleState &state, const StageState &reader, const MemoryLevel &level) {
    const int64_t n = instances(state, reader, level);
    return n == 1 ? "" : ", " + std::to_string(n) + " of which share it";
}

void check_room(const ScheduleState &state, const Directive &d, const StageState &reader, const std::string &tensor,
                const MemoryLevel &level, const std::string &loop) {
    const auto bytes = bytes_below(state, reader, tensor, loop, level);
    if (!bytes && level.name == "registers" && reader.placement.kind == Placement::Kind::Root &&
        state.assumptions.empty()) {
        refuse(state, d,
               "the size of the region of " + tensor + " needed below loop " + loop +
                   " is known only at run time, and registers need constant indices",
               &reader, loop, "a deeper loop, or splits by constants first");
    }
    if (bytes && level.bytes > 0 && *bytes > level.bytes * instances(state, reader, level)) {
        refuse(state, d,
               "the region of " + tensor + " needed below loop " + loop + " is " + std::to_string(*bytes) +
                   " bytes, but " + level.name + " holds " + std::to_string(level.bytes) +
                   shared_text(state, reader, level),
               &reader, loop, "a deeper loop, smaller tiles, or a larger level");
    }
}

void apply_place_in(ScheduleState &state, const Directive &d, size_t index) {
    const std::string tensor = text_argument(d, "tensor"), level_name = text_argument(d, "level");
    tensor_argument(state, d);
    const MemoryLevel &level = level_argument(state, d);
    if (!d.arguments.contains("consumer")) { // places the stage itself in the level
        StageState *stage = state.find(tensor);
        if (!stage)
            refuse(state, d, tensor + " is an input, so the caller decides where it is stored", nullptr, "",
                   "place_in with a consumer and a loop, which copies it");
        refuse_excluded(state, d, *stage, Trait::InLevel);
        if (level_name == "registers" && stage->placement.kind != Placement::Kind::At) {
            refuse(state, d, tensor + " is computed whole, at the root", stage, "",
                   "compute_at a loop first, so that only a small region is stored");
        }
        stage->level = level_name;
        return;
    }
    const std::string consumer = text_argument(d, "consumer"), loop = text_argument(d, "loop");
    if (!d.arguments.contains("loop")) refuse(state, d, "the loop of " + consumer + " is missing");
    require_stage(state, d, consumer);
    StageState &reader = state.stage(consumer);
    Directive at_consumer = d;
    at_consumer.arguments["stage"] = consumer;
    loop_argument(reader, at_consumer);
    refuse_excluded(state, d, reader, Trait::ReadsCopy);
    if (tensor == consumer || state.producer(tensor) == &reader)
        refuse_recurrence(state, d, reader, "a copy would miss the elements that it writes",
                          "place_in of another tensor that it reads");
    if (reader.loop(loop).kind == LoopKind::Vectorized) {
        refuse(state, d, "loop " + loop + " is vectorized, so nothing can be copied in it", &reader, loop,
               "a loop outside of it");
    }
    if (reader.def.value.defined()) reader.def.value = read_through(state, tensor, reader.def.value);
    for (Component &c : reader.def.components) c.term = read_through(state, tensor, c.term);
    bool reads = false;
    for (const Expr &e : reader.def.expressions()) reads = reads || tensors_read(e).count(tensor);
    if (!reads) {
        std::string names;
        for (const Expr &e : reader.def.expressions()) {
            for (const std::string &t : tensors_read(e)) names += (names.empty() ? "" : ", ") + t;
        }
        refuse(state, d, consumer + " does not read " + tensor + " itself", &reader, "",
               "the tensors that it reads: " + names);
    }
    check_room(state, d, reader, tensor, level, loop);

    std::string name = tensor + "." + level_name;
    for (int n = 1; state.find(name); n++) name = tensor + "." + level_name + std::to_string(n);
    StageState made = copy_of(state, tensor, name);
    made.level = level_name;
    made.placement = {Placement::Kind::At, consumer, loop};
    redirect_reads(reader, tensor, name);
    const std::string copy = made.def.name;
    const auto at = std::find_if(state.stages.begin(), state.stages.end(),
                                 [&](const StageState &s) { return s.name() == consumer; });
    state.stages.insert(at, std::move(made));
    const LastAnswer<std::optional<int64_t>> needed;
    state.obligations.push_back({index, [copy, consumer, loop, level, needed](const ScheduleState &s) -> std::string {
                                     const StageState *c = s.find(consumer), *p = s.find(copy);
                                     if (p->placement.kind != Placement::Kind::At ||
                                         p->placement.consumer != consumer || p->placement.loop != loop)
                                         return "";
                                     if (!c->has_loop(loop))
                                         return "loop " + loop + " of stage " + consumer + " no longer exists";
                                     if (c->loop(loop).kind == LoopKind::Vectorized)
                                         return "loop " + loop + " of stage " + consumer + " is now vectorized";
                                     const auto bytes = needed.get_or_compute(
                                         LoopGeometry(s, *c), [&] { return bytes_below(s, *c, copy, loop, level); });
                                     if (bytes && level.bytes > 0 && *bytes > level.bytes * instances(s, *c, level)) {
                                         return "the region below loop " + loop + " is now " + std::to_string(*bytes) +
                                                " bytes, but " + level.name + " holds " + std::to_string(level.bytes);
                                     }
                                     return "";
                                 }});
}

} // namespace

StageHandle &StageHandle::place_in(const std::string &level, Place where) {
    schedule_->apply({"place_in", {{"tensor", stage_}, {"level", level}}, where});
    return *this;
}

StageHandle Schedule::place_in(const std::string &tensor, const std::string &level, const std::string &consumer,
                               LoopName loop, Place where) {
    std::set<std::string> names;
    for (const StageState &s : state_->stages) names.insert(s.name());
    apply({"place_in", {{"tensor", tensor}, {"level", level}, {"consumer", consumer}, {"loop", loop.name}}, where});
    for (const StageState &s : state_->stages) {
        if (!names.count(s.name())) return StageHandle(*this, s.name());
    }
    throw InternalError("place_in made no stage");
}

namespace {

std::string place_in_cpp(const Directive &d) {
    if (d.arguments.contains("consumer")) return cpp_call(d, cpp_arguments(d));
    return "s.stage(" + d.arguments["tensor"].dump() + ").place_in(" + d.arguments["level"].dump() + ");";
}

} // namespace

const Primitive &place_in_primitive() {
    static const Primitive record = {
        "place_in",
        "memory",
        "Copies the region of a tensor that a stage needs below one of its loops into a memory level. "
        "The copy is made once for each iteration of that loop. "
        "On a CPU this is packing, on a chip it fills a scratch memory. "
        "The copy is a stage of its own, <tensor>.<level>, with loops to schedule and a layout to choose. "
        "Without a consumer, the stage itself is stored in that level.",
        "The consumer reads the tensor, directly or through inlined stages. "
        "The loop exists and is not vectorized. "
        "The region fits the level.",
        {{"tensor", ArgumentKind::Tensor, "the tensor"},
         {"level", ArgumentKind::Level, "the memory level, a name in the machine's table"},
         {"consumer", ArgumentKind::Text, "the stage that reads the copy", true},
         {"loop", ArgumentKind::Text, "the loop of the consumer below which the region is needed", true}},
        apply_place_in,
        {"matmul",
         {{"split", {{"stage", "C"}, {"loop", "k"}, {"factor", 64}}, {}},
          {"reorder", {{"stage", "C"}, {"loops", {"k.o", "i", "j", "k.i"}}}, {}}},
         {"place_in", {{"tensor", "B"}, {"level", "L2"}, {"consumer", "C"}, {"loop", "k.o"}}, {}}},
        {.order = 10,
         .cpp = place_in_cpp,
         .candidates = {{"consumer", readers_of_argument, 0.2}, {"loop", consumer_loops, 0}}},
    };
    return record;
}

} // namespace kumiko
