#include "autotune/ranker.h"

#include <numeric>

namespace kumiko {

std::vector<size_t> NoRanker::rank(const std::vector<RankedCandidate> &candidates) {
    std::vector<size_t> order(candidates.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
}

} // namespace kumiko
