// What the chip's two schedules of products share: the product's shape and the machine's numbers.
#pragma once

#include "schedules/library/structure.h"

#include <vector>

namespace kumiko {
struct Machine;
}

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
};

} // namespace kumiko::library
