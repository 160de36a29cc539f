#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

void apply_tile(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const std::vector<std::string> loops = names_argument(d, "loops");
    const auto factors = d.arguments["factors"].get<std::vector<int64_t>>();
    if (loops.empty()) refuse(state, d, "no loops are named", &stage, "", "two or more, with a factor for each");
    if (loops.size() != factors.size()) {
        refuse(state, d, std::to_string(loops.size()) + " loops but " + std::to_string(factors.size()) + " factors",
               &stage, "", "one factor for each loop");
    }
    size_t first = 0;
    for (size_t n = 0; n < loops.size(); n++) {
        Directive one = d;
        one.arguments["loop"] = loops[n];
        loop_argument(stage, one);
        const size_t at = stage.position(loops[n]);
        if (n == 0) first = at;
        if (at != first + n) {
            refuse(state, d, "loop " + loops[n] + " is not directly inside the loop named before it", &stage, loops[n],
                   "directly nested loops, outermost first; reorder them first");
        }
    }
    if (stage.def.is_reduction() && !(stage.def.properties.commutative && stage.def.properties.associative)) {
        int reducing = 0;
        for (const std::string &l : loops) reducing += stage.loop(l).reduction;
        if (reducing > 1) {
            refuse(state, d,
                   "the combiner of " + stage.name() +
                       " is not stated to be associative and commutative, so its reduction loops keep their order",
                   &stage, loops.back(),
                   "one reduction loop among them, or state the combiner's properties in reduce(…)");
        }
    }
    for (size_t n = 0; n < loops.size(); n++) {
        split_loop(state, stage, d, loops[n], factors[n], loops[n] + ".o", loops[n] + ".i", Tail::Auto);
    }
    for (size_t n = 0; n < loops.size(); n++) {
        stage.order[first + n] = loops[n] + ".o";
        stage.order[first + loops.size() + n] = loops[n] + ".i";
    }
}

} // namespace

std::vector<LoopName> StageHandle::tile(const std::vector<LoopName> &loops, const std::vector<int64_t> &factors,
                                        Place where) {
    apply("tile", {{"loops", std::vector<std::string>(loops.begin(), loops.end())}, {"factors", factors}}, where);
    std::vector<LoopName> made;
    for (const char *part : {".o", ".i"}) {
        for (const LoopName &l : loops) made.push_back(l.name + part);
    }
    return made;
}

namespace {

// Up to three loops that stand directly inside each other.
Values adjacent_loops(const ScheduleState &state, const Directive &d) {
    const std::vector<std::string> &order = state.stage(text_argument(d, "stage")).order;
    Values all;
    for (auto first = order.begin(); first != order.end(); ++first) {
        for (auto last = first; last != order.end() && last - first < 3; ++last)
            all.push_back(std::vector<std::string>(first, last + 1));
    }
    return all;
}

} // namespace

const Primitive &tile_primitive() {
    static const Primitive record = {
        "tile",
        "loops",
        "Splits several nested loops and moves all outer parts outside of all inner parts. "
        "The result is loops over tiles, then loops within one tile.",
        "The loops are directly nested and serial. "
        "There is one factor for each.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"loops", ArgumentKind::Loops, "the loops, outermost first"},
         {"factors", ArgumentKind::Integers, "the extents of the inner loops"}},
        apply_tile,
        {"matmul", {}, {"tile", {{"stage", "C"}, {"loops", {"i", "j"}}, {"factors", {14, 32}}}, {}}},
        {.order = 30, .candidates = {{"loops", adjacent_loops}}},
    };
    return record;
}

} // namespace kumiko
