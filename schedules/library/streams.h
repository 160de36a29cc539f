// Which outputs pass the caches by.
#pragma once

#include "schedules/schedule.h"

namespace kumiko::library {

// Whether so many bytes exceed, with as many that they are made of, the last cache.
bool exceeds_caches(int64_t bytes, const Machine &machine);

// Whether a block of the stage stores parts of cache lines to several rows whose page offsets are
// within 256 bytes of each other. If such stores are streamed, loads at these offsets flush the
// write-combining buffers before a line is full, and each part is written to memory by itself.
bool splits_lines_of_rows(const Schedule &schedule, const std::string &stage);

// Streams the op's outputs that are stored once, in whole vectors, and together exceed the last cache. Takes a schedule whose
// loops are complete. Rows begin at multiples of `pieces` bytes: of a line, or less where a line's pieces are stored soon after each
// other.
void stream_large_outputs(Schedule &schedule, int64_t pieces = 64);

} // namespace kumiko::library
