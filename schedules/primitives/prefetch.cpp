#include "schedules/candidates.h"
#include "schedules/online.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

// A stage reads the tensors in its expressions; a single-value sum also reads its own partial
// results.
bool reads(const ScheduleState &state, const StageState &stage, const std::string &tensor) {
    if (tensor == stage.name()) return stage.def.is_reduction() && stage.def.components.size() == 1;
    const auto readers = state.consumers(tensor);
    return std::find(readers.begin(), readers.end(), stage.name()) != readers.end();
}

// Why the region of `tensor` below `loop` of `stage` cannot be prefetched; "" if it can.
std::string not_fetchable(const ScheduleState &state, const StageState &stage, const std::string &tensor,
                          const std::string &loop) {
    if (!stage.has_loop(loop)) return "loop " + loop + " of stage " + stage.name() + " no longer exists";
    if (stage.loop(loop).kind == LoopKind::Vectorized)
        return "loop " + loop + " of stage " + stage.name() + " is vectorized";
    if (tensor == stage.name()) {
        if (stage.accumulate && stage.has_loop(stage.accumulate->loop) &&
            stage.position(stage.accumulate->loop) < stage.position(loop)) {
            return tensor + " is accumulated in " + stage.accumulate->level + " around loop " + loop;
        }
        for (size_t i = 0; i < stage.position(loop); i++) {
            if (stage.loop(stage.order[i]).reduction) return "";
        }
        return "no reduction loop is outside of loop " + loop + ", so " + tensor + " has no partial results";
    }
    const StageState *p = state.producer(tensor);
    if (!p) return "";
    if (p->placement.kind == Placement::Kind::Inline) return tensor + " is inlined, so it is not stored";
    const auto inside = [&](const Placement &at) {
        return at.kind == Placement::Kind::At && at.consumer == stage.name() && stage.has_loop(at.loop) &&
               stage.position(at.loop) >= stage.position(loop);
    };
    if (inside(p->computed_at())) return tensor + " is computed inside loop " + loop + ", just before it is read";
    if (inside(p->placement)) return tensor + " is stored inside loop " + loop + ", for one iteration only";
    return "";
}

// Why the elements of `tensor` that the stage reads at `loop` in later iterations of that loop of
// its consumer, or of an outer loop of its own, cannot be prefetched; "" if they can.
std::string not_around(const ScheduleState &state, const StageState &stage, const std::string &tensor,
                       const std::string &loop, const std::string &consumer, const std::string &of) {
    if (consumer == stage.name()) {
        if (!stage.has_loop(of)) return "loop " + of + " of stage " + consumer + " no longer exists";
        if (stage.position(of) >= stage.position(loop))
            return "loop " + of + " of stage " + consumer + " is not outside of loop " + loop;
        return not_fetchable(state, stage, tensor, of);
    }
    const StageState *c = state.find(consumer), *inner = &stage;
    while (inner && inner->computed_at().kind == Placement::Kind::At && inner->computed_at().consumer != consumer &&
           !follows(*inner))
        inner = state.find(inner->computed_at().consumer);
    if (!inner || inner->computed_at().kind != Placement::Kind::At || follows(*inner))
        return stage.name() + " is not computed in the loops of " + consumer;
    const Placement &at = inner->computed_at();
    if (!c || !c->has_loop(of)) return "loop " + of + " of stage " + consumer + " no longer exists";
    if (c->loop(of).kind == LoopKind::Vectorized) return "loop " + of + " of stage " + consumer + " is vectorized";
    if (!c->has_loop(at.loop) || c->position(at.loop) < c->position(of))
        return stage.name() + " is computed outside of loop " + of;
    const StageState *p = state.producer(tensor);
    if (p && p->placement.kind != Placement::Kind::Root) return tensor + " is not computed at the root";
    return "";
}

void apply_prefetch(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const std::string tensor = text_argument(d, "tensor");
    const int64_t distance = integer_argument(d, "distance");
    tensor_argument(state, d);
    const std::string consumer = text_argument(d, "consumer"), of = text_argument(d, "of");
    if (distance < 1 || distance > 4096) {
        refuse(state, d, "a distance of " + std::to_string(distance) + " iterations", &stage, loop.name,
               "1 to 4096 iterations ahead");
    }
    if (!reads(state, stage, tensor)) {
        refuse(state, d, stage.name() + " does not read " + tensor, &stage, loop.name,
               "prefetch of a tensor that the stage reads");
    }
    if (const std::string why = not_fetchable(state, stage, tensor, loop.name); !why.empty()) {
        refuse(state, d, why, &stage, loop.name, "a loop inside which " + tensor + " is only read");
    }
    if (consumer.empty() != of.empty()) {
        refuse(state, d, "only one of \"consumer\" and \"of\" is given", &stage, loop.name,
               "both, for a distance in iterations of that loop, or neither");
    }
    if (!of.empty() && tensor == stage.name()) {
        refuse(state, d, "partial results of " + tensor + " belong to one iteration of " + consumer, &stage, loop.name,
               "a tensor that is complete before " + consumer);
    }
    if (const std::string why = of.empty() ? "" : not_around(state, stage, tensor, loop.name, consumer, of);
        !why.empty()) {
        refuse(state, d, why, &stage, loop.name,
               "a loop in which " + stage.name() +
                   " is computed, or an outer loop of its own, and a tensor that is complete before it");
    }
    stage.prefetches.push_back({tensor, loop.name, distance, consumer, of});
    state.obligations.push_back(
        {index, [name = stage.name(), tensor, l = loop.name, consumer, of](const ScheduleState &s) -> std::string {
             const StageState *stage = s.find(name);
             if (!reads(s, *stage, tensor)) return name + " no longer reads " + tensor + " itself";
             const std::string why = not_fetchable(s, *stage, tensor, l);
             return !why.empty() || of.empty() ? why : not_around(s, *stage, tensor, l, consumer, of);
         }});
}

} // namespace

StageHandle &StageHandle::prefetch(const std::string &tensor, LoopName loop, int64_t distance, Place where) {
    return apply("prefetch", {{"tensor", tensor}, {"loop", loop.name}, {"distance", distance}}, where);
}

StageHandle &StageHandle::prefetch(const std::string &tensor, LoopName loop, int64_t distance,
                                   const std::string &consumer, LoopName of, Place where) {
    return apply(
        "prefetch",
        {{"tensor", tensor}, {"loop", loop.name}, {"distance", distance}, {"consumer", consumer}, {"of", of.name}},
        where);
}

namespace {

// What the stage reads, and its own partial results.
Values tensors_of_stage(const ScheduleState &state, const Directive &d) {
    const StageState &stage = state.stage(text_argument(d, "stage"));
    Values all = {stage.name()};
    for (const Expr &e : stage.def.expressions()) {
        for (const std::string &t : tensors_read(e)) all.push_back(t);
    }
    return all;
}

// The stage, and the one in whose loops it is computed.
Values stages_around(const ScheduleState &state, const Directive &d) {
    const StageState &stage = state.stage(text_argument(d, "stage"));
    Values all = {stage.name()};
    if (stage.computed_at().kind == Placement::Kind::At) all.push_back(stage.computed_at().consumer);
    return all;
}

} // namespace

const Primitive &prefetch_primitive() {
    static const Primitive record = {
        "prefetch",
        "memory",
        "At each iteration of a loop, prefetches the data that the stage will read some iterations later. "
        "There is one request for each cache line. "
        "The tensor may be the stage itself: the partial results of a reduction with an outer reduction loop. "
        "With a consumer and its loop, the distance counts iterations of that loop. "
        "Its last iterations prefetch the data of the last one. "
        "The consumer may be the stage itself, with a loop that encloses the first one. "
        "Iterations of the loops between that would request the same lines share the requests round-robin.",
        "The stage reads the tensor, which is not computed inside the loop. "
        "The loop exists and is not vectorized. "
        "The distance is 1 to 4096. "
        "The stage is computed in the consumer's loop. "
        "With a consumer, the tensor is an argument or is computed at the root.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"tensor", ArgumentKind::Tensor, "the tensor that it reads"},
         {"loop", ArgumentKind::Loop, "the loop"},
         {"distance", ArgumentKind::Integer, "the number of iterations ahead"},
         {"consumer", ArgumentKind::Text, "a stage in whose loops this one is computed, or this stage", true},
         {"of", ArgumentKind::Text, "the loop of the consumer whose iterations the distance counts", true}},
        apply_prefetch,
        {"matmul",
         {{"split", {{"stage", "C"}, {"loop", "j"}, {"factor", 16}}, {}},
          {"reorder", {{"stage", "C"}, {"loops", {"i", "j.o", "k", "j.i"}}}, {}}},
         {"prefetch", {{"stage", "C"}, {"tensor", "B"}, {"loop", "k"}, {"distance", 4}}, {}}},
        {.order = 90,
         .candidates = {{"tensor", tensors_of_stage},
                        {"distance", numbers_of<1, 2, 3>},
                        {"consumer", stages_around},
                        {"of", consumer_loops, 0}}},
    };
    return record;
}

} // namespace kumiko
