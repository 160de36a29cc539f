// Outputs that are written with non-temporal stores.
#pragma once

#include "schedules/schedule.h"

namespace kumiko::library {

// Whether so many bytes of output, with as many bytes of input, exceed the last-level cache.
bool exceeds_caches(int64_t bytes, const Machine &machine);

// Whether a block of the stage stores parts of cache lines to several rows whose page offsets are
// within 256 bytes of each other. If such stores are non-temporal, loads at these offsets flush the
// write-combining buffers before a line is full, and each part is written to memory on its own.
bool splits_lines_of_rows(const Schedule &schedule, const std::string &stage);

// Uses non-temporal stores for the op's outputs that are stored once, in whole vectors, and
// together exceed the last-level cache. Takes a schedule whose loops are complete. Rows must begin
// at multiples of `pieces` bytes: a line, or less if the pieces of a line are stored soon after
// each other.
void stream_large_outputs(Schedule &schedule, int64_t pieces = 64);

} // namespace kumiko::library
