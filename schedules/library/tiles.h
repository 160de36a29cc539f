// Loops of a sum of products by an instruction on tiles in memory: two row tiles by two column
// tiles at a time, whose four sums stay in tile registers throughout k.
#pragma once

#include "schedules/library/product.h"

namespace kumiko::library {

// The stage has loops i, j and k, over rows, columns and steps, inside the `outside` loops.
struct TilePlan {
    Product product;
    std::string i, j, k;
    std::optional<int64_t> M, N; // extents of i and j, if constant
    std::vector<std::string> outside;
    std::string image_rows;    // axis of which two iterations give a block its two row tiles; "": i
    int64_t columns = 0;       // per panel of the packed operand
    std::string parallel;      // "none", "rows" or "columns"
    int64_t row_block = 0;     // rows that a thread takes at a time
    bool rows_outside = false; // the loop over row blocks is outside of that over panels
    bool moves_rows = true;    // the last block of rows may be shifted inwards
    bool moves_columns = true; // the last panel may be shifted inwards
};

// The loops that tile_loops() makes.
struct TileLoops {
    LoopName rows, panels; // over blocks of rows, over panels
    LoopName image_rows;   // over pairs of rows of the image
    LoopName block;        // rows of one tile: where the instruction is placed
};

// Sets the plan's columns to the panel width.
TileLoops tile_loops(const Machine &machine, StageHandle C, TilePlan &plan);

// The loops that pack a panel: an instruction's steps side by side, read in whole vectors if
// neighbours along j are contiguous.
void pack_panels(StageHandle B, const TilePlan &plan, const std::vector<std::string> &outside, bool contiguous,
                 int64_t vector, Tail tail);
// The panel-by-panel layout.
std::vector<std::string> panels_layout(const TilePlan &plan);

} // namespace kumiko::library
