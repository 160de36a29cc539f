// Whole numbers of pieces, and the block of words that DRAM's moves are made of.
#pragma once

#include <cstdint>

namespace kumiko::chip {

constexpr int64_t block_words = 64; // LW of a move's unit

// Require numbers that are not negative, and a divisor above zero.
inline int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

} // namespace kumiko::chip
