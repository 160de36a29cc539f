// The minimum distance between two words, from their accesses.
#include "targets/chip/micro/micro_op.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

namespace {

// Between two accesses of one resource, the first of which is earlier; nullopt: independent.
std::optional<int> distance_of(const Access &a, const Access &b, const Config &c) {
    // H4, for any tag.
    if (a.resource == Resource::Move && a.write && b.write) return c.moves.issue_steps;
    // H2 applies to the whole LM, everything else to words.
    const bool whole = a.resource <= Resource::Lm1 && a.write != b.write;
    if (!whole && !a.overlaps(b)) return std::nullopt;
    // A wait: what follows it may be in the same word.
    if (a.resource == Resource::L2bm && (a.slot == Slot::Control || b.slot == Slot::Control))
        return a.slot == Slot::Mv ? 1 : 0;
    if (a.write) return b.write ? 1 : 1 + gap(a.resource, a.slot, b.slot, c.gaps);
    if (!b.write) return std::nullopt;
    // H9: from the step of its issue on, a move owns its destination.
    if (a.resource == Resource::L2bm && (a.slot == Slot::Mv || b.slot == Slot::Mv)) return 1;
    return after_read(a.resource);
}

} // namespace

std::optional<int> min_distance(const Accesses &first, const Accesses &second, const Config &c) {
    std::optional<int> least;
    for (const Access &a : first) {
        for (const Access &b : second) {
            if (a.resource != b.resource || a.resource == Resource::Forward) continue;
            if (const auto d = distance_of(a, b, c)) least = std::max(least.value_or(*d), *d);
        }
    }
    return least;
}

std::optional<int> min_distance(const Word &first, const Word &second, const Config &config) {
    Accesses a, b;
    accesses(first, config, a);
    accesses(second, config, b);
    return min_distance(a, b, config);
}

} // namespace kumiko::chip
