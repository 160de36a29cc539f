// Reductions in tiles of accumulators that stay in registers: contractions that are recognised from
// one stage and what it reads, whatever the order of their axes.
#pragma once

#include "schedules/schedule.h"

#include <functional>
#include <optional>

namespace kumiko::library {

// How far apart, in elements, vectors along an axis may read: fewer loads than elements, and
// shuffles.
inline constexpr int64_t shuffled_step = 4;

// How many elements further the stage's reads are at the next index of the axis: the greatest, at
// least 1. Nothing when one is not constant. Reads that are `left_out` do not count.
std::optional<int64_t> farthest_step(const Op &op, const Stage &stage, const std::string &axis,
                                     const std::function<bool(const Halide::Internal::Call *)> &left_out = nullptr);

// The axis of the tile's rows, whose iterations share the vectors that are loaded; "" where there
// is none, or the reduction is too short to pay for the stores.
std::string rows_of_tile(const Stage &stage);

// Whether there is a tile, and enough rows for the copies that it needs.
bool pays_to_tile(const Op &op, const Stage &stage);

// Computes a reduction in tiles of rows × vectors along its last axis, which stay in registers
// through the whole reduction: each loaded vector serves all rows, and each row's element all
// vectors. A tensor that is read far apart along the last axis is copied with that axis innermost,
// one panel for each block of columns. Requires pays_to_tile. Returns the outermost loop.
LoopName tile_in_registers(Schedule &s, StageHandle S, const Stage &stage, int lanes);

} // namespace kumiko::library
