#include "schedules/library/recurrence_loops.h"

#include "dsl/halide_passes.h"
#include "dsl/recurrence.h"
#include "schedules/library/elementwise_loops.h"
#include "schedules/library/held_recurrences.h"
#include "schedules/library/register_tile.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

void schedule_recurrence(Schedule &s, const Stage &stage, int lanes, const ElementwiseParameters &p) {
    StageHandle S = s.stage(stage.name);
    const std::string last = stage.axes.back().name();
    const auto extent = [&](const std::string &axis) { return constant_extent(*find_axis(stage, axis)); };
    std::vector<LoopName> outside, ordered;
    for (const Axis &a : stage.axes) (carries_dependence(stage, a.name()) ? ordered : outside).push_back(a.name());
    const bool waits = carries_dependence(stage, last);
    const bool vectors = carried_by_other_axes(stage, last) && lanes > 1 && extent(last).value_or(lanes) >= lanes &&
                         farthest_step(s.op(), stage, last) == 1;
    const bool steps = stage.takes_steps(); // other stages are computed in each step
    if (steps) {
        ordered.insert(ordered.end(), outside.begin(), outside.end());
        std::stable_partition(ordered.begin(), ordered.end(),
                              [&](const LoopName &l) { return l.name == stage.step_axis; });
        std::stable_partition(ordered.begin() + 1, ordered.end(), [&](const LoopName &l) { return l.name != last; });
        outside.clear();
    }
    std::vector<LoopName> inside = ordered, unrolled;
    if (vectors && !waits && !steps) {
        auto [o, run] = S.split(last, std::clamp<int64_t>(extent(last).value_or(1024), 1, 1024));
        auto [m, i] = S.split(run, lanes * p.unroll);
        outside.back() = o;
        inside.insert(inside.end(), {m, i});
    } else if (vectors) {
        auto [m, i] = S.split(last, lanes * p.unroll);
        inside.back() = m;
        inside.push_back(i);
    } else {
        const RecurrenceBlock block = block_of_recurrence(stage);
        const auto divisible = [&](const LoopName &l) { return !holds_stages(s, stage.name, l.name); };
        if (divisible(ordered.back())) {
            auto [blocks, step] = S.split(ordered.back(), block.steps);
            inside.back() = blocks;
            unrolled.push_back(step);
        }
        if (!outside.empty() && divisible(outside.back())) {
            auto [o, rows] = S.split(outside.back(), block.rows);
            outside.back() = o;
            unrolled.insert(unrolled.begin(), rows);
        }
        inside.insert(inside.end(), unrolled.begin(), unrolled.end());
    }
    std::vector<LoopName> order = outside;
    order.insert(order.end(), inside.begin(), inside.end());
    S.reorder(order);
    if (vectors) {
        S.vectorize(order.back(), lanes);
        if (p.unroll > 1) S.unroll(order.back().name + ".o");
    }
    for (const LoopName &l : unrolled) S.unroll(l);
    const bool inside_reader = S.state().placement.kind == Placement::Kind::At;
    for (const LoopName &l : outside) {
        if (Halide::Internal::is_const_one(S.state().loop(l).extent)) continue;
        if (p.parallel && !inside_reader && work(stage) >= (1 << 16)) S.parallel(l);
        break;
    }
}

} // namespace kumiko::library
