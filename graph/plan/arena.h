// Placement of buffers in one arena: an offset for each, so that buffers that are live at the same
// time never overlap, and the arena is small.
//
//     ArenaPlan plan = plan_arena({{.name = "a", .bytes = 4096, .first = 0, .last = 1},
//                                  {.name = "b", .bytes = 1024, .first = 1, .last = 2}});
//
// The problem is dynamic storage allocation, which is NP-hard. Greedy placement by several keys
// comes first, as in TFLM's GreedyMemoryPlanner and XLA's GlobalDecreasingSizeBestFitHeap. If the
// bound is not reached, an exact search follows (graph/plan/search.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kumiko::graph {

// A buffer that is live in the steps first, …, last.
struct ArenaBuffer {
    std::string name; // for messages
    int64_t bytes = 0;
    int64_t first = 0, last = 0; // steps, both inclusive
    int64_t alignment = 64;      // bytes, a power of two
    int inside = -1;             // index of the buffer that contains this one, or -1
    int64_t inside_offset = 0;   // bytes from the beginning of that buffer
};

struct ArenaPlan {
    std::vector<int64_t> offsets; // bytes from the beginning of the arena, one per buffer
    int64_t bytes = 0;            // size of the arena
    int64_t alignment = 1;        // bytes, of the arena itself: the largest of all buffers
    int64_t bound = 0;            // the most bytes that are live in one step; bytes >= bound
    int64_t peak_step = 0;        // the first step with that many
    bool optimal = false;         // no arena of fewer bytes exists
    int64_t search_steps = 0;     // steps that the exact search took
};

// Places all buffers.
//
// - A buffer with `inside` is an alias: a part of a concatenation or a split, a view, or a result
//   in place. It may contain further ones. A buffer that is inside of no other is a block, together
//   with all that it contains. A block is live from the first to the last step of all of them.
// - `bound` and `bytes` round each block's bytes up to the smallest alignment of all blocks.
// - A block of 0 bytes has offset 0.
// - `search_steps` limits the exact search, not its seconds: equal buffers get equal plans on every
//   machine. A step is one visit of a buffer or of a set of live buffers, 1 to 5 ns.
//
// Throws InternalError if a buffer has negative bytes or steps, last < first, an alignment that is
// not a power of two, or an alias that is not within its buffer or not aligned; UserError if all
// bytes together exceed 2^62. Cost for n blocks: at most n^2 visits for each of 6 keys and 2 fits.
// Keys are left out once 2^28 visits are spent or the bound is reached.
ArenaPlan plan_arena(const std::vector<ArenaBuffer> &buffers, int64_t search_steps = int64_t(1) << 28);

// For each block, the blocks that are live in a common step and lie below it: all of them, or
// enough that the others are below these. Blocks that keep this order overlap for no bytes. Empty
// for aliases and blocks of 0 bytes.
std::vector<std::vector<size_t>> blocks_below(const std::vector<ArenaBuffer> &buffers, const ArenaPlan &plan);

// Checks a plan without any code of the planner: each buffer is inside of the arena and aligned,
// each alias is at its offset in its buffer, and no two buffers that are live in one step overlap
// unless one block contains both. Throws InternalError that names the buffers. `plan_arena` calls
// it. Cost: n · (buffers that are live together).
void check_arena(const std::vector<ArenaBuffer> &buffers, const ArenaPlan &plan);

} // namespace kumiko::graph
