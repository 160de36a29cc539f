#include "schedules/library/stages.h"

#include "dsl/extern.h"
#include "schedules/library/structure.h"

namespace kumiko::library {

bool is_stages(const Op &) { return true; }

StagesParameters stages_parameters(const Op &, const Machine &) {
    StagesParameters p;
    p.vectors = Flag(true);
    return p;
}

Schedule schedule_stages(const Op &op, const Machine &machine, const StagesParameters &p) {
    Schedule s(op, machine);
    for (const Stage &stage : op.stages()) {
        if (!p.vectors || stage.axes.empty() || is_extern(stage) || stage.is_reduction() || stage.reads_itself())
            continue;
        const std::string last = stage.axes.back().name();
        const int lanes = vector_lanes(machine, stage.type);
        const auto extent = constant_extent(stage.axes.back());
        if (lanes < 2 || (extent && *extent < lanes)) continue;
        try {
            s.stage(stage.name).vectorize(last, lanes);
        } catch (const UserError &) { // its loops stay as they are
        }
    }
    return s;
}

} // namespace kumiko::library
