// Pools of a convolution's results: after it, or with the results they need computed tile by tile in the cache.
#pragma once

#include "schedules/library/conv_roles.h"
#include "schedules/library/parameters.h"

#include <map>

namespace kumiko::library {

// Of the pool's windows along the axis of the sum: how many results lie between neighbours, and how many a window covers. Nothing where
// the pool reads them otherwise than by such steps, from the first on.
struct PoolSide {
    int64_t step = 1, window = 1;
};
std::optional<PoolSide> pool_side(const Op &op, const ConvRoles &r, const std::string &axis);

// Whether tiles of rows can be computed with the results they need; and whether that pays: rows that two such tiles need would be
// computed twice, which costs more than results that go through memory.
bool takes_tiles(const Op &op, const ConvRoles &r);
bool pays_by_tiles(const Op &op, const ConvRoles &r);

// How many rows of a pool are one tile: as many as leave room for the results they need in the second cache. 0: the pool comes after all.
Tile rows_of_pool(const Op &op, const ConvRoles &r, const Machine &machine, int64_t filters);

// Rows of results that stand in the cache together: a pool's tile, or the whole image.
int64_t rows_together(const Op &op, const ConvRoles &r, int64_t pool_rows);

// Where the pool computes what it reads, one tile of filters and rows after another.
struct PoolTiles {
    std::string pool;                      // the stage whose loops they are
    std::vector<LoopName> outside;         // its loops that are those of the sum outside of tiles
    std::map<std::string, LoopName> loops; // the same by the sum's names
    LoopName filters = "", tile = "";      // tile: below it one tile is computed and pooled
};

// The pool in vectors of its last axis, spread over cores; nothing where the contraction has none. After all of the convolution.
void schedule_pool(Schedule &s, const Contraction &c, bool parallel);

// The pool by tiles of so many filters and rows, and what it reads at each of them.
PoolTiles tile_pool(Schedule &s, const ConvRoles &r, int64_t filters, int64_t rows, bool parallel);

// Copies that are made in loops of `sum` outside of its tiles stand in those of the pool. After all that places them, and finish_in.
void move_copies(Schedule &s, const std::string &sum, const PoolTiles &tiles);

} // namespace kumiko::library
