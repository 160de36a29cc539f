#include "graph/plan/arena.h"

#include "graph/plan/blocks.h"
#include "graph/plan/search.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace kumiko::graph {

namespace {

// Visits of placed blocks after which no further key is tried.
constexpr int64_t max_visits = int64_t(1) << 28;
// Pairs of a block and a section of it, above which there is no exact search, which lists them.
constexpr int64_t max_listed = int64_t(1) << 24;

// Placement of one part: offsets of its blocks, in the part's order, and the end of the highest.
struct Placement {
    std::vector<int64_t> offsets;
    int64_t height = std::numeric_limits<int64_t>::max();
};

// Places blocks one after another, each in a gap between those that are live with it: the lowest
// one, or the smallest.
Placement place_in_order(const ArenaBlocks &all, const std::vector<int> &part, const std::vector<int> &order,
                         bool best_fit, int64_t &visits) {
    struct Placed {
        int64_t offset, end;
        int first, last;
    };
    std::vector<Placed> placed; // by offset
    Placement result{std::vector<int64_t>(part.size()), 0};
    for (int n : order) {
        const ArenaBlock &b = all.blocks[part[n]];
        int64_t top = 0, found = -1, smallest = std::numeric_limits<int64_t>::max();
        for (const Placed &p : placed) {
            if (p.first > b.last_section || p.last < b.first_section) continue;
            const int64_t at = round_up(top, b.alignment);
            if (p.offset >= at + b.bytes && p.offset - top < smallest) {
                found = at;
                smallest = p.offset - top;
                if (!best_fit) break;
            }
            top = std::max(top, p.end);
        }
        visits += int64_t(placed.size());
        if (found < 0) found = round_up(top, b.alignment);
        const Placed me{found, found + b.bytes, b.first_section, b.last_section};
        placed.insert(std::upper_bound(placed.begin(), placed.end(), found,
                                       [](int64_t offset, const Placed &p) { return offset < p.offset; }),
                      me);
        result.offsets[n] = found;
        result.height = std::max(result.height, me.end);
    }
    return result;
}

// The best of several orders and two fits.
Placement place_greedily(const ArenaBlocks &all, const std::vector<int> &part, int64_t bound, int64_t &visits) {
    struct Row {
        double size, length, area, start, breadth;
    };
    std::vector<Row> rows;
    for (int n : part) {
        const ArenaBlock &b = all.blocks[n];
        const double length = double(b.last) - double(b.first) + 1;
        // Live bytes at the block's fullest step.
        const int64_t breadth =
            *std::max_element(&all.section_bytes[b.first_section], &all.section_bytes[b.last_section] + 1);
        rows.push_back({double(b.bytes), length, length * double(b.bytes), -double(b.first), double(breadth)});
    }
    using Keys = std::tuple<double, double, double>; // larger ones first
    using KeysOf = Keys (*)(const Row &);
    const KeysOf keys[] = {
        [](const Row &r) {
            return Keys{r.size, r.length, r.start};
        },
        [](const Row &r) {
            return Keys{r.area, r.size, r.start};
        },
        [](const Row &r) {
            return Keys{r.length, r.size, r.start};
        },
        [](const Row &r) {
            return Keys{r.breadth, r.size, r.length};
        },
        [](const Row &r) {
            return Keys{r.breadth, r.length, r.size};
        },
        [](const Row &r) {
            return Keys{r.start, r.length, r.size};
        },
    };
    Placement best;
    std::vector<int> order(part.size());
    for (const KeysOf key : keys)
        for (bool best_fit : {false, true}) {
            if (best.height <= bound || (visits > max_visits && !best.offsets.empty())) return best;
            for (size_t n = 0; n < order.size(); n++) order[n] = int(n);
            std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(rows[a]) > key(rows[b]); });
            Placement next = place_in_order(all, part, order, best_fit, visits);
            if (next.height < best.height) best = std::move(next);
        }
    return best;
}

int64_t count_listed(const ArenaBlocks &all, const std::vector<int> &part) {
    int64_t count = 0;
    for (int n : part) count += all.blocks[n].last_section - all.blocks[n].first_section + 1;
    return count;
}

// Lowers the height towards `enough` by bisection of capacities. Half of the steps go to `enough`
// itself, a quarter of the remaining ones to each further capacity. Returns the largest height that
// is proved necessary, 0 if none is.
int64_t improve_by_search(const ArenaBlocks &all, const std::vector<int> &part, int64_t enough, int64_t steps,
                          Placement &best, int64_t &taken) {
    PlacementSearch search(all, part);
    int64_t proved = 0, tried = enough - all.granule; // no solution is known for `tried` bytes
    for (int64_t share = steps / 2; share > 0 && tried + all.granule < best.height;
         share = (steps - search.steps()) / 4) {
        const int64_t capacity =
            tried < enough ? enough : tried + (best.height - tried) / 2 / all.granule * all.granule;
        const SearchResult result = search.solve(capacity, share);
        if (result == SearchResult::solved) {
            best.height = 0;
            for (size_t n = 0; n < part.size(); n++) {
                best.offsets[n] = search.offsets()[part[n]];
                best.height = std::max(best.height, best.offsets[n] + all.blocks[part[n]].bytes);
            }
        } else {
            tried = capacity;
            if (result == SearchResult::infeasible) proved = capacity + all.granule;
        }
    }
    taken += search.steps();
    return proved;
}

} // namespace

ArenaPlan plan_arena(const std::vector<ArenaBuffer> &buffers, int64_t search_steps) {
    const ArenaBlocks all = make_blocks(buffers);
    ArenaPlan plan;
    if (!all.blocks.empty()) {
        const auto peak = std::max_element(all.section_bytes.begin(), all.section_bytes.end());
        plan.bound = *peak;
        plan.peak_step = all.section_step[peak - all.section_bytes.begin()];
    }
    std::vector<Placement> placements;
    int64_t visits = 0;
    for (const std::vector<int> &part : all.parts) placements.push_back(place_greedily(all, part, plan.bound, visits));
    int64_t proved = plan.bound;
    for (size_t n = 0; n < all.parts.size(); n++) {
        // A part need not be lower than what another one needs.
        const int64_t enough = std::max(proved, plan.bytes);
        const int64_t steps = search_steps - plan.search_steps;
        if (placements[n].height > enough && steps > 0 && count_listed(all, all.parts[n]) <= max_listed)
            proved =
                std::max(proved, improve_by_search(all, all.parts[n], enough, steps, placements[n], plan.search_steps));
        plan.bytes = std::max(plan.bytes, placements[n].height);
    }
    plan.optimal = plan.bytes == proved;

    std::vector<int64_t> offset_of_block(all.blocks.size());
    for (size_t n = 0; n < all.parts.size(); n++)
        for (size_t m = 0; m < all.parts[n].size(); m++) offset_of_block[all.parts[n][m]] = placements[n].offsets[m];
    for (size_t n = 0; n < buffers.size(); n++) {
        const int block = all.block_of[n];
        plan.offsets.push_back(block < 0 ? 0 : offset_of_block[block] + all.offset_of[n]);
        if (block >= 0) plan.alignment = std::max(plan.alignment, all.blocks[block].alignment);
    }
    check_arena(buffers, plan);
    return plan;
}

} // namespace kumiko::graph
