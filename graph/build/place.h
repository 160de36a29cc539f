// The plan of memory over nested lists of steps. Internal to graph/build; place() is in program.h.
#pragma once

#include "graph/build/program.h"

namespace kumiko::graph {

// The most bytes of a control step's own buffers that are live at once.
int64_t peak_of(const Step &step, const std::vector<PlanBuffer> &buffers);

} // namespace kumiko::graph
