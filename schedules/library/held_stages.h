// Stages that are computed in the loops of an output.
#pragma once

#include "schedules/schedule.h"

#include <optional>
#include <set>

namespace kumiko::library {

struct HeldStages {
    std::string loop;             // innermost loop of the host at which they are computed
    size_t depth;                 // number of leading axes of the host outside of them
    std::set<std::string> stages; // computed at that loop, each element once
    std::set<std::string> rows;   // those of them that have the host's next axis too
    // other outputs in the same loops that read them, such as a row's maximum
    std::set<std::string> beside;
};

// Finds stages that can be computed inside a loop over leading axes of the output `host` without
// recomputation: they have these axes, and each reader reads them at the same indices inside the
// loop. Readers may be other outputs with these axes, which then share the loop. Returns the
// smallest depth at which half of L2 holds their results, and L2 also the inputs that both they and
// the host read. Returns nothing if that already holds without a loop, or if the op has more than
// 64 stages. `end` is the stage whose epilogue is `host`, or "". `fixed` has, for each stage, the
// axes of its vectors and its register tile; no loop at `depth` or outside ranges over one of them.
// Stages in `apart` are excluded.
std::optional<HeldStages> stages_to_hold(const Schedule &s, const std::string &host, const std::string &end,
                                         const std::map<std::string, std::set<std::string>> &fixed,
                                         const std::set<std::string> &apart = {});

} // namespace kumiko::library
