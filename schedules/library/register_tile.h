// Reductions in tiles of accumulators that stay in registers. Contractions are recognised from one
// stage and its reads, whatever the order of their axes.
#pragma once

#include "schedules/schedule.h"

#include <functional>
#include <optional>

namespace kumiko::library {

// The largest distance in elements of a vector's reads along an axis: up to it, loads and shuffles
// are fewer than scalar loads.
inline constexpr int64_t shuffled_step = 4;

// By how many elements the stage's reads move at the next index of the axis: the maximum, at least
// 1. Nothing if one is not constant. Reads that are `left_out` do not count.
std::optional<int64_t> farthest_step(const Op &op, const Stage &stage, const std::string &axis,
                                     const std::function<bool(const Halide::Internal::Call *)> &left_out = nullptr);

// The axis of the tile's rows, whose iterations share loaded vectors; "" if there is none, or if
// the reduction is too short to pay for the stores.
std::string rows_of_tile(const Stage &stage);

// Whether there is a tile with enough rows to pay for the copies that it needs.
bool pays_to_tile(const Op &op, const Stage &stage);

// Whether the stage gets a register tile by default: a reorderable sum over enough vectors of
// columns.
bool gets_tile(const Op &op, const Stage &stage, const Machine &machine);

// Computes a reduction in tiles of rows × vectors along its last axis, which stay in registers
// through the whole reduction: each loaded vector is used by all rows, and each row's element by
// all vectors. A tensor read far apart along the last axis is copied with that axis innermost, one
// panel per block of columns. Requires pays_to_tile. Loops that rows were split into stay outside,
// except the innermost. Returns the outermost loop.
//
// `part`: the stage is computed at a loop of another stage, a few rows at a time. Copies that all
// its iterations read are then made in an outer loop of that stage.
struct RowsOfPart {
    std::string host, outside; // the other stage, and its loop around blocks of rows
    int64_t rows;
};
LoopName tile_in_registers(Schedule &s, StageHandle S, const Stage &stage, int lanes,
                           const std::optional<RowsOfPart> &part = std::nullopt);

} // namespace kumiko::library
