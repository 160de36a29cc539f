// What a tuning database knows, as schedules for compile() and build_library().
#pragma once

#include "driver/library.h"

namespace kumiko {

struct TunedOptions {
    int threads = 0;    // 0: one per core; with a record for another number of threads where there is none for this one
    Sizes sizes = {};   // of symbolic ops: with a record for other sizes where there is none for these
    bool cold = false;  // tuned for cold caches
    bool ahead = false; // taking weights that are packed ahead
};

// The best schedule for the op on this machine that the database has; nothing when it has none. Throws UserError when there
// is no such database, or it cannot be read.
std::optional<ChosenSchedule> tuned_schedule(const Op &op, const Machine &machine, const std::string &database,
                                             const TunedOptions &options = {});

// The same for many ops; whether weights are packed ahead is what the source is asked for.
ScheduleSource tuned_schedules(const std::string &database, const TunedOptions &options = {});

} // namespace kumiko
