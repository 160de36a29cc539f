// What a tuning database knows, as schedules for compile() and build_library().
#pragma once

#include "autotune/tune.h"
#include "driver/library.h"

namespace kumiko {

// The best schedule for the op on this machine that the database has, with a record for other threads, or for other sizes of a symbolic
// op, where there is none for these; nothing when it has none. Throws UserError when there is no such database, or it cannot be read.
std::optional<ChosenSchedule> tuned_schedule(const Op &op, const Machine &machine, const std::string &database,
                                             const BestOptions &options = {});

// The same for many ops; whether weights are packed ahead is what the source is asked for.
ScheduleSource tuned_schedules(const std::string &database, const BestOptions &options = {});

} // namespace kumiko
