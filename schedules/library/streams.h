// Which outputs pass the caches by.
#pragma once

#include "schedules/schedule.h"

namespace kumiko::library {

// Streams the op's outputs that are stored once, in whole vectors, and together exceed the last cache. Takes a schedule whose
// loops are complete.
void stream_large_outputs(Schedule &schedule);

} // namespace kumiko::library
