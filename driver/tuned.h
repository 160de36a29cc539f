// Results of a tuning database as schedules for compile() and build_library().
#pragma once

#include "autotune/tune.h"
#include "driver/library.h"

namespace kumiko {

// The best schedule in the database for the op on this machine. If there is none for this number of
// threads, or for these sizes of a symbolic op, records for others are used. nullopt if there is
// none at all. Throws UserError if the database does not exist or cannot be read.
std::optional<ChosenSchedule> tuned_schedule(const Op &op, const Machine &machine, const std::string &database,
                                             const BestOptions &options = {});

// The same for many ops. The caller of the source states whether weights are pre-packed.
ScheduleSource tuned_schedules(const std::string &database, const BestOptions &options = {});

} // namespace kumiko
