// Which lanes a constant mask enables.
#pragma once

#include <llvm/IR/Constants.h>

#include <bit>
#include <optional>
#include <vector>

namespace kumiko::cpu {

// One flag per lane; nullopt if some lane is not constant.
inline std::optional<std::vector<bool>> lanes_on(const llvm::Value *mask) {
    const auto *constant = llvm::dyn_cast<llvm::Constant>(mask);
    const auto *type = llvm::dyn_cast<llvm::FixedVectorType>(mask->getType());
    if (!constant || !type) return std::nullopt;
    std::vector<bool> on;
    for (unsigned i = 0; i < type->getNumElements(); i++) {
        const auto *lane = llvm::dyn_cast_or_null<llvm::ConstantInt>(constant->getAggregateElement(i));
        if (!lane) return std::nullopt;
        on.push_back(!lane->isZero());
    }
    return on;
}

// Consecutive enabled lanes; the count is a power of two.
struct LaneRun {
    int first, count;
};

// Splits the enabled lanes into runs; nullopt if there are too many. On targets without masks on
// every instruction, storing a few runs one by one is cheaper than a masked store.
inline std::optional<std::vector<LaneRun>> runs_of(const llvm::Value *mask) {
    const auto on = lanes_on(mask);
    if (!on) return std::nullopt;
    std::vector<LaneRun> runs;
    const int lanes = int(on->size());
    for (int i = 0; i < lanes;) {
        int end = i;
        while (end < lanes && (*on)[size_t(end)]) end++;
        for (int left = end - i; left > 0; left = end - i) {
            const int count = int(std::bit_floor(unsigned(left)));
            runs.push_back({i, count});
            i += count;
        }
        if (i == end) i++;
    }
    const size_t most = 4 + size_t(lanes) / 16;
    return runs.size() <= most ? std::optional(runs) : std::nullopt;
}

} // namespace kumiko::cpu
