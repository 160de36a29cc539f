#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

void apply_fuse(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const LoopState outer = loop_argument(stage, d, "outer"), inner = loop_argument(stage, d, "inner");
    const std::string name = text_argument(d, "fused", outer.name + "_" + inner.name);
    for (const LoopState &l : {outer, inner}) {
        if (l.kind != LoopKind::Serial) {
            refuse(state, d, "loop " + l.name + " is already " + kind_name(l.kind), &stage, l.name,
                   "fuse first, then make the fused loop " + std::string(kind_name(l.kind)));
        }
    }
    if (stage.position(inner.name) != stage.position(outer.name) + 1) {
        refuse(state, d, "loop " + inner.name + " is not directly inside " + outer.name, &stage, inner.name,
               "two loops of which the second is directly inside the first; reorder them first");
    }
    if (outer.reduction != inner.reduction) {
        refuse(state, d, "one of the loops " + outer.name + " and " + inner.name + " reduces and the other does not",
               &stage, inner.name, "two loops of a kind");
    }
    if (stage.find_loop(name)) {
        refuse(state, d, "stage " + stage.name() + " already has a loop named " + name, &stage, outer.name,
               "a name that is not taken");
    }
    const auto a = known_extent(state, outer), b = known_extent(state, inner);
    if (a && b && *a * *b > INT32_MAX) {
        refuse(state, d, "the fused loop would have " + std::to_string(*a * *b) + " iterations", &stage, inner.name,
               "at most 2147483647");
    }
    check_loop_name(state, d, stage, outer.name, name);
    stage.loops.push_back(
        {name, Halide::Internal::simplify(outer.extent * inner.extent), outer.reduction, LoopKind::Serial});
    stage.relations.push_back(FuseRelation{outer.name, inner.name, name});
    const size_t at = stage.position(outer.name);
    stage.order[at] = name;
    stage.order.erase(stage.order.begin() + at + 1);
}

} // namespace

FusedLoop StageHandle::fuse(LoopName outer, LoopName inner, const std::string &fused, Place where) {
    nlohmann::json args = {{"outer", outer.name}, {"inner", inner.name}};
    if (!fused.empty()) args["fused"] = fused;
    apply("fuse", args, where);
    return {*this, fused.empty() ? outer.name + "_" + inner.name : fused};
}

namespace {

// The loop directly inside the argument "outer".
Values next_loop(const ScheduleState &state, const Directive &d) {
    const std::vector<std::string> &order = state.stage(text_argument(d, "stage")).order;
    const auto at = std::find(order.begin(), order.end(), text_argument(d, "outer"));
    return at == order.end() || at + 1 == order.end() ? Values() : Values{*(at + 1)};
}

} // namespace

const Primitive &fuse_primitive() {
    static const Primitive record = {
        "fuse",
        "loops",
        "Fuses two loops that are directly nested into one. "
        "It runs over the product of their extents, in the same order.",
        "Both loops exist and are serial. "
        "Both are reduction loops, or neither is. "
        "The second loop is directly inside the first.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"outer", ArgumentKind::Loop, "the outer loop"},
         {"inner", ArgumentKind::Loop, "the loop directly inside it"},
         {"fused", ArgumentKind::Text, "name of the fused loop; <outer>_<inner> by default", true}},
        apply_fuse,
        {"matmul", {}, {"fuse", {{"stage", "C"}, {"outer", "i"}, {"inner", "j"}, {"fused", "ij"}}, {}}},
        {.order = 20, .candidates = {{"inner", next_loop}, {"fused", nullptr, 0.9}}},
    };
    return record;
}

} // namespace kumiko
