// Pools of a convolution's results: computed after it, or tile by tile together with the results in
// cache.
#pragma once

#include "schedules/library/conv_roles.h"
#include "schedules/library/parameters.h"

#include <map>

namespace kumiko::library {

// The pool's windows along an axis of the sum: the distance in results between neighbouring
// windows, and the results that one window covers. Nothing if the pool does not read results by
// such steps from the first on.
struct PoolSide {
    int64_t step = 1, window = 1;
};
std::optional<PoolSide> pool_side(const Op &op, const ConvRoles &r, const std::string &axis);

// can_pool_by_tiles: whether tiles of pooled rows can be computed together with the results they
// need. pays_to_pool_by_tiles: whether that pays. Rows needed by two tiles are computed twice,
// which costs more than storing and reloading them.
bool can_pool_by_tiles(const Op &op, const ConvRoles &r);
bool pays_to_pool_by_tiles(const Op &op, const ConvRoles &r);

// Rows of the pool per tile, such that the results that they need fill about a quarter of L2. 0:
// the pool runs afterwards.
Tile rows_of_pool(const Op &op, const ConvRoles &r, const Machine &machine, int64_t filters);

// Rows of results that are in cache together: those of a pool's tile, or the whole image.
int64_t rows_together(const Op &op, const ConvRoles &r, int64_t pool_rows);

// The loops at which a tiled pool computes the results that it reads, one tile of filters and rows
// at a time.
struct PoolTiles {
    std::string pool;                      // the stage that these loops belong to
    std::vector<LoopName> outside;         // the sum's loops outside of tiles
    std::map<std::string, LoopName> loops; // the same, by the names of the sum's loops
    LoopName filters = "", tile = "";      // one iteration of `tile` computes and pools one tile
};

// Schedules the pool after the convolution, in vectors of its last axis, distributed over cores if
// `parallel`. Does nothing if the contraction has no pool.
void schedule_pool(Schedule &s, const Contraction &c, bool parallel);

// Schedules the pool by tiles of so many filters and rows, and computes the results that it reads
// at each tile.
PoolTiles tile_pool(Schedule &s, const ConvRoles &r, int64_t filters, int64_t rows, bool parallel);

// Moves copies from the loops of `sum` outside of its tiles to the corresponding loops of the pool.
// Call after the copies are placed, and after finish_in.
void move_copies(Schedule &s, const std::string &sum, const PoolTiles &tiles);

} // namespace kumiko::library
