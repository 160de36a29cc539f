#include "schedules/primitives/table.h"

namespace kumiko {

namespace {

// A stage reads the tensors of its expressions, and a sum of one value also what it has summed so far.
bool reads(const ScheduleState &state, const StageState &stage, const std::string &tensor) {
    if (tensor == stage.name()) return stage.def.is_reduction() && stage.def.components.size() == 1;
    const auto readers = state.consumers(tensor);
    return std::find(readers.begin(), readers.end(), stage.name()) != readers.end();
}

// Why the region of `tensor` below `loop` of `stage` cannot be fetched ahead; "" when it can.
std::string not_fetchable(const ScheduleState &state, const StageState &stage, const std::string &tensor,
                          const std::string &loop) {
    if (!stage.has_loop(loop)) return "loop " + loop + " of stage " + stage.name() + " no longer stands";
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
        return "no reduction loop stands outside loop " + loop + ", so " + tensor + " has no partial results";
    }
    const StageState *p = state.producer(tensor);
    if (!p) return "";
    if (p->placement.kind == Placement::Kind::Inline) return tensor + " is inlined, so it is kept nowhere";
    if (p->placement.kind == Placement::Kind::At && p->placement.consumer == stage.name() &&
        stage.has_loop(p->placement.loop) && stage.position(p->placement.loop) >= stage.position(loop)) {
        return tensor + " is computed inside loop " + loop + ", just before it is read";
    }
    return "";
}

void apply_prefetch(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const std::string tensor = text_argument(d, "tensor");
    const int64_t distance = integer_argument(d, "distance");
    tensor_argument(state, d);
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
    stage.prefetches.push_back({tensor, loop.name, distance});
    state.obligations.push_back(
        {index, [name = stage.name(), tensor, l = loop.name](const ScheduleState &s) -> std::string {
             const StageState *stage = s.find(name);
             if (!reads(s, *stage, tensor)) return name + " no longer reads " + tensor + " itself";
             return not_fetchable(s, *stage, tensor, l);
         }});
}

} // namespace

const Primitive &prefetch_primitive() {
    static const Primitive record = {
        "prefetch",
        "memory",
        "At each iteration of a loop, asks the caches for what the stage will read of a tensor some iterations later, "
        "one "
        "request for each "
        "cache line. The tensor may be the stage itself: the partial results of a reduction whose outer loop stands "
        "outside.",
        "The stage reads the tensor, which is not computed inside the loop; the loop stands and is not vectorized; the "
        "distance is 1 to 4096.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"tensor", ArgumentKind::Tensor, "the tensor that it reads"},
         {"loop", ArgumentKind::Loop, "the loop"},
         {"distance", ArgumentKind::Integer, "how many iterations ahead"}},
        apply_prefetch,
        {"matmul",
         {{"split", {{"stage", "C"}, {"loop", "j"}, {"factor", 16}}, {}},
          {"reorder", {{"stage", "C"}, {"loops", {"i", "j.o", "k", "j.i"}}}, {}}},
         {"prefetch", {{"stage", "C"}, {"tensor", "B"}, {"loop", "k"}, {"distance", 4}}, {}}},
    };
    return record;
}

} // namespace kumiko
