#include "graph/infer/reshapes.h"

#include <algorithm>

namespace kumiko::graph {

std::vector<size_t> axis_order(const Node &transpose, size_t rank) {
    std::vector<size_t> order;
    for (const int64_t d : transpose.integers("perm")) order.push_back(size_t(d < 0 ? d + int64_t(rank) : d));
    if (!transpose.has("perm")) {
        for (size_t d = rank; d-- > 0;) order.push_back(d);
    }
    return order;
}

bool is_reshape(const Node &node, const Extents &extents) {
    if (!node.domain.empty()) return false;
    if (node.op == "Reshape" || node.op == "Flatten" || node.op == "Squeeze" || node.op == "Unsqueeze") return true;
    if (node.op != "Transpose") return false;
    std::vector<size_t> kept;
    for (const size_t d : axis_order(node, extents.size())) {
        if (extents.at(d) != 1) kept.push_back(d);
    }
    return std::is_sorted(kept.begin(), kept.end());
}

} // namespace kumiko::graph
