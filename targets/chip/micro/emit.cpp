// Packs micro-ops into words in order.
#include "targets/chip/micro/micro_op.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

namespace {

// No distance between two words is longer.
int longest_distance(const Config &config) {
    int longest = config.moves.issue_steps;
    for (int r = 0; r < resource_count; r++)
        for (const Slot writer : {Slot::L1, Slot::L2, Slot::Alu})
            longest = std::max(longest, 1 + longest_gap(Resource(r), writer, config.gaps));
    return longest;
}

} // namespace

std::vector<Word> emit_in_order(const std::vector<MicroOp> &ops, const Config &config) {
    struct Placed {
        int64_t step;
        Accesses accesses;
    };
    std::vector<Word> words;
    std::vector<Placed> recent; // words that the longest distance can still reach
    const int horizon = longest_distance(config) + 1;

    int64_t last = 0; // no micro-op is placed before its predecessor
    for (const MicroOp &op : ops) {
        const size_t parts = size_t(op.parts());
        std::vector<Accesses> own(parts);
        for (size_t k = 0; k < parts; k++) accesses(op.word(int(k)), config, own[k]);
        int64_t step = last;
        for (const Placed &p : recent)
            for (size_t k = 0; k < parts; k++)
                if (const auto d = min_distance(p.accesses, own[k], config))
                    step = std::max(step, p.step + *d - int64_t(k));
        for (;; step++) { // until every word can be merged
            std::vector<std::pair<size_t, Word>> merged;
            bool fits = true;
            for (size_t k = 0; k < parts && fits; k++) {
                const size_t at = size_t(step) + k;
                Word w = at < words.size() ? words[at] : Word{};
                fits = !merge(w, op.word(int(k)));
                merged.push_back({at, std::move(w)});
            }
            if (!fits) continue;
            for (auto &[at, w] : merged) {
                if (at >= words.size()) words.resize(at + 1);
                words[at] = std::move(w);
            }
            break;
        }
        for (size_t k = 0; k < parts; k++) recent.push_back({step + int64_t(k), own[k]});
        last = step + int64_t(parts) - 1;
        std::erase_if(recent, [&](const Placed &p) { return p.step + horizon < last; });
    }
    return words;
}

} // namespace kumiko::chip
