// Which stages the loops of the op's last stage hold.
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
};

// Stages that can be computed inside a loop over leading axes of `host` without recomputation: they
// have these axes, and each reader reads them at the same indices inside the loop. Returns the
// smallest depth at which their results fit half of L2; nothing if all results fit already, or if
// the op has more than 64 stages. `end` is the stage that is finished in `host`, or "". `fixed`
// has, for each stage, the axes of its vectors and its register tile. No loop at `depth` or outside
// ranges over one of them. Stages in `apart` are held by no loop.
std::optional<HeldStages> stages_to_hold(const Schedule &s, const std::string &host, const std::string &end,
                                         const std::map<std::string, std::set<std::string>> &fixed,
                                         const std::set<std::string> &apart = {});

} // namespace kumiko::library
