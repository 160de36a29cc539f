// The natural forms of the hops, each in its file.
#pragma once

#include "targets/chip/move/stage.h"

namespace kumiko::chip {

std::vector<Made> push_l1_up(const State &from, int64_t base, const sim::Config &c);
std::vector<Made> push_l1_down(const State &from, Memory to, int64_t base, const sim::Config &c);
std::vector<Made> pull_l1_up(const State &to, Memory memory, int64_t base, const sim::Config &c);
std::vector<Made> pull_l1_down(const State &to, int64_t base, const sim::Config &c);
std::vector<Made> push_l2_up(const State &from, int64_t base, const sim::Config &c);
std::vector<Made> push_l2_down(const State &from, int64_t base, const sim::Config &c);
// Each L1BM gets the stretches in which something stands that it needs, in the order of their addresses.
std::vector<Made> push_l2_needed(const State &from, int64_t base, const std::vector<std::vector<bool>> &needs,
                                 const sim::Config &c);
std::vector<Made> pull_l2_up(const State &to, int64_t base, const sim::Config &c);
std::vector<Made> pull_l2_down(const State &to, int64_t base, const sim::Config &c);
// The blocks that hold anything, packed: of each L2B's group, or (`everything`) of all groups in every L2B.
std::vector<Made> push_in(const State &from, int64_t base, bool everything, std::optional<int> tag,
                          const sim::Config &c);
// Each L2BM gets the blocks in which something stands that it needs.
std::vector<Made> push_in_needed(const State &from, int64_t base, const std::vector<std::vector<bool>> &needs,
                                 std::optional<int> tag, const sim::Config &c);
// Each stretch of L2BM from the L1B that has what stands there; each block of DRAM from the L2B that has it.
std::vector<Made> pull_l2_up_owned(const State &to, int64_t base, const std::vector<std::vector<bool>> &owned,
                                   const sim::Config &c);
std::vector<Made> pull_out_owned(const State &to, int64_t base, const std::vector<std::vector<bool>> &owned,
                                 std::optional<int> tag, const sim::Config &c);
std::vector<Made> pull_out(const State &to, int64_t base, std::optional<int> tag, const sim::Config &c);
// Every L2B's words in every L2B, one L2B's after the other.
std::vector<Made> push_across(const State &from, int64_t base, std::optional<int> tag, const sim::Config &c);

} // namespace kumiko::chip
