#include "machine/machine.h"
#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

std::string join(const std::vector<std::string> &names) {
    std::string all;
    for (const std::string &n : names) all += (all.empty() ? "" : ", ") + n;
    return all;
}

void apply_bind(ScheduleState &state, const Directive &d, size_t) {
    StageState &stage = stage_argument(state, d);
    const LoopState loop = loop_argument(stage, d);
    const std::string level = text_argument(d, "level");
    const UnitLevel *unit = state.machine->find_unit(level);
    if (!unit) {
        refuse(state, d, "machine " + state.machine->name + " has no unit level \"" + level + "\"", &stage, loop.name,
               join(state.machine->unit_names()));
    }
    if (loop.kind != LoopKind::Serial) {
        refuse(state, d, "loop " + loop.name + " is already " + kind_name(loop.kind), &stage, loop.name,
               "a serial loop");
    }
    if (level == "core") { // cores are independent: a parallel loop of any extent
        Directive parallel = d;
        parallel.arguments.erase("level");
        primitive("parallel").apply(state, parallel, 0);
        return;
    }
    const auto extent = known_extent(state, loop);
    if (!extent) {
        refuse(state, d, "the extent of loop " + loop.name + " is known only at run time", &stage, loop.name,
               "split it by a number of at most " + std::to_string(unit->count) + " and bind the inner loop");
    }
    if (loop.reduction && !(stage.def.properties.associative && stage.def.properties.commutative)) {
        refuse(state, d,
               "loop " + loop.name + " reduces, and the combiner of " + stage.name() +
                   " is not stated to be associative and commutative, so units cannot share it",
               &stage, loop.name, "a loop that does not reduce, or state the combiner's properties in reduce(…)");
    }
    int64_t taken = 1;
    std::string others;
    for (const std::string &name : stage.order) {
        const LoopState &l = stage.loop(name);
        if (l.kind != LoopKind::Bound || l.unit != level) continue;
        taken *= known_extent(state, l).value_or(1);
        others += (others.empty() ? "" : ", ") + name;
    }
    if (taken * *extent > unit->count) {
        std::string cause = "loop " + loop.name + " has " + std::to_string(*extent) + " iterations";
        if (!others.empty()) cause += ", with " + others + " together " + std::to_string(taken * *extent);
        refuse(state, d, cause + ", but there are " + std::to_string(unit->count) + " units of level " + level, &stage,
               loop.name,
               unit->count / taken > 1
                   ? "split it by " + std::to_string(unit->count / taken) + " at most and bind the inner loop"
                   : "another level");
    }
    LoopState &bound = stage.loop(loop.name);
    bound.kind = LoopKind::Bound;
    bound.unit = level;
}

} // namespace

StageHandle &StageHandle::bind(LoopName loop, const std::string &level, Place where) {
    return apply("bind", {{"loop", loop.name}, {"level", level}}, where);
}

namespace {

Values unit_levels(const ScheduleState &state, const Directive &) {
    const std::vector<std::string> names = state.machine->unit_names();
    return {names.begin(), names.end()};
}

} // namespace

const Primitive &bind_primitive() {
    static const Primitive record = {
        "bind",
        "machine",
        "Distributes the iterations of a loop over the units of one level of the machine. "
        "All iterations run at the same time, each on a unit of its own. "
        "Several loops of a stage may share a level; the outermost has the largest stride. "
        "On cores it is the same as parallel. "
        "A reduction loop becomes a tree reduction: neighbouring units are combined pairwise, level by level.",
        "The loop is serial. "
        "The level is one of the machine's and has enough units for all iterations of the loops bound to it. "
        "The number of iterations is constant. "
        "A reduction loop needs an associative and commutative combiner.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"loop", ArgumentKind::Loop, "the loop"},
         {"level", ArgumentKind::Text, "the unit level, a name in the machine's table"}},
        apply_bind,
        {"matmul", {}, {"bind", {{"stage", "C"}, {"loop", "i"}, {"level", "core"}}, {}}},
        {.order = 10, .candidates = {{"level", unit_levels}}},
    };
    return record;
}

} // namespace kumiko
