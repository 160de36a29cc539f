// Which stages the loops of an output hold.
#pragma once

#include "schedules/schedule.h"

#include <optional>
#include <set>

namespace kumiko::library {

struct HeldStages {
    std::string loop;             // of the host: the innermost one that holds them
    size_t depth;                 // how many leading axes of the host stand outside of them
    std::set<std::string> stages; // computed at that loop, each element once
    std::set<std::string> rows;   // of these, the ones that have the host's next axis too
    std::set<std::string> beside; // other outputs that read them in the same loops, as the maximum of a row
};

// Stages that can be computed inside a loop over leading axes of the output `host` without
// recomputation: they have these axes, and each reader reads them at the same indices inside the
// loop. Readers may be other outputs with these axes, which then share the loop. Returns the
// smallest depth at which half of L2 holds their results, and L2 also the inputs that both they and
// the host read; nothing if they hold all of that anyway, or if the op has more than 64 stages.
// `end` is the stage that is finished in `host`, or "". `fixed` has, for each stage, the axes of
// its vectors and its register tile. No loop at `depth` or outside ranges over one of them. Stages
// in `apart` are held by no loop.
std::optional<HeldStages> stages_to_hold(const Schedule &s, const std::string &host, const std::string &end,
                                         const std::map<std::string, std::set<std::string>> &fixed,
                                         const std::set<std::string> &apart = {});

} // namespace kumiko::library
