// What other machines found for an op: schedules to begin with, not measurements of this one.
#pragma once

#include "autotune/tune.h"

namespace kumiko {

struct Hint {
    Record record;
    std::string unfit; // why its schedule is not legal on this machine; empty: it is
};

// The best of each other machine for the op at these sizes, of what was measured and is called in the same way (cold,
// ahead): those that are legal here first, then those for as many threads, then by their seconds. Throws UserError when
// there is no such database.
std::vector<Hint> hints(const Op &op, const Machine &machine, const std::string &database,
                        const BestOptions &options = {});

} // namespace kumiko
