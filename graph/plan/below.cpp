#include "graph/plan/arena.h"

#include <algorithm>
#include <numeric>

namespace kumiko::graph {

std::vector<std::vector<size_t>> blocks_below(const std::vector<ArenaBuffer> &buffers, const ArenaPlan &plan) {
    std::vector<size_t> blocks; // from the lowest to the highest
    for (size_t b = 0; b < buffers.size(); b++) {
        if (buffers[b].inside < 0 && buffers[b].bytes > 0) blocks.push_back(b);
    }
    std::stable_sort(blocks.begin(), blocks.end(),
                     [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; });
    std::vector<std::vector<size_t>> below(buffers.size());
    std::vector<std::vector<bool>> above(buffers.size()); // [a][b]: a is above b, directly or not
    for (size_t n = 0; n < blocks.size(); n++) {
        const size_t block = blocks[n];
        above[block].resize(buffers.size(), false);
        for (size_t m = n; m-- > 0;) {
            const size_t other = blocks[m];
            const bool together =
                buffers[other].first <= buffers[block].last && buffers[block].first <= buffers[other].last;
            if (!together || above[block][other]) continue;
            below[block].push_back(other);
            above[block][other] = true;
            for (size_t b = 0; b < buffers.size(); b++) above[block][b] = above[block][b] || above[other][b];
        }
    }
    return below;
}

} // namespace kumiko::graph
