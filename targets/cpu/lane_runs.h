// Which lanes a mask of constants switches on.
#pragma once

#include <llvm/IR/Constants.h>

#include <bit>
#include <optional>
#include <vector>

namespace kumiko::cpu {

// Lane by lane; nothing where some lane is no constant.
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

// Lanes that follow each other, a power of two of them.
struct LaneRun {
    int first, count;
};

// The lanes that are on as a few runs, which are stored one by one for less than a masked store costs where masks are no part of
// every instruction; nothing where they are many.
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
