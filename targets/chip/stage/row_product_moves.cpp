#include "targets/chip/stage/row_product_moves.h"

#include <algorithm>

namespace kumiko::chip {

using namespace sim;

Operand four_of(Source memory, const std::array<int, 4> &at) {
    const int stride = at[1] - at[0];
    if (at[2] - at[1] != stride || at[3] - at[2] != stride) return listed(memory, at);
    switch (memory) {
    case Source::Lm0:
        return lm0(at[0], stride);
    case Source::Lm1:
        return lm1(at[0], stride);
    case Source::Grf0:
        return grf0(at[0], stride);
    default:
        return grf1(at[0], stride);
    }
}

Mv ProductMoves::between(uint32_t l2bs, int group, bool store) const {
    Mv m;
    m.op = store ? MvOp::Gather : MvOp::Broadcast;
    const uint32_t own = ((1u << c_.config.l2bs) - 1) << (group * c_.config.l2bs);
    m.chip = (l2bs & ~own) != 0;
    m.groups = uint16_t(1u << group);
    m.l2bs = l2bs;
    return m;
}

// The moves of each class for blocks [block, block + blocks) of the rows, row after row. Results of
// rows beyond the last are not stored, so L2Bs with only such rows load another class's.
std::vector<std::vector<Mv>> ProductMoves::loads(const ProductView &view, std::vector<L2bRows> classes, int64_t block,
                                                 int64_t blocks, int64_t l2bm) const {
    const auto beyond = [&](const L2bRows &c) {
        return !view.across &&
               std::all_of(c.rows.begin(), c.rows.end(), [&](int64_t r) { return r == view.order->zero_row(); });
    };
    const auto first = std::find_if_not(classes.begin(), classes.end(), beyond);
    if (first != classes.end()) {
        for (const L2bRows &c : classes) first->l2bs |= beyond(c) ? c.l2bs : 0;
        std::erase_if(classes, beyond);
    }
    std::vector<std::vector<Mv>> all;
    for (const L2bRows &c : classes) {
        std::vector<DramPlace> list;
        for (const int64_t r : c.rows) {
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t word = c.word + (block + b) * block_words;
                const bool beyond = word >= view.order->pitch();
                list.push_back(view.order->place(beyond ? view.order->zero_row() : r, beyond ? 0 : word));
            }
        }
        all.emplace_back();
        for (const BlockRun &run : join_blocks(list)) {
            Mv m = between(c.l2bs, run.at.group, false);
            m.address = uint32_t(view.dram + run.at.address);
            m.blocks = uint16_t(run.count);
            m.size = uint16_t(run.size);
            m.stride = int32_t(run.stride);
            m.l2bm = uint16_t(l2bm + run.first * block_words);
            all.back().push_back(m);
        }
    }
    return all;
}

void ProductMoves::load(const ProductView &view, const std::vector<L2bRows> &classes, int64_t block, int64_t blocks,
                        int64_t l2bm) {
    std::vector<Mv> all;
    for (const auto &moves : loads(view, classes, block, blocks, l2bm))
        all.insert(all.end(), moves.begin(), moves.end());
    c_.packer.place(all);
}

// Moves rows with fewer than 64 LW in an L2B by granules, through a table that the host writes. The
// excess of a whole block of 64 LW goes to a dummy destination.
void ProductMoves::granules(const ProductView &view, const std::vector<DramPlace> &at, int64_t l2bm, uint32_t l2bs,
                            bool store, std::vector<Mv> &all) {
    const int64_t granule = c_.config.moves.granule, in_block = block_words / granule;
    std::vector<uint32_t> entries;
    for (const DramPlace &p : at) entries.push_back(uint32_t((view.dram + p.address) / granule));
    if (entries.size() % size_t(in_block)) {
        const int64_t spare = c_.planner.take(Bank::Dram, block_words, "what nobody reads");
        for (int64_t i = 0; entries.size() % size_t(in_block); i++) entries.push_back(uint32_t(spare / granule + i));
    }
    Mv m = between(l2bs, at.front().group, store);
    m.indirect = true;
    m.size = uint16_t(entries.size() / size_t(in_block));
    m.l2bm = uint16_t(l2bm);
    m.table = uint32_t(c_.table(at.front().group, entries));
    all.push_back(m);
}

void ProductMoves::l2_step(L2 slot, int64_t l2bm, int64_t l1bm) {
    MicroOp m;
    slot.l2bm.at = uint16_t(l2bm);
    slot.l1bm.at = uint16_t(l1bm);
    m.word().l2 = slot;
    c_.packer.place(m);
}

// One L1 step to four addresses.
void ProductMoves::to_pes(L1Op op, int width, int64_t l1bm, std::array<int, 4> at, bool to_lm, uint32_t mabs) {
    Source memory = Source::Grf1;
    if (to_lm) {
        const int lm = int(c_.config.sizes.lm);
        memory = at[0] >= lm ? Source::Lm1 : Source::Lm0;
        for (int &a : at) a -= memory == Source::Lm1 ? lm : 0;
    }
    MicroOp m;
    m.word().l1.op = op;
    m.word().l1.width = uint8_t(width);
    m.word().l1.mabs = mabs;
    m.word().l1.at.at = uint16_t(l1bm);
    m.word().l1.to = m.write(four_of(memory, at));
    c_.packer.place(m);
}

// Distributes rows of 64 LW, whose words belong to some sets of some rows.
void ProductMoves::distribute(int64_t l1bm, const std::function<int64_t(int64_t row, int64_t set)> &to, bool to_lm,
                              uint32_t mabs) {
    std::array<int, 4> at;
    const int64_t a_cycle = f_.sides > 1 ? 2 : 1, of_row = f_.sets_of_step / a_cycle;
    for (int t = 0; t < cycles_per_step; t++) at[size_t(t)] = int(to(t / of_row, t % of_row * a_cycle));
    to_pes(f_.sides > 1 ? L1Op::MabBroadcast4 : L1Op::Scatter, int(a_cycle), l1bm, at, to_lm, mabs);
}

} // namespace kumiko::chip
