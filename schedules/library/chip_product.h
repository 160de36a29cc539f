// Shared by the chip's two matrix-product schedules: the shape of the product and the machine's
// parameters.
#pragma once

#include "schedules/library/structure.h"

#include <vector>

namespace kumiko {
struct Machine;
class Schedule;
} // namespace kumiko

namespace kumiko::library {

// A product of f16 or f32 operands with f32 sums; all extents are constant.
struct ChipProduct : MatrixProduct {
    int64_t M, N, K, batch = 1;
    bool end = false;      // the epilogue is more than a cast
    bool single = false;   // f32 operands
    int64_t end_words = 0; // LW of each GRF for the epilogue
};
std::optional<ChipProduct> find_chip_product(const Op &op);
// Whether the epilogue of a contraction is more than a cast; LW of each GRF that its values take.
bool has_end(const Op &op, const Contraction &c);
int64_t end_registers(const Op &op, const Contraction &c);

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
std::vector<int64_t> divisors(int64_t n);
// low, 2 low, 4 low, … up to high; at least {low}.
std::vector<int64_t> powers(int64_t low, int64_t high);

// The machine's parameters, in LW and cycles.
struct ChipNumbers {
    int64_t groups, l2bs, l1bs, mabs, lm, grf, l1bm, l2bm;
    double dram; // LW per cycle and group
    explicit ChipNumbers(const Machine &m);
    // Steps of L2 that bring `words` LW to each L1B, if `parts` parts of the L2B's L1Bs receive
    // different words.
    double l2_steps(double words, int64_t parts) const;
};

// Sizes of the matrix unit's operands, as the host packs them.
template<class Shape>
struct OfMatrices : Shape {
    int64_t side() const { return this->single ? 8 : 16; }    // rows of a matrix
    int64_t matrix() const { return this->single ? 32 : 64; } // LW per matrix
    int64_t sum() const { return this->single ? 1 : 2; }      // LW per sum in a PE
};
// Lets the host pre-pack an input with its axes in their order; returns the packed name.
std::string prepack_in_order(Schedule &s, const Op &op, const std::string &tensor);

} // namespace kumiko::library
