#include "graph/plan/blocks.h"

#include "support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace kumiko::graph {

namespace {

// Sums below this cannot overflow, and neither can a sum of two.
constexpr int64_t max_bytes = int64_t(1) << 62;

void check_buffer(const std::vector<ArenaBuffer> &buffers, size_t n) {
    const ArenaBuffer &b = buffers[n];
    const std::string label = label_of(buffers, n);
    if (b.bytes < 0) throw InternalError(fmt::format("{} has {} bytes; 0 or more are legal", label, b.bytes));
    if (b.bytes > max_bytes) throw UserError(fmt::format("{} has {} bytes; an arena has at most 2^62", label, b.bytes));
    if (b.alignment < 1 || b.alignment > max_bytes || (b.alignment & (b.alignment - 1)) != 0)
        throw InternalError(fmt::format("{} has alignment {}, which is not a power of two", label, b.alignment));
    if (b.first < 0 || b.last < b.first)
        throw InternalError(fmt::format("{} is live from step {} to {}; steps begin at 0, and the last one is not "
                                        "before the first",
                                        label, b.first, b.last));
    if (b.inside == -1) return;
    if (b.inside < 0 || size_t(b.inside) >= buffers.size() || size_t(b.inside) == n)
        throw InternalError(
            fmt::format("{} is inside of buffer {}, which does not exist or is itself", label, b.inside));
    const ArenaBuffer &outer = buffers[b.inside];
    if (b.inside_offset < 0 || b.inside_offset > outer.bytes || b.bytes > outer.bytes - b.inside_offset)
        throw InternalError(fmt::format("{} has bytes {} to {} of {}, which has {} bytes", label, b.inside_offset,
                                        __int128(b.inside_offset) + b.bytes, label_of(buffers, b.inside), outer.bytes));
}

// Finds the outermost buffer of each, and the offset in it.
std::vector<int> find_roots(const std::vector<ArenaBuffer> &buffers, std::vector<int64_t> &offsets) {
    std::vector<int> root(buffers.size(), -1), path;
    for (size_t n = 0; n < buffers.size(); n++) {
        int at = int(n);
        for (path.clear(); root[at] < 0 && buffers[at].inside >= 0; at = buffers[at].inside) {
            if (path.size() > buffers.size())
                throw InternalError(label_of(buffers, n) + " is inside of itself, through other buffers");
            path.push_back(at);
        }
        if (root[at] < 0) root[at] = at;
        for (; !path.empty(); path.pop_back()) {
            const ArenaBuffer &b = buffers[path.back()];
            root[path.back()] = root[b.inside];
            offsets[path.back()] = offsets[b.inside] + b.inside_offset;
        }
    }
    return root;
}

void find_sections(ArenaBlocks &all) {
    // Starts of a step come before ends of the same step, because steps are inclusive.
    struct Event {
        int64_t step;
        bool end;
        int block;
    };
    std::vector<Event> events;
    for (size_t n = 0; n < all.blocks.size(); n++) {
        events.push_back({all.blocks[n].first, false, int(n)});
        events.push_back({all.blocks[n].last, true, int(n)});
    }
    std::sort(events.begin(), events.end(), [](const Event &a, const Event &b) {
        return std::tie(a.step, a.end, a.block) < std::tie(b.step, b.end, b.block);
    });
    int64_t live = 0, count = 0, step = 0;
    bool grew = false;
    for (const Event &e : events) {
        ArenaBlock &block = all.blocks[e.block];
        if (!e.end) {
            if (count++ == 0) all.parts.emplace_back();
            all.parts.back().push_back(e.block);
            block.first_section = int(all.section_bytes.size());
            live += block.bytes;
            step = e.step;
            grew = true;
            continue;
        }
        if (grew) {
            all.section_bytes.push_back(live);
            all.section_step.push_back(step);
            grew = false;
        }
        block.last_section = int(all.section_bytes.size()) - 1;
        live -= block.bytes;
        count--;
    }
}

} // namespace

std::string label_of(const std::vector<ArenaBuffer> &buffers, size_t n) {
    return buffers[n].name.empty() ? fmt::format("buffer {}", n) : fmt::format("buffer \"{}\"", buffers[n].name);
}

ArenaBlocks make_blocks(const std::vector<ArenaBuffer> &buffers) {
    ArenaBlocks all;
    all.block_of.assign(buffers.size(), -1);
    all.offset_of.assign(buffers.size(), 0);
    for (size_t n = 0; n < buffers.size(); n++) check_buffer(buffers, n);
    const std::vector<int> root = find_roots(buffers, all.offset_of);
    for (size_t n = 0; n < buffers.size(); n++) {
        if (root[n] != int(n) || buffers[n].bytes == 0) continue;
        all.block_of[n] = int(all.blocks.size());
        all.blocks.push_back({buffers[n].bytes, buffers[n].alignment, buffers[n].first, buffers[n].last});
    }
    for (size_t n = 0; n < buffers.size(); n++) {
        const ArenaBuffer &b = buffers[n];
        if (all.offset_of[n] % b.alignment != 0)
            throw InternalError(fmt::format("{} is at byte {} of {}, which is not a multiple of its alignment {}",
                                            label_of(buffers, n), all.offset_of[n], label_of(buffers, root[n]),
                                            b.alignment));
        all.block_of[n] = all.block_of[root[n]];
        if (all.block_of[n] < 0) continue;
        ArenaBlock &block = all.blocks[all.block_of[n]];
        block.alignment = std::max(block.alignment, b.alignment);
        block.first = std::min(block.first, b.first);
        block.last = std::max(block.last, b.last);
    }
    int64_t sum = 0;
    for (size_t n = 0; n < all.blocks.size(); n++)
        all.granule = n == 0 ? all.blocks[n].alignment : std::min(all.granule, all.blocks[n].alignment);
    for (ArenaBlock &block : all.blocks) {
        // No offset exceeds the sum of all blocks with a gap of the alignment before each.
        const int64_t most = max_bytes - sum;
        if (block.alignment > most || block.bytes > most - block.alignment - all.granule)
            throw UserError(
                fmt::format("{} buffers have more than 2^62 bytes together, the most in one arena", buffers.size()));
        block.bytes = round_up(block.bytes, all.granule);
        sum += block.bytes + block.alignment;
    }
    find_sections(all);
    return all;
}

} // namespace kumiko::graph
