// Which outputs pass the caches by.
#pragma once

#include "schedules/schedule.h"

namespace kumiko::library {

// Whether the outputs that may be streamed exceed, with what they are made of, the last cache.
bool outputs_exceed_caches(const Op &op, const Machine &machine);

// Streams the op's outputs that are stored once, in whole vectors, and together exceed the last cache. Takes a schedule whose
// loops are complete.
void stream_large_outputs(Schedule &schedule);

} // namespace kumiko::library
