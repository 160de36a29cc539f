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
};

// The stages that can be computed at a loop over leading axes of `host` without computing an element
// twice: they have these axes, and all that reads them reads them at the same indices and stands
// inside too. The fewest axes for which what they hand over fits half of the second cache; nothing
// where all of it does so anyway. `end`: the stage that is finished in `host`, or "". Axes of `fixed`,
// by stage, stay whole: those of vectors and of register tiles. Linear in the reads.
std::optional<HeldStages> stages_to_hold(const Schedule &s, const std::string &host, const std::string &end,
                                         const std::map<std::string, std::set<std::string>> &fixed);

} // namespace kumiko::library
