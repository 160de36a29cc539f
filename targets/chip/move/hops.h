// The natural forms of the hops (stage.h), one file for each level. A push starts from the state
// `from` and returns the state that it results in. A pull results in the state `to` and returns the
// state that it needs. Each returns one entry for every form that applies.
#pragma once

#include "targets/chip/move/stage.h"

namespace kumiko::chip {

std::vector<Hop> push_l1_up(const State &from, int64_t base, const sim::Config &c);
std::vector<Hop> push_l1_down(const State &from, Memory to, int64_t base, const sim::Config &c);
std::vector<Hop> pull_l1_up(const State &to, Memory memory, int64_t base, const sim::Config &c);
std::vector<Hop> pull_l1_down(const State &to, int64_t base, const sim::Config &c);
std::vector<Hop> push_l2_up(const State &from, int64_t base, const sim::Config &c);
std::vector<Hop> push_l2_down(const State &from, int64_t base, const sim::Config &c);
// Each L1BM receives the ranges that contain something it needs, in address order.
std::vector<Hop> push_l2_needed(const State &from, int64_t base, const std::vector<std::vector<bool>> &needs,
                                const sim::Config &c);
std::vector<Hop> pull_l2_up(const State &to, int64_t base, const sim::Config &c);
std::vector<Hop> pull_l2_down(const State &to, int64_t base, const sim::Config &c);
// The nonempty blocks, packed: of each L2B's own group, or (`everything`) of all groups in every
// L2B.
std::vector<Hop> push_in(const State &from, int64_t base, bool everything, std::optional<int> tag,
                         const sim::Config &c);
// Each L2BM receives the blocks that contain something it needs.
std::vector<Hop> push_in_needed(const State &from, int64_t base, const std::vector<std::vector<bool>> &needs,
                                std::optional<int> tag, const sim::Config &c);
// Each range of L2BM comes from the L1B that owns its content; each block of DRAM from the L2B that
// owns it. `owned`: for each of these units, the elements that it owns.
std::vector<Hop> pull_l2_up_owned(const State &to, int64_t base, const std::vector<std::vector<bool>> &owned,
                                  const sim::Config &c);
std::vector<Hop> pull_out_owned(const State &to, int64_t base, const std::vector<std::vector<bool>> &owned,
                                std::optional<int> tag, const sim::Config &c);
std::vector<Hop> pull_out(const State &to, int64_t base, std::optional<int> tag, const sim::Config &c);
// All-gather: every L2B receives the words of every L2B, one after the other.
std::vector<Hop> push_across(const State &from, int64_t base, std::optional<int> tag, const sim::Config &c);

} // namespace kumiko::chip
