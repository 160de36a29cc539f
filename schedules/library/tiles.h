// Loops of a sum of products by an instruction on tiles in memory: two tiles of rows by two of
// columns at a time, whose four sums stay in tile registers while k goes on.
#pragma once

#include "schedules/library/product.h"

namespace kumiko::library {

// The stage has loops i, j and k, of rows, columns and steps, inside those that are `outside`.
struct TilePlan {
    Product product;
    std::string i, j, k;
    std::optional<int64_t> M, N; // extents of i and j, where they are numbers
    std::vector<std::string> outside;
    std::string image_rows;    // the axis of which two iterations give a block its two tiles of rows; "": i does
    int64_t columns = 0;       // of a panel of the packed operand
    std::string parallel;      // "none", "rows" or "columns"
    int64_t row_block = 0;     // rows that a thread takes at a time
    bool rows_outside = false; // the loop over blocks of rows stands outside of that over panels
    bool moves_rows = true;    // the last block of rows may move inwards
    bool moves_columns = true; // the last panel may
};

struct TileLoops {
    LoopName rows, panels; // over blocks of rows, over panels
    LoopName image_rows;   // over pairs of rows of the image
    LoopName block;        // rows of one tile: where the instruction stands
};

// Sets the plan's columns to what panels have.
TileLoops tile_loops(const Machine &machine, StageHandle C, TilePlan &plan);

// The loops of a packed panel: steps of a group side by side, read by whole vectors where
// neighbours along j are neighbours in memory.
void pack_panels(StageHandle B, const TilePlan &plan, const std::vector<std::string> &outside, bool contiguous,
                 int64_t vector, Tail tail);
// Panel by panel.
std::vector<std::string> panels_layout(const TilePlan &plan);

} // namespace kumiko::library
