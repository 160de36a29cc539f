// The blocks of an arena: buffers with the aliases in them, as rectangles of bytes and time.
// Internal to graph/plan.
#pragma once

#include "graph/plan/arena.h"

namespace kumiko::graph {

struct ArenaBlock {
    int64_t bytes = 0; // rounded up to the granule
    int64_t alignment = 1;
    int64_t first = 0, last = 0; // steps
    int first_section = 0, last_section = 0;
};

// A section is a maximal set of blocks that are live in one step. Two blocks are live together
// exactly if their ranges of sections intersect.
struct ArenaBlocks {
    std::vector<ArenaBlock> blocks;      // of more than 0 bytes
    std::vector<int> block_of;           // of each buffer, -1 if its block has 0 bytes
    std::vector<int64_t> offset_of;      // bytes of each buffer in its block
    int64_t granule = 1;                 // smallest alignment of all blocks
    std::vector<int64_t> section_bytes;  // live bytes of each section
    std::vector<int64_t> section_step;   // a step in which all of its blocks are live
    std::vector<std::vector<int>> parts; // blocks that are connected by common sections
};

// Checks the buffers, and throws as `plan_arena` does.
ArenaBlocks make_blocks(const std::vector<ArenaBuffer> &buffers);

// `buffer "x"`, or `buffer 3` if it has no name: for messages.
std::string label_of(const std::vector<ArenaBuffer> &buffers, size_t n);

inline int64_t round_up(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) & -alignment; }

} // namespace kumiko::graph
