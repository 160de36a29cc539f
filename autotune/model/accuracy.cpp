#include "autotune/model/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kumiko {

Accuracy accuracy(const std::vector<double> &scores, const std::vector<double> &seconds) {
    const size_t n = scores.size();
    Accuracy a;
    if (n == 0) return a;
    double right = 0, pairs = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            if (seconds[i] == seconds[j]) continue; // both failed
            if (std::abs(seconds[i] - seconds[j]) <= 0.01 * std::min(seconds[i], seconds[j])) continue;
            pairs++;
            if (scores[i] == scores[j])
                right += 0.5;
            else
                right += (scores[i] > scores[j]) == (seconds[i] < seconds[j]);
        }
    }
    a.pairs = pairs > 0 ? right / pairs : 1;
    std::vector<size_t> by_score(n), by_time(n);
    std::iota(by_score.begin(), by_score.end(), 0);
    by_time = by_score;
    std::stable_sort(by_score.begin(), by_score.end(), [&](size_t x, size_t y) { return scores[x] > scores[y]; });
    std::stable_sort(by_time.begin(), by_time.end(), [&](size_t x, size_t y) { return seconds[x] < seconds[y]; });
    const size_t k = std::min<size_t>(30, n);
    double found = 0;
    for (size_t i = 0; i < k; i++)
        found += std::find(by_score.begin(), by_score.begin() + static_cast<long>(k), by_time[i]) !=
                 by_score.begin() + static_cast<long>(k);
    a.recall_30 = found / static_cast<double>(k);
    const auto best_of = [&](size_t count) {
        double best = std::numeric_limits<double>::infinity();
        for (size_t i = 0; i < std::min(count, n); i++) best = std::min(best, seconds[by_score[i]]);
        return std::isfinite(best) ? seconds[by_time[0]] / best : 0;
    };
    a.top_1 = best_of(1);
    a.top_5 = best_of(5);
    a.top_16 = best_of(16);
    return a;
}

Accuracy mean(const std::vector<Accuracy> &all) {
    Accuracy sum;
    for (const Accuracy &a : all) {
        sum.pairs += a.pairs / static_cast<double>(all.size());
        sum.recall_30 += a.recall_30 / static_cast<double>(all.size());
        sum.top_1 += a.top_1 / static_cast<double>(all.size());
        sum.top_5 += a.top_5 / static_cast<double>(all.size());
        sum.top_16 += a.top_16 / static_cast<double>(all.size());
    }
    return sum;
}

} // namespace kumiko
