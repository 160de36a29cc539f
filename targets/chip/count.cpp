#include "targets/chip/count.h"

#include "dsl/buffers.h"
#include "support/error.h"
#include "targets/chip/compile.h"
#include "targets/chip/stage/pieces.h"
#include "targets/chip/stage/program.h"
#include "targets/chip/stage/root_reduction.h"

#include <algorithm>

namespace kumiko {

using namespace chip;

namespace {

double points_of(const StageState &s) {
    double n = 1;
    for (const Axis &a : s.def.axes)
        n *= s.part && s.part->axis == a.name() ? double(s.part->count) : double(evaluate_size(a.extent(), {}));
    for (const Axis &a : s.def.reduction_axes) n *= double(evaluate_size(a.extent(), {}));
    return n;
}

// The units of each level that the stage's loops use if all its axes are computed at once.
std::array<int64_t, level_count> units_of_stage(const StageState &s, const sim::Config &config) {
    std::map<std::string, int64_t> extents;
    for (const auto *axes : {&s.def.axes, &s.def.reduction_axes}) {
        for (const Axis &a : *axes) extents[a.name()] = evaluate_size(a.extent(), {});
    }
    for (const Relation &r : s.relations) {
        if (const auto *split = std::get_if<SplitRelation>(&r)) {
            extents[split->outer] = (extents.at(split->parent) + split->factor - 1) / split->factor;
            extents[split->inner] = split->factor;
        } else {
            const auto &fuse = std::get<FuseRelation>(r);
            extents[fuse.fused] = extents.at(fuse.outer) * extents.at(fuse.inner);
        }
    }
    std::array<int64_t, level_count> used{1, 1, 1, 1, 1};
    for (const std::string &name : s.order) {
        const LoopState &l = s.loop(name);
        for (size_t v = 0; v < level_count && l.kind == LoopKind::Bound; v++) {
            if (l.unit == level_names[v]) used[v] *= extents.at(name);
        }
    }
    for (size_t v = 0; v < level_count; v++) used[v] = std::min<int64_t>(used[v], units_of(config, Tier(v)));
    return used;
}

} // namespace

double ChipCounts::cycles() const {
    std::array<double, 3> all = {double(tally.flow) * sim::cycles_per_step,
                                 double(tally.busiest()) * sim::cycles_per_step, double(tally.dram())};
    std::sort(all.begin(), all.end());
    return all[2] + 0.35 * all[1] + 0.1 * all[0];
}

ChipCounts count_chip(const Schedule &schedule) { return count_chip(schedule, chip_config(schedule.machine().name)); }

ChipCounts count_chip(const Schedule &schedule, const sim::Config &config) {
    require_program(schedule, config);
    try {
        const ScheduleState state = with_results_stored(with_pieces(schedule.state()));
        Context c(config, Packing::Counted);
        ChipCounts counts{.config = config};
        counts.bounds = lower_stages(c, schedule.op(), state);
        counts.tally = c.packer.tally();
        counts.taken = c.taken;
        for (const StageState &s : state.stages) {
            counts.drains = counts.drains || !s.write_back.empty();
            if (s.is_copy) {
                counts.copies += !s.prepacked;
                counts.kept_twice += !s.prepacked && s.buffers > 1;
            }
            if (s.is_copy || s.placement.kind == Placement::Kind::Inline || !s.finished_by.empty()) continue;
            counts.stages++;
            counts.points += points_of(s);
            const auto used = units_of_stage(s, config);
            for (size_t v = 0; v < level_count; v++) counts.used[v].push_back(used[v]);
        }
        return counts;
    } catch (const Halide::Error &e) {
        throw InternalError(std::string("count_chip: ") + e.what());
    }
}

} // namespace kumiko
