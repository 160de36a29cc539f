// Shared by the chip's two matrix-product schedules: the shape of the product and the machine's
// parameters.
#pragma once

#include "schedules/library/structure.h"

#include <algorithm>
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
// nullopt if the op is not such a product.
std::optional<ChipProduct> find_chip_product(const Op &op);
// Whether the epilogue of a contraction is more than a cast.
bool has_end(const Op &op, const Contraction &c);
// LW of each GRF for the values of the epilogue; 0 without one.
int64_t end_registers(const Op &op, const Contraction &c);

// Rates of the chip's data paths (docs/chip.md). An instruction word is a step of four cycles.
inline constexpr int64_t cycles_per_step = 4, pes_per_mab = 4;
inline constexpr int64_t block_words = 64; // LW that DRAM transfers together
// LW between L1BM and a PE: l1.scatter, l1.gather.
inline constexpr int64_t pe_words_per_step = 4;
inline constexpr int64_t mab_words_per_step = 32; // LW from L1BM to all MABs: l1.mab of two words
// LW between L2BM and each L1B: l2.scatter, l2.gather.
inline constexpr int64_t l1b_words_per_step = 32;
inline constexpr int64_t bcast_words_per_step = 64; // LW from L2BM to all L1Bs: l2.bcast
// LW per cycle between a group's DRAM and its L2BMs.
inline constexpr double group_port_rate = 16;
// Steps until a sum of a MAB can be read and added to again.
inline constexpr int64_t sum_latency = 3;
// Constants of the estimates of products with packed operands that the data paths do not determine:
// approximations of simulated cycles. Estimates only rank points.
struct PackedProductEstimate {
    // Fewest steps per f16 matrix: loading it takes two steps of L1, and some steps wait.
    static constexpr double min_steps = 2.3;
    static constexpr double start = 300;         // cycles until the first loads have arrived
    static constexpr double cycles_of_move = 60; // lost per move, because short ones are slower
};
// LW of each GRF for the epilogue of such a product, at least.
inline constexpr int64_t min_end_registers = 32;
// LW to which copies in LM are rounded up.
inline constexpr int64_t lm_granule = 8;
// LW of a GRF that are left for sums, whatever an epilogue needs.
inline constexpr int64_t min_sum_words = 16;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
// All divisors, ascending.
std::vector<int64_t> divisors(int64_t n);
// low, 2 low, 4 low, … up to high; at least {low}.
std::vector<int64_t> powers(int64_t low, int64_t high);

// The machine's parameters, in LW and cycles.
struct ChipNumbers {
    int64_t groups, l2bs, l1bs, mabs, lm, grf, l1bm, l2bm;
    double dram; // LW per cycle and group
    explicit ChipNumbers(const Machine &m);
    // LW of L1BM for one kind of data in transit: vectors, results, a bias, a residual.
    int64_t transit_words() const { return std::max<int64_t>(block_words, 16 * mabs); }
    // Steps of L2 that load `words` LW into each L1B, if `parts` parts of the L2B's L1Bs receive
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
