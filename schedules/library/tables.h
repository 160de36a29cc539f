// Tables of functions of narrow integers, such as bytes (the directive tabulate).
#pragma once

#include "schedules/schedule.h"

namespace kumiko::library {

// Whether vectors of elements at data-dependent indices are selected from registers that hold the
// whole array.
bool fits_lookup_registers(Type type, const std::vector<Axis> &axes, const Machine &machine);

// Applies tabulate to each stage and tensor where reading a table is expected to cost less than
// computing the function for each element, except to the stages in `excluded`. Returns the names of
// the tables.
std::set<std::string> tabulate_functions(Schedule &schedule, const std::set<std::string> &excluded);

} // namespace kumiko::library
