#include "schedules/primitives/table.h"

namespace kumiko {

namespace {

// Why the region of `tensor` below `loop` of `stage` cannot be fetched ahead; "" when it can.
std::string not_fetchable(const ScheduleState &state, const StageState &stage, const std::string &tensor,
                          const std::string &loop) {
    if (!stage.has_loop(loop)) return "loop " + loop + " of stage " + stage.name() + " no longer stands";
    if (stage.loop(loop).kind == LoopKind::Vectorized)
        return "loop " + loop + " of stage " + stage.name() + " is vectorized";
    const StageState *p = state.producer(tensor);
    if (!p) return "";
    if (p->placement.kind == Placement::Kind::Inline) return tensor + " is inlined, so it is kept nowhere";
    if (p->placement.kind == Placement::Kind::At && p->placement.consumer == stage.name() &&
        stage.has_loop(p->placement.loop) && stage.position(p->placement.loop) >= stage.position(loop)) {
        return tensor + " is computed inside loop " + loop + ", just before it is read";
    }
    return "";
}

void apply(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const std::string tensor = text_argument(d, "tensor");
    const int64_t distance = integer_argument(d, "distance");
    tensor_argument(state, d);
    if (distance < 1 || distance > 4096) {
        refuse(state, d, "a distance of " + std::to_string(distance) + " iterations", &stage, loop.name,
               "1 to 4096 iterations ahead");
    }
    const auto readers = state.consumers(tensor);
    if (std::find(readers.begin(), readers.end(), stage.name()) == readers.end()) {
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
             const auto readers = s.consumers(tensor);
             if (std::find(readers.begin(), readers.end(), name) == readers.end())
                 return name + " no longer reads " + tensor + " itself";
             return not_fetchable(s, *stage, tensor, l);
         }});
}

} // namespace

const Primitive prefetch_primitive = {
    "prefetch",
    "memory",
    "At each iteration of a loop, asks the caches for what the stage will read of a tensor some iterations later, one "
    "request for each "
    "cache line.",
    "The stage reads the tensor, which is not computed inside the loop; the loop stands and is not vectorized; the "
    "distance is 1 to 4096.",
    {{"stage", ArgumentKind::Stage, "the stage"},
     {"tensor", ArgumentKind::Tensor, "the tensor that it reads"},
     {"loop", ArgumentKind::Loop, "the loop"},
     {"distance", ArgumentKind::Integer, "how many iterations ahead"}},
    apply,
    {"matmul",
     {{"split", {{"stage", "C"}, {"loop", "j"}, {"factor", 16}}, {}},
      {"reorder", {{"stage", "C"}, {"loops", {"i", "j.o", "k", "j.i"}}}, {}}},
     {"prefetch", {{"stage", "C"}, {"tensor", "B"}, {"loop", "k"}, {"distance", 4}}, {}}},
};

} // namespace kumiko
