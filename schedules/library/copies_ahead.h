// Copies that a kernel makes of its inputs in each call, made once by its caller instead.
#pragma once

#include "schedules/schedule.h"

#include <functional>
#include <optional>

namespace kumiko::library {

// The schedule with prepack in place of place_in for inputs, and reindexed views of inputs, that
// are placed with a layout and for which `constant` is true. Inputs that prepack refuses, such as
// those that several stages read, stay as they are. Nothing if there is no other input.
std::optional<Schedule> with_copies_ahead(const Schedule &s, const std::function<bool(const std::string &)> &constant);

} // namespace kumiko::library
