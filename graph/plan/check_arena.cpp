#include "graph/plan/arena.h"

#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace kumiko::graph {

// This file shares no code with the planner, so that an error there cannot hide itself.
void check_arena(const std::vector<ArenaBuffer> &buffers, const ArenaPlan &plan) {
    const auto describe = [&](size_t n) {
        const ArenaBuffer &b = buffers[n];
        return fmt::format("buffer {} \"{}\" ({} bytes at {}, steps {} to {})", n, b.name, b.bytes, plan.offsets[n],
                           b.first, b.last);
    };
    if (plan.offsets.size() != buffers.size())
        throw InternalError(fmt::format("the plan has {} offsets for {} buffers", plan.offsets.size(), buffers.size()));
    for (size_t n = 0; n < buffers.size(); n++) {
        const ArenaBuffer &b = buffers[n];
        const int64_t at = plan.offsets[n];
        if (b.bytes == 0) continue;
        if (at < 0 || b.bytes < 0 || at > plan.bytes || b.bytes > plan.bytes - at)
            throw InternalError(fmt::format("{} is outside of the arena of {} bytes", describe(n), plan.bytes));
        if (b.alignment < 1 || at % b.alignment != 0 || plan.alignment % b.alignment != 0)
            throw InternalError(fmt::format("{} is not aligned to {} bytes in an arena aligned to {}", describe(n),
                                            b.alignment, plan.alignment));
        if (b.inside >= 0 && at != plan.offsets.at(b.inside) + b.inside_offset)
            throw InternalError(
                fmt::format("{} is not at byte {} of {}", describe(n), b.inside_offset, describe(b.inside)));
    }
    std::vector<size_t> outermost(buffers.size()), order(buffers.size()), live;
    for (size_t n = 0; n < buffers.size(); n++)
        for (outermost[n] = n; buffers[outermost[n]].inside >= 0;) outermost[n] = buffers[outermost[n]].inside;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return buffers[a].first < buffers[b].first; });
    for (size_t n : order) {
        const ArenaBuffer &b = buffers[n];
        if (b.bytes == 0) continue;
        live.erase(std::remove_if(live.begin(), live.end(), [&](size_t m) { return buffers[m].last < b.first; }),
                   live.end());
        for (size_t m : live)
            if (outermost[m] != outermost[n] && plan.offsets[m] < plan.offsets[n] + b.bytes &&
                plan.offsets[n] < plan.offsets[m] + buffers[m].bytes)
                throw InternalError(
                    fmt::format("{} and {} overlap", describe(std::min(m, n)), describe(std::max(m, n))));
        live.push_back(n);
    }
}

} // namespace kumiko::graph
