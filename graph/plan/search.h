// Exact placement of blocks in a given capacity. Internal to graph/plan.
//
// The method is that of MiniMalloc: M. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
// Hardware-Accelerated Machine Learning", ASPLOS 2023. A depth-first search places one block after
// another, each at the lowest offset above the placed blocks that are live with it.
#pragma once

#include "graph/plan/blocks.h"

namespace kumiko::graph {

enum class SearchResult { solved, infeasible, out_of_steps };

// A search over one of `ArenaBlocks::parts`.
class PlacementSearch {
public:
    PlacementSearch(const ArenaBlocks &all, const std::vector<int> &part);
    // Places all blocks of the part below `capacity`, in at most about `steps` steps.
    SearchResult solve(int64_t capacity, int64_t steps);
    // After solved: of each block of `all`; those of other parts are -1.
    const std::vector<int64_t> &offsets() const { return offset_; }
    int64_t steps() const { return steps_; } // that all calls took

private:
    // Unplaced blocks that are independent of all others, ordered by a key, and their sections.
    struct Part {
        std::vector<int> blocks;
        int first = 0, last = 0;
    };
    enum class Key { length_first, total_then_area, total_then_length };

    Part make_part(std::vector<int> blocks, int first, int last);
    SearchResult search(const Part &part, int64_t min_offset, int min_rank);
    SearchResult search_below(const Part &part, int rank);
    bool place(const Part &part, int block);
    bool fits(const Part &part, int64_t offset) const;
    void set(int64_t &value, int64_t to) {
        trail_.emplace_back(&value, value);
        value = to;
    }
    void undo(size_t mark);
    bool placed(int block) const { return offset_[block] >= 0; }

    const ArenaBlocks &all_;
    std::vector<int> blocks_;
    // Of each block.
    std::vector<int64_t> offset_; // -1: not placed
    std::vector<int64_t> low_;    // the lowest offset above the placed blocks
    // Of each section.
    std::vector<std::vector<int>> members_;
    std::vector<int64_t> floor_;    // the lowest offset of an unplaced block
    std::vector<int64_t> total_;    // bytes of unplaced blocks
    std::vector<int64_t> crossing_; // unplaced blocks that are also in the next section
    std::vector<int> witness_;      // a block whose low_ was floor_, or -1

    std::vector<std::pair<int64_t *, int64_t>> trail_; // values that undo restores
    Key key_ = Key::length_first;
    int64_t capacity_ = 0, steps_ = 0, limit_ = 0;
    int depth_ = 0;
};

} // namespace kumiko::graph
