// Matrix products on the chip's matrix units, from the formula: the role of each axis in the two
// operands, and tiles and unit distribution by the decisions. One operand provides matrices, which
// pass through L1BM to all MABs of an L1B; the other provides vectors, which are stored in LM.
#pragma once

#include "autotune/spaces/decisions.h"
#include "schedules/library/structure.h"

#include <optional>

namespace kumiko {

struct ChipProductAxes {
    library::Contraction contraction;
    size_t matrix = 1; // the operand that provides the matrices
    std::vector<std::string> rows,
        vectors; // axes of the result that only the matrix operand, or only the vector operand, has
    std::vector<std::string> batches; // axes that both have
    // Reduction axes: candidates for a matrix's columns, and others.
    std::vector<std::string> columns, taps;
    std::array<std::string, 2> inputs; // inputs of the operands, without padding
    std::map<std::string, int64_t> extents;
    bool single = false; // f32
    bool end = false;    // there is an epilogue beyond a cast
    int64_t registers = 0;
    int64_t out_bytes = 4;

    int64_t side() const { return single ? 8 : 16; }
    int64_t words() const { return single ? 32 : 64; } // per matrix
    int64_t sum() const { return single ? 1 : 2; }     // LW of one in a PE
    const library::Operand &vector_operand() const { return contraction.operands[1 - matrix]; }
};
// One entry per operand that can provide the matrices. Empty if the op is not such a product, or
// has types that the matrix unit does not support.
std::vector<ChipProductAxes> chip_product_axes(const Op &op);

// Innermost first.
inline const std::vector<std::string> chip_product_levels = {"MAB", "L1B", "L2B", "group"};

// The decisions for one of these.
struct ChipProductTiles {
    const ChipProductAxes &axes;
    std::string row, column;             // axes of the matrices
    std::map<std::string, int64_t> tile; // by axis of the vectors, per MAB
    // Matrices side by side for a tile's vectors, and matrices copied together.
    int64_t blocks = 1, depth = 1;
    // "tile", "depth" or a tap: the loop at which a copy is made.
    std::string vectors_at, matrices_at;
    bool write_back = true;
    struct Units {
        // Units of the level with different matrices, and with different vectors.
        int64_t rows = 1, others = 1;
        std::string axis; // axis of the others
    };
    std::map<std::string, Units> units; // by level

    ChipProductTiles(const ChipProductAxes &axes, const Machine &machine, const Decisions &decisions);
    int64_t points() const;                      // vectors per tile
    int64_t copied() const;                      // matrices per copy
    int64_t vector_words() const;                // of a copy, per PE
    bool twice(const Machine &machine) const;    // LM holds two copies
    int64_t left(const std::string &axis) const; // in time
};

std::string reason_against(const ChipProductTiles &tiles, const Machine &machine);
double estimate(const ChipProductTiles &tiles, const Machine &machine);
// Throws as the directives do.
Schedule schedule_product(const Op &op, const Machine &machine, const ChipProductTiles &tiles);

} // namespace kumiko
