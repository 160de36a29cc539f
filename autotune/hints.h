// Schedules that other machines found for an op: starting points for a search, not measurements of
// this machine.
#pragma once

#include "autotune/tune.h"

namespace kumiko {

struct Hint {
    Record record;
    std::string unfit; // why its schedule is illegal on this machine; "" if it is legal
};

// The best record of each other machine for the op at these sizes and the same call conditions
// (cold, ahead). Legal ones come first, then those for the same number of threads, then by time.
// Throws UserError if the database does not exist.
std::vector<Hint> hints(const Op &op, const Machine &machine, const std::string &database,
                        const BestOptions &options = {});

} // namespace kumiko
