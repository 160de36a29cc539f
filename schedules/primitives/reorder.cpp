#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

void apply_reorder(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const std::vector<std::string> loops = names_argument(d, "loops");
    std::set<std::string> seen;
    for (const std::string &l : loops) {
        Directive one = d;
        one.arguments["loop"] = l;
        loop_argument(stage, one);
        if (!seen.insert(l).second) {
            refuse(state, d, "loop " + l + " is named twice", &stage, l, "each loop at most once, outermost first");
        }
    }
    std::vector<std::string> order = stage.order;
    size_t next = 0; // index into the named loops
    for (std::string &l : order) {
        if (seen.count(l)) l = loops[next++];
    }
    if (stage.def.is_reduction() && !(stage.def.properties.commutative && stage.def.properties.associative)) {
        std::vector<std::string> before, after;
        for (const std::string &l : stage.order)
            if (stage.loop(l).reduction) before.push_back(l);
        for (const std::string &l : order)
            if (stage.loop(l).reduction) after.push_back(l);
        if (before != after) {
            refuse(state, d,
                   "the combiner of " + stage.name() +
                       " is not stated to be associative and commutative, so its reduction loops keep their order",
                   &stage, after[0], "an order of the other loops, or state the combiner's properties in reduce(…)");
        }
    }
    stage.order = order;
}

} // namespace

StageHandle &StageHandle::reorder(const std::vector<LoopName> &loops, Place where) {
    return apply("reorder", {{"loops", std::vector<std::string>(loops.begin(), loops.end())}}, where);
}

const Primitive &reorder_primitive() {
    static const Primitive record = {
        "reorder",
        "loops",
        "Puts loops of a stage in the given order, outermost first. "
        "They use the positions that they have among all loops; the other loops keep their positions.",
        "No loop is named twice. "
        "Reduction loops keep their order unless the combiner is associative and commutative. "
        "Loops along a scan keep their order. "
        "Each element of a recurrence is computed after those that it reads.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"loops", ArgumentKind::Loops, "loops of the stage, outermost first"}},
        apply_reorder,
        {"matmul", {}, {"reorder", {{"stage", "C"}, {"loops", {"i", "k", "j"}}}, {}}},
        {.order = 40},
    };
    return record;
}

} // namespace kumiko
