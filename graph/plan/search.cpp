#include "graph/plan/search.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace kumiko::graph {

namespace {

constexpr int max_depth = 2048; // of the recursion, at most 1 KiB of stack each

} // namespace

PlacementSearch::PlacementSearch(const ArenaBlocks &all, const std::vector<int> &part)
    : all_(all), blocks_(part), offset_(all.blocks.size(), -1), low_(all.blocks.size(), 0),
      members_(all.section_bytes.size()), floor_(all.section_bytes.size(), 0), total_(all.section_bytes.size(), 0),
      crossing_(all.section_bytes.size(), 0), witness_(all.section_bytes.size(), -1) {
    for (int b : blocks_)
        for (int s = all.blocks[b].first_section; s <= all.blocks[b].last_section; s++) {
            members_[s].push_back(b);
            total_[s] += all.blocks[b].bytes;
            if (s < all.blocks[b].last_section) crossing_[s]++;
        }
}

SearchResult PlacementSearch::solve(int64_t capacity, int64_t steps) {
    capacity_ = capacity;
    int first = std::numeric_limits<int>::max(), last = 0;
    for (int b : blocks_) {
        first = std::min(first, all_.blocks[b].first_section);
        last = std::max(last, all_.blocks[b].last_section);
    }
    // Keys take turns with doubling limits, because which one ends soon differs by orders of
    // magnitude.
    const int64_t end = steps_ + steps;
    for (int64_t slice = 64 * int64_t(blocks_.size());; slice *= 2) {
        bool all_too_deep = true;
        for (Key key : {Key::length_first, Key::total_then_area, Key::total_then_length}) {
            key_ = key;
            limit_ = std::min(end, steps_ + slice);
            undo(0);
            const SearchResult result = search(make_part(blocks_, first, last), 0, 0);
            if (result != SearchResult::out_of_steps || steps_ >= end) return result;
            all_too_deep &= steps_ < limit_;
        }
        if (all_too_deep) return SearchResult::out_of_steps;
    }
}

PlacementSearch::Part PlacementSearch::make_part(std::vector<int> blocks, int first, int last) {
    struct Row {
        int64_t total;
        double length, area;
        int block;
    };
    std::vector<Row> rows;
    for (int b : blocks) {
        const ArenaBlock &block = all_.blocks[b];
        const double length = double(block.last) - double(block.first) + 1;
        steps_ += block.last_section - block.first_section;
        rows.push_back({*std::max_element(&total_[block.first_section], &total_[block.last_section] + 1), length,
                        length * double(block.bytes), b});
    }
    std::sort(rows.begin(), rows.end(), [this](const Row &a, const Row &b) {
        switch (key_) {
        case Key::length_first:
            return std::tie(b.length, b.area, b.total, a.block) < std::tie(a.length, a.area, a.total, b.block);
        case Key::total_then_area:
            return std::tie(b.total, b.area, b.length, a.block) < std::tie(a.total, a.area, a.length, b.block);
        default:
            return std::tie(b.total, b.length, b.area, a.block) < std::tie(a.total, a.length, a.area, b.block);
        }
    });
    for (size_t n = 0; n < rows.size(); n++) blocks[n] = rows[n].block;
    return {std::move(blocks), first, last};
}

SearchResult PlacementSearch::search(const Part &part, int64_t min_offset, int min_rank) {
    if (steps_ >= limit_ || depth_ >= max_depth) return SearchResult::out_of_steps;
    steps_ += int64_t(part.blocks.size()) + part.last - part.first;
    int64_t lowest_top = std::numeric_limits<int64_t>::max();
    for (int b : part.blocks)
        if (!placed(b)) lowest_top = std::min(lowest_top, low_[b] + all_.blocks[b].bytes);
    if (lowest_top == std::numeric_limits<int64_t>::max()) return SearchResult::solved;

    // Canonical solutions place blocks by rising offset, those of equal offset by rank. A block at
    // lowest_top or above leaves a gap in which another block fits.
    std::vector<std::pair<int64_t, int>> candidates; // offset, rank
    for (int rank = 0; rank < int(part.blocks.size()); rank++) {
        const int b = part.blocks[rank];
        if (placed(b) || low_[b] >= lowest_top) continue;
        if (std::make_pair(low_[b], rank) >= std::make_pair(min_offset, min_rank))
            candidates.emplace_back(low_[b], rank);
    }
    std::sort(candidates.begin(), candidates.end());
    for (const auto &[offset, rank] : candidates) {
        const size_t mark = trail_.size();
        const bool blocks_others = place(part, part.blocks[rank]);
        SearchResult result = SearchResult::infeasible;
        depth_++;
        if (fits(part, offset)) result = search_below(part, rank);
        depth_--;
        if (result != SearchResult::infeasible) return result;
        undo(mark);
        // The placement of a block below no other cannot be the cause.
        if (!blocks_others) break;
    }
    return SearchResult::infeasible;
}

// Continues after the block of that rank is placed. If no unplaced block is in both of two
// neighbouring sections, the two sides are independent.
SearchResult PlacementSearch::search_below(const Part &part, int rank) {
    const int block = part.blocks[rank];
    std::vector<int> begins = {part.first};
    for (int s = all_.blocks[block].first_section; s < all_.blocks[block].last_section; s++) {
        set(crossing_[s], crossing_[s] - 1);
        if (crossing_[s] == 0) begins.push_back(s + 1);
    }
    if (begins.size() == 1) return search(part, offset_[block], rank);
    begins.push_back(part.last + 1);
    for (size_t n = 0; n + 1 < begins.size(); n++) {
        std::vector<int> blocks;
        for (int b : part.blocks)
            if (!placed(b) && all_.blocks[b].first_section >= begins[n] && all_.blocks[b].first_section < begins[n + 1])
                blocks.push_back(b);
        steps_ += int64_t(part.blocks.size());
        if (blocks.empty()) continue;
        const SearchResult result = search(make_part(std::move(blocks), begins[n], begins[n + 1] - 1), 0, 0);
        if (result != SearchResult::solved) return result;
    }
    return SearchResult::solved;
}

// Places the block at its lowest offset. Returns whether an unplaced block is live with it.
bool PlacementSearch::place(const Part &part, int block) {
    const ArenaBlock &me = all_.blocks[block];
    const int64_t top = low_[block] + me.bytes;
    int first = me.first_section, last = me.last_section;
    bool blocks_others = false;
    set(offset_[block], low_[block]);
    for (int b : part.blocks) {
        const ArenaBlock &other = all_.blocks[b];
        if (placed(b) || other.first_section > me.last_section || other.last_section < me.first_section) continue;
        blocks_others = true;
        const int64_t low = round_up(top, other.alignment);
        if (low_[b] >= low) continue;
        set(low_[b], low);
        first = std::min(first, other.first_section);
        last = std::max(last, other.last_section);
    }
    for (int s = me.first_section; s <= me.last_section; s++) {
        set(floor_[s], top);
        set(total_[s], total_[s] - me.bytes);
    }
    // The floor of a section rises with the lowest of its unplaced blocks.
    for (int s = first; s <= last; s++) {
        if (witness_[s] >= 0 && !placed(witness_[s]) && low_[witness_[s]] == floor_[s]) continue;
        int64_t low = std::numeric_limits<int64_t>::max();
        for (int b : members_[s])
            if (!placed(b) && low_[b] < low) {
                low = low_[b];
                witness_[s] = b;
            }
        steps_ += int64_t(members_[s].size());
        if (low != std::numeric_limits<int64_t>::max() && low > floor_[s]) set(floor_[s], low);
    }
    steps_ += int64_t(part.blocks.size()) + last - first;
    return blocks_others;
}

// Whether all unplaced blocks of each section could be stacked below the capacity, from `offset`.
bool PlacementSearch::fits(const Part &part, int64_t offset) const {
    for (int s = part.first; s <= part.last; s++)
        if (std::max(offset, floor_[s]) + total_[s] > capacity_) return false;
    return true;
}

void PlacementSearch::undo(size_t mark) {
    for (; trail_.size() > mark; trail_.pop_back()) *trail_.back().first = trail_.back().second;
}

} // namespace kumiko::graph
