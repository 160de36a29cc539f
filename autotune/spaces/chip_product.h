// Sums of products on the chip's matrix units, from the formula: what each axis means for the two operands, tiles and trees as decisions say.
// One operand gives matrices, which pass through L1BM to all MABs of an L1B; the other one vectors, which stand in LM.
#pragma once

#include "autotune/spaces/decisions.h"
#include "schedules/library/structure.h"

#include <optional>

namespace kumiko {

struct ChipProductAxes {
    library::Contraction contraction;
    size_t matrix = 1; // operand that gives the matrices
    std::vector<std::string> rows,
        vectors;                      // axes of the result that only the matrices' operand has, only the other one
    std::vector<std::string> batches; // that both have
    std::vector<std::string> columns, taps; // of the reduction: those that may be a matrix' columns, others
    std::array<std::string, 2> inputs;      // of the operands, under zeros around them
    std::map<std::string, int64_t> extents;
    bool single = false; // of f32
    bool end = false;    // more than a cast finishes the sums
    int64_t registers = 0;
    int64_t out_bytes = 4;

    int64_t side() const { return single ? 8 : 16; }
    int64_t words() const { return single ? 32 : 64; } // of a matrix
    int64_t sum() const { return single ? 1 : 2; }     // LW of one in a PE
    const library::Operand &vector_operand() const { return contraction.operands[1 - matrix]; }
};
// By each operand that may give matrices; empty where the op is no such product, or has types that the matrix unit does not multiply.
std::vector<ChipProductAxes> chip_product_axes(const Op &op);

inline const std::vector<std::string> chip_product_levels = {"MAB", "L1B", "L2B", "group"}; // innermost first

// What decisions say of one of those.
struct ChipProductTiles {
    const ChipProductAxes &axes;
    std::string row, column;             // axes of the matrices
    std::map<std::string, int64_t> tile; // by axis of the vectors, of a MAB
    int64_t blocks = 1, depth = 1;       // matrices side by side under a tile's vectors, and copied together
    std::string vectors_at, matrices_at; // "tile", "depth" or a tap: what a copy lies inside of
    bool write_back = true;
    struct Units {
        int64_t rows = 1, others = 1; // of the level, that have matrices, vectors of their own
        std::string axis;             // of the others
    };
    std::map<std::string, Units> units; // by level

    ChipProductTiles(const ChipProductAxes &axes, const Machine &machine, const Decisions &decisions);
    int64_t points() const;                      // vectors of a tile
    int64_t copied() const;                      // matrices of a copy
    int64_t vector_words() const;                // of a copy, in a PE
    bool twice(const Machine &machine) const;    // LM holds two copies
    int64_t left(const std::string &axis) const; // in time
};

std::string reason_against(const ChipProductTiles &tiles, const Machine &machine);
double estimate(const ChipProductTiles &tiles, const Machine &machine);
// Throws as the directives do.
Schedule schedule_product(const Op &op, const Machine &machine, const ChipProductTiles &tiles);

} // namespace kumiko
