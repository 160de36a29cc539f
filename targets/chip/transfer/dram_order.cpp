#include "targets/chip/transfer/dram_order.h"

#include "targets/chip/counts.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace kumiko::chip {

DramOrder::DramOrder(std::vector<int64_t> extents, int element_bytes, const sim::Config &config,
                     std::vector<size_t> order, int64_t pitch)
    : extents_(std::move(extents)), order_(std::move(order)), groups_(config.groups), per_word_(8 / element_bytes) {
    length_ = order_.empty() ? 1 : extents_[order_.back()];
    rows_ = 1;
    for (size_t d = 0; d + 1 < order_.size(); d++) rows_ *= extents_[order_[d]];
    pitch_ = round_up((length_ + per_word_ - 1) / per_word_, one_axis() ? block_words : pitch);
    // Rows or blocks to distribute over the groups.
    const int64_t units = one_axis() ? pitch_ / block_words : rows_;
    // 16 consecutive rows per group, or 32 if they are short: one tile of rows comes from one
    // group, the next from another.
    const int64_t most = !one_axis() && 32 * pitch_ <= 8192 ? 32 : 16;
    together_ = 1;
    while (together_ < most && 2 * together_ * groups_ <= units) together_ *= 2;
    // One more for zeros.
    words_ = round_up(units + 1, together_ * groups_) / groups_ * (one_axis() ? block_words : pitch_);
}

int64_t DramOrder::row(const std::vector<int64_t> &index) const {
    int64_t r = 0;
    for (size_t d = 0; d + 1 < order_.size(); d++) {
        const int64_t i = index[order_[d]], n = extents_[order_[d]];
        if (i < 0 || i >= n) return zero_row();
        r = r * n + i;
    }
    return r;
}

DramPlace DramOrder::place(int64_t row, int64_t word) const {
    const int64_t unit = one_axis() ? row * (pitch_ / block_words) + word / block_words : row;
    const int64_t within = one_axis() ? word % block_words : word, length = one_axis() ? block_words : pitch_;
    const int64_t turn = unit / together_;
    return {int(turn % groups_), (turn / groups_ * together_ + unit % together_) * length + within};
}

void DramOrder::each_word(const WordVisitor &visit) const {
    std::vector<int64_t> strides(extents_.size(), 1), elements(static_cast<size_t>(per_word_));
    for (size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * extents_[d];
    const int64_t step = order_.empty() ? 0 : strides[order_.back()];
    for (int64_t r = 0; r < rows_; r++) {
        int64_t rest = r, begin = 0;
        for (size_t d = order_.size(); d-- > 1;) {
            const size_t axis = order_[d - 1];
            begin += rest % extents_[axis] * strides[axis];
            rest /= extents_[axis];
        }
        for (int64_t w = 0; w * per_word_ < length_; w++) {
            for (int64_t e = 0; e < per_word_; e++) {
                const int64_t at = w * per_word_ + e;
                elements[size_t(e)] = at < length_ ? begin + at * step : -1;
            }
            const DramPlace p = place(r, w);
            visit(p.group, p.address, elements);
        }
    }
}

std::string DramOrder::to_string() const {
    std::string axes;
    for (const size_t a : order_) axes += fmt::format("{}{}", axes.empty() ? "" : " x ", extents_[a]);
    if (one_axis())
        return fmt::format("row-major, {}, blocks of {} LW over {} groups by {}", axes, block_words, groups_,
                           together_);
    return fmt::format("row-major, {}, rows of {} LW over {} groups by {}", axes, pitch_, groups_, together_);
}

std::vector<BlockRun> join_blocks(const std::vector<DramPlace> &blocks) {
    std::vector<BlockRun> pieces; // contiguous ranges
    for (size_t i = 0; i < blocks.size(); i++) {
        BlockRun *p = pieces.empty() ? nullptr : &pieces.back();
        if (p && p->at.group == blocks[i].group && p->at.address + p->size * block_words == blocks[i].address)
            p->size++;
        else
            pieces.push_back({blocks[i], int64_t(i)});
    }
    std::vector<BlockRun> all;
    for (const BlockRun &p : pieces) {
        if (!all.empty()) {
            BlockRun &r = all.back();
            const int64_t step = p.at.address - (r.at.address + (r.count - 1) * r.stride);
            if (r.at.group == p.at.group && r.size == p.size && (r.count == 1 || step == r.stride)) {
                r.stride = step;
                r.count++;
                continue;
            }
        }
        all.push_back(p);
    }
    return all;
}

} // namespace kumiko::chip
