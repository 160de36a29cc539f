#include "schedules/extern.h"

#include "dsl/extern.h"
#include "schedules/traits.h"

namespace kumiko {

namespace {

// Why the tensor is not stored whole in one array with its axes in order; "" if it is.
std::string not_whole(const ScheduleState &state, const StageState &s) {
    return excluded(state, s, Trait::WholeArray, "it").reason;
}

} // namespace

std::string broken_extern(const ScheduleState &state) {
    for (const StageState &s : state.stages) {
        if (!is_extern(s.def)) continue;
        std::string why = not_whole(state, s);
        if (why.empty() && !s.finished_by.empty()) why = "it would be finished in " + s.finished_by;
        if (!why.empty())
            return s.name() + " is computed by an extern function, which writes a whole array: " + why +
                   "\n  legal here: compute_root() of " + s.name() +
                   ", and directives on the stages that it takes and that read it";
        for (const std::string &t : extern_takes(s.def)) {
            const StageState *p = state.producer(t);
            if (const std::string bad = p ? not_whole(state, *p) : ""; !bad.empty())
                return "the extern function of " + s.name() + " reads the whole array of " + t + ", but " + bad +
                       "\n  legal here: compute_root() of " + p->name() + ", stored with its axes in order";
        }
    }
    return "";
}

} // namespace kumiko
