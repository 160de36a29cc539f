// Paths of row-major tensors: the unit of distribution has to be contiguous in DRAM, in blocks of
// 64 LW or granules of 16 LW.
#include "targets/chip/transfer/transfer_path.h"

#include "support/error.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <map>

namespace kumiko::chip {

using namespace sim;

bool TransferPath::takes_row_major(const DramOrder &order) const {
    return why_not_row_major(order, interleaved_).empty() || why_not_row_major(order, false).empty();
}

std::optional<DramPlace> TransferPath::block(Values &values, int64_t y, bool &there) const {
    const int64_t part = interleaved_ ? y / 8 % config_.l1bs : y % l2_chunk() / chunk_;
    const int64_t x = interleaved_ ? y / (8 * config_.l1bs) * 8 + y % 8 : y / l2_chunk() * chunk_ + y % chunk_;
    const DramOrder &order = *shape_.order;
    there = set_word(values, part, x).first < accesses_;
    std::vector<int64_t> index;
    for (const Affine &a : shape_.access.index) index.push_back(a.at(values));
    int64_t &last = index[order.order().back()];
    there = there && order.row(index) != order.zero_row() && last >= 0 && last < order.pitch() * order.per_word();
    if (there) return order.place(order.row(index), last / order.per_word());
    if (shape_.store) return std::nullopt;
    if (shape_.zeros) return order.place(order.one_axis() ? 0 : order.zero_row(), 0);
    // The value is undefined: choose an address in the group that has nearby elements.
    for (size_t d = 0; d < index.size(); d++) index[d] = std::clamp<int64_t>(index[d], 0, shape_.access.extents[d] - 1);
    return order.place(order.row(index), last / order.per_word() / unit_ * unit_);
}

// Each block of 64 LW in L2BM must be 64 words of a row: checked for the first tile; other tiles
// are at constant offsets.
std::string TransferPath::why_not_row_major(const DramOrder &order, bool interleaved, int64_t unit) const {
    const auto &index = shape_.access.index;
    const size_t last = order.order().back();
    Values values(plan_.loops().size(), 0);
    std::vector<int64_t> first(index.size());
    for (int64_t y = 0; y < l2_words(); y++) {
        const int64_t part = interleaved ? y / 8 % config_.l1bs : y % l2_chunk() / chunk_;
        const int64_t x = interleaved ? y / (8 * config_.l1bs) * 8 + y % 8 : y / l2_chunk() * chunk_ + y % chunk_;
        const auto [access, w] = set_word(values, part, x);
        if (access >= accesses_) continue;
        bool fits = true;
        for (int e = 0; e < per_word_; e++) {
            if (shape_.transposed)
                set_word(values, part, x, e);
            else
                set_lane(values, w, e);
            for (size_t d = 0; d < index.size(); d++) {
                const int64_t at = index[d].at(values);
                if (y % unit == 0 && e == 0) first[d] = at;
                fits = fits && at == first[d] + (d == last ? y % unit * per_word_ + e : 0);
            }
        }
        fits = fits && first[last] % (unit * per_word_) == 0;
        // Other tiles are alike if the other loops step over whole blocks.
        if (!fits)
            return fmt::format("{} is row-major in DRAM, and the loops do not read it in whole blocks of {} "
                               "elements of a row; bind the last axis so that PEs, MABs and L1Bs have adjacent "
                               "elements, or prepack it",
                               shape_.name, unit * per_word_);
    }
    for (size_t l = 0; l < plan_.loops().size(); l++) {
        const PlannedLoop &p = plan_.loops()[l];
        const bool outside = p.kind == PlannedLoop::Kind::Unit
                                 ? p.level < Tier::L1b
                                 : std::count(shape_.keys.begin(), shape_.keys.end(), l) > 0;
        if (outside && p.extent > 1 && index[last].coefficients[l] % (unit * per_word_) != 0)
            return fmt::format("{} is row-major in DRAM, and loop {} steps over parts of blocks of {} LW; prepack it",
                               shape_.name, p.name, unit);
    }
    return "";
}

// Moves of granules of 16 LW; each run comes from one group's memory.
void TransferPath::granules(const std::vector<std::optional<DramPlace>> &places, Mv move, int64_t dram,
                            std::vector<Mv> &all) const {
    const int64_t granule = config_.moves.granule, of_block = config_.moves.block / granule, most = 1024;
    const uint16_t l2bm = move.l2bm;
    for (size_t first = 0; first < places.size();) {
        int group = -1;
        size_t end = first;
        int64_t base = INT64_MAX;
        for (; end < places.size() && int64_t(end - first) < most; end++) {
            if (!places[end]) continue;
            if (group >= 0 && places[end]->group != group) break;
            group = places[end]->group;
            base = std::min(base, places[end]->address);
        }
        if (end < places.size()) end = first + (end - first) / size_t(of_block) * size_t(of_block);
        if (end == first)
            throw Unsupported(shape_.name + ": blocks of 64 LW have granules of several groups; other loops over rows");
        if (group >= 0) {
            std::vector<uint32_t> entries;
            // Concurrent moves must not write one granule twice.
            for (size_t i = first; i < end; i++) {
                const int64_t at =
                    places[i] ? places[i]->address : shape_.nowhere + nowhere_++ % nowhere_room * granule;
                entries.push_back(uint32_t((at - base) / granule));
            }
            Mv m = move;
            const uint32_t own = ((1u << config_.l2bs) - 1) << (group * config_.l2bs);
            m.chip = (m.l2bs & ~own) != 0;
            m.groups = uint16_t(1u << group);
            m.indirect = true;
            m.address = uint32_t(dram + base);
            m.table = uint32_t(shape_.table(group, entries));
            m.size = uint16_t((end - first) / size_t(of_block));
            m.l2bm = uint16_t(l2bm + int64_t(first) * granule);
            all.push_back(m);
        }
        first = end;
    }
}

// L2Bs that need, or have, the same words.
struct TransferPath::RowPart {
    uint32_t l2bs;
    std::vector<std::optional<DramPlace>> places; // by block or granule
    bool beyond = true;                           // the whole part is out of bounds
};

std::vector<TransferPath::RowPart> TransferPath::row_parts(int64_t key, int64_t begin, int64_t words,
                                                           uint32_t groups) const {
    std::map<std::pair<int64_t, int64_t>, uint32_t> units; // by the parts of groups and of L2Bs
    for (int u = 0; u < config_.total_l2bs(); u++) {
        const int g = u / config_.l2bs, l = u % config_.l2bs;
        if (shape_.store) {
            if (g < plan_.used(Tier::Group) && l < plan_.used(Tier::L2b) && (groups >> g & 1)) units[{g, l}] = 1u << u;
        } else {
            units[{plan_.part(shape_.access, Tier::Group, g), plan_.part(shape_.access, Tier::L2b, l)}] |= 1u << u;
        }
    }
    Values values(plan_.loops().size(), 0);
    std::vector<RowPart> parts;
    for (const auto &[id, l2bs] : units) {
        RowPart part{l2bs, {}};
        const int first = std::countr_zero(l2bs);
        set_key(values, key);
        plan_.set_unit(values, Tier::Group, first / config_.l2bs);
        plan_.set_unit(values, Tier::L2b, first % config_.l2bs);
        for (int64_t y = 0; y < words; y += unit_) {
            bool there = false;
            part.places.push_back(block(values, begin + y, there));
            part.beyond = part.beyond && !there;
        }
        // Undefined out of bounds: use the words that another L2B needs.
        const bool anything = !shape_.zeros && !shape_.clamped;
        const auto same = [&](const RowPart &o) {
            return !shape_.store && (o.places == part.places || (anything && (o.beyond || part.beyond)));
        };
        const auto other = std::find_if(parts.begin(), parts.end(), same);
        if (other == parts.end()) {
            parts.push_back(std::move(part));
            continue;
        }
        if (other->beyond && !part.beyond) other->places = std::move(part.places), other->beyond = false;
        other->l2bs |= l2bs;
    }
    return parts;
}

// Moves of whole blocks, as many at once as follow each other by one stride.
void TransferPath::block_moves(const RowPart &part, int64_t dram, int64_t l2bm, std::vector<Mv> &all) const {
    std::vector<DramPlace> list;
    int64_t from = 0; // of the list's first block in L2BM
    const auto put = [&](int64_t next) {
        for (const BlockRun &run : join_blocks(list)) {
            Mv m;
            m.op = shape_.store ? MvOp::Gather : MvOp::Broadcast;
            const uint32_t own = ((1u << config_.l2bs) - 1) << (run.at.group * config_.l2bs);
            m.chip = (part.l2bs & ~own) != 0;
            m.groups = uint16_t(1u << run.at.group);
            m.l2bs = part.l2bs;
            m.address = uint32_t(dram + run.at.address);
            m.blocks = uint16_t(run.count);
            m.size = uint16_t(run.size);
            m.stride = int32_t(run.stride);
            m.l2bm = uint16_t(l2bm + from + run.first * 64);
            all.push_back(m);
        }
        list.clear();
        from = next;
    };
    for (int64_t n = 0; n < int64_t(part.places.size()); n++) {
        if (part.places[size_t(n)])
            list.push_back(*part.places[size_t(n)]);
        else // nothing to store
            put((n + 1) * 64);
    }
    put(0);
}

void TransferPath::row_moves(Packer &p, int64_t key, int64_t begin, int64_t words, int64_t dram, int64_t l2bm,
                             uint32_t groups) const {
    std::vector<Mv> all;
    for (const RowPart &part : row_parts(key, begin, words, groups)) {
        if (unit_ >= 64) {
            block_moves(part, dram, l2bm, all);
            continue;
        }
        Mv m;
        m.op = shape_.store ? MvOp::Gather : MvOp::Broadcast;
        m.l2bs = part.l2bs;
        m.l2bm = uint16_t(l2bm);
        granules(part.places, m, dram, all);
    }
    if (!all.empty()) p.place(all);
}

} // namespace kumiko::chip
