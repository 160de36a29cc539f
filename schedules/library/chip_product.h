// What the chip's two schedules of products share: the product's shape and the machine's numbers.
#pragma once

#include "schedules/library/structure.h"

#include <vector>

namespace kumiko {
struct Machine;
class Schedule;
} // namespace kumiko

namespace kumiko::library {

// A product of f16 or of f32 with sums in f32, all extents numbers.
struct ChipProduct : MatrixProduct {
    int64_t M, N, K, batch = 1;
    bool end = false;      // more than a cast finishes the sums
    bool single = false;   // of f32
    int64_t end_words = 0; // of each GRF, for what it computes
};
std::optional<ChipProduct> find_chip_product(const Op &op);
// More than a cast finishes the sums of a contraction; the words of each GRF that are for what it computes.
bool has_end(const Op &op, const Contraction &c);
int64_t end_registers(const Op &op, const Contraction &c);

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
std::vector<int64_t> divisors(int64_t n);
// low, 2 low, … up to high; low at least.
std::vector<int64_t> powers(int64_t low, int64_t high);

// The machine's numbers, in LW and cycles.
struct ChipNumbers {
    int64_t groups, l2bs, l1bs, mabs, lm, grf, l1bm, l2bm;
    double dram; // LW a cycle of a group
    explicit ChipNumbers(const Machine &m);
    // Steps of L2 that bring an L1B so many words, where `parts` parts of the L2B's L1Bs have words of their own.
    double l2_steps(double words, int64_t parts) const;
};

// What the matrix unit takes of operands that the host packs.
template<class Shape>
struct OfMatrices : Shape {
    int64_t side() const { return this->single ? 8 : 16; }    // of a matrix
    int64_t matrix() const { return this->single ? 32 : 64; } // LW of it
    int64_t sum() const { return this->single ? 1 : 2; }      // LW of one in a PE
};
// The name of an input that the host packs with its axes in their order.
std::string prepack_in_order(Schedule &s, const Op &op, const std::string &tensor);

} // namespace kumiko::library
