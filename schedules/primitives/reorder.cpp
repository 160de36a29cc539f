#include "schedules/primitives/table.h"

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
            refuse(state, d, "loop " + l + " is named twice", &stage, l,
                   "each loop of the stage once, outermost first");
        }
    }
    for (const std::string &l : stage.order) {
        if (!seen.count(l)) {
            refuse(state, d, "loop " + l + " is missing", &stage, l, "each loop of the stage once, outermost first");
        }
    }
    if (stage.def.is_reduction() && !(stage.def.properties.commutative && stage.def.properties.associative)) {
        std::vector<std::string> before, after;
        for (const std::string &l : stage.order)
            if (stage.loop(l).reduction) before.push_back(l);
        for (const std::string &l : loops)
            if (stage.loop(l).reduction) after.push_back(l);
        if (before != after) {
            refuse(state, d,
                   "the combiner of " + stage.name() +
                       " is not stated to be associative and commutative, so its reduction loops keep their order",
                   &stage, after[0], "an order of the other loops, or state the combiner's properties in reduce(…)");
        }
    }
    refuse_scanned_order(state, d, stage, loops);
    stage.order = loops;
}

} // namespace

const Primitive &reorder_primitive() {
    static const Primitive record = {
        "reorder",
        "loops",
        "Puts the loops of a stage in the order given, outermost first.",
        "Each loop of the stage is named exactly once. Reduction loops keep their order unless the combiner is "
        "associative "
        "and commutative; loops along a scan keep it.",
        {{"stage", ArgumentKind::Stage, "the stage"}, {"loops", ArgumentKind::Loops, "all its loops, outermost first"}},
        apply_reorder,
        {"matmul", {}, {"reorder", {{"stage", "C"}, {"loops", {"i", "k", "j"}}}, {}}},
    };
    return record;
}

} // namespace kumiko
