// Integer division with rounding, and the block size of DRAM moves.
#pragma once

#include <cstdint>

namespace kumiko::chip {

constexpr int64_t block_words = 64; // LW of a block, the unit of a move

// Require nonnegative numbers and a positive divisor.
inline int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

} // namespace kumiko::chip
