// Packs micro-ops into words in order.
#include "targets/chip/micro/micro_op.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

std::vector<Word> emit_in_order(const std::vector<MicroOp> &ops, const Config &config) {
    struct Placed {
        int64_t step;
        std::vector<Access> accesses;
    };
    std::vector<Word> words;
    std::vector<Placed> recent; // words that the longest distance can still reach
    int horizon = config.moves.issue_steps + 1;
    const Config::Gaps &g = config.gaps;
    for (const int gap :
         {g.lm, g.grf, g.t, g.mask, g.base, g.matrix, g.l1bm_by_pe, g.l1bm_by_l2, g.l1bm_l2_l2, g.l2bm_l2, g.l2bm_mv})
        horizon = std::max(horizon, gap + 2);

    int64_t last = 0; // no micro-op is placed before its predecessor
    for (size_t first = 0; first < ops.size();) {
        size_t end = first + 1; // including those that follow at fixed distances
        while (end < ops.size() && ops[end].follows) end++;
        std::vector<std::vector<Access>> own;
        for (size_t k = first; k < end; k++) own.push_back(accesses(ops[k].word, config));
        int64_t step = last;
        for (const Placed &p : recent)
            for (size_t k = 0; k < own.size(); k++)
                if (const auto d = least_distance(p.accesses, own[k], config))
                    step = std::max(step, p.step + *d - int64_t(k));
        for (;; step++) { // until every word can be merged
            std::vector<std::pair<size_t, Word>> merged;
            bool fits = true;
            for (size_t k = 0; k < own.size() && fits; k++) {
                const size_t at = size_t(step) + k;
                Word w = at < words.size() ? words[at] : Word{};
                fits = !merge(w, ops[first + k].word);
                merged.push_back({at, std::move(w)});
            }
            if (!fits) continue;
            for (auto &[at, w] : merged) {
                if (at >= words.size()) words.resize(at + 1);
                words[at] = std::move(w);
            }
            break;
        }
        for (size_t k = 0; k < own.size(); k++) recent.push_back({step + int64_t(k), std::move(own[k])});
        last = step + int64_t(own.size()) - 1;
        std::erase_if(recent, [&](const Placed &p) { return p.step + horizon < last; });
        first = end;
    }
    return words;
}

} // namespace kumiko::chip
