// What scans do not allow (dsl/scan.h): each element reads the one before, so the elements along the axis are computed in order.
#include "dsl/scan.h"
#include "schedules/primitives/table.h"

namespace kumiko {

namespace {

bool along_scan(const StageState &stage, const std::string &loop) {
    const std::string axis = scanned_axis(stage.def);
    return !axis.empty() && stage.derived_from(loop, axis);
}

} // namespace

void refuse_scanned(const ScheduleState &state, const Directive &d, const StageState &stage, const std::string &loop,
                    const std::string &what) {
    if (!along_scan(stage, loop)) return;
    refuse(state, d,
           "loop " + loop + " runs along the scan of " + stage.name() +
               ", in which each element needs the one before: " + what,
           &stage, loop, "a loop over another axis than " + scanned_axis(stage.def));
}

void refuse_scanned_order(const ScheduleState &state, const Directive &d, const StageState &stage,
                          const std::vector<std::string> &order) {
    std::vector<std::string> before, after;
    for (const std::string &l : stage.order) {
        if (along_scan(stage, l)) before.push_back(l);
    }
    for (const std::string &l : order) {
        if (along_scan(stage, l)) after.push_back(l);
    }
    if (before == after) return;
    refuse(state, d,
           "the loops along the scan of " + stage.name() + " keep their order, since each element needs the one before",
           &stage, after[0], "an order of the other loops around and between them");
}

void refuse_scan(const ScheduleState &state, const Directive &d, const StageState &stage, const std::string &why,
                 const std::string &legal) {
    if (const std::string axis = scanned_axis(stage.def); !axis.empty())
        refuse(state, d, stage.name() + " is a scan along " + axis + ": " + why, &stage, "", legal);
}

} // namespace kumiko
