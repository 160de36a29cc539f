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

// Whether the stage gets a register tile by default: a sum of any order over enough vectors of
// columns.
bool gets_tile(const Op &op, const Stage &stage, const Machine &machine);

// Computes a reduction in tiles of rows × vectors along its last axis, which stay in registers
// through the whole reduction: each loaded vector serves all rows, and each row's element all
// vectors. A tensor that is read far apart along the last axis is copied with that axis innermost,
// one panel for each block of columns. Requires pays_to_tile. Loops that rows were split into stay
// outside, but for the innermost. Returns the outermost loop.
//
// `part`: the stage is computed at a loop of another one, a few rows at a time. Copies, which all
// of its iterations read, are then kept in the loop of that stage outside.
struct RowsOfPart {
    std::string host, outside; // the other stage, and the loop in which its blocks of rows are
    int64_t rows;
};
LoopName tile_in_registers(Schedule &s, StageHandle S, const Stage &stage, int lanes,
                           const std::optional<RowsOfPart> &part = std::nullopt);

} // namespace kumiko::library
