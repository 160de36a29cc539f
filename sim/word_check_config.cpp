// Checks a word against a machine: its sets, its repeats, and the memories that its move accesses.
#include "sim/assembler.h"
#include "sim/operations.h"

#include <fmt/format.h>

#include <bit>

namespace kumiko::sim {

namespace {

class ConfigCheck {
public:
    ConfigCheck(const Word &word, const Config &config) : w(word), c(config) {}

    void run() const {
        if (w.l2.op != L2Op::None) l2();
        if (w.l1.op != L1Op::None) l1();
        if (w.mv.op != MvOp::None) mv();
        for (const auto &r : w.control.repeat)
            if (r.count && r.length > c.repeat.length)
                fail(Slot::Control, fmt::format("a rep has at most {} words on {}", c.repeat.length, c.name));
    }

private:
    const Word &w;
    const Config &c;

    [[noreturn]] void fail(Slot slot, const std::string &message) const {
        throw UserError(
            fmt::format("{}: {}{}", disassemble(w, slot), message, w.note.empty() ? "" : " (" + w.note + ")"));
    }
    void set(Slot slot, uint32_t bits, int count, const char *unit) const {
        const uint32_t there = count >= 32 ? all_units : (1u << count) - 1;
        if (bits != all_units && (bits & ~there))
            fail(slot, fmt::format("there is no {} {} on {}, which has {}", unit, std::countr_zero(bits & ~there),
                                   c.name, count));
        if (!(bits & there)) fail(slot, fmt::format("the set names no {}", unit));
    }
    void l2() const {
        set(Slot::L2, w.l2.l1bs, c.l1bs, "L1B");
        if (w.l2.child >= c.l1bs)
            fail(Slot::L2, fmt::format("there is no L1B {} on {}, which has {}", w.l2.child, c.name, c.l1bs));
        if (info(w.l2.op).second == L2Second::L2bm && c.l1bs % 2)
            fail(Slot::L2, fmt::format("it needs an even number of L1Bs, and {} has {}", c.name, c.l1bs));
    }
    void l1() const {
        set(Slot::L1, w.l1.mabs, c.mabs, "MAB");
        if (info(w.l1.op).words == L1Words::FourMabs && c.mabs % 4)
            fail(Slot::L1,
                 fmt::format("4×4 mode needs a multiple of four MABs, and {} has {} in an L1B", c.name, c.mabs));
    }
    void mv() const {
        const Mv &m = w.mv;
        const auto fail = [&](const std::string &message) { this->fail(Slot::Mv, message); };
        set(Slot::Mv, m.l2bs, c.total_l2bs(), "L2B");
        const int64_t words = words_of(m, c);
        const uint32_t all = c.total_l2bs() >= 32 ? all_units : (1u << c.total_l2bs()) - 1, chosen = m.l2bs & all;
        if (is_inside(m)) {
            if (m.child >= c.total_l2bs())
                fail(fmt::format("there is no L2B {} on {}, which has {}", m.child, c.name, c.total_l2bs()));
            l2bm(m.l2bm, words), l2bm(m.to, words);
            if (!info(m.op).reduces && chosen >> m.child & 1 && overlap(m.l2bm, m.to, words))
                fail("it copies a range onto itself");
            if (info(m.op).reduces && chosen >> m.child & 1 && m.l2bm != m.to && overlap(m.l2bm, m.to, words))
                fail("its result overlaps a source at another address");
            return;
        }
        const uint32_t groups = m.groups & ((1u << c.groups) - 1);
        if (m.groups != 0xffff && (m.groups >> c.groups))
            fail(fmt::format("there is no group {} on {}, which has {}",
                             std::countr_zero(unsigned(m.groups >> c.groups)) + c.groups, c.name, c.groups));
        if (!groups) fail("the set names no group");
        if (m.chip && std::popcount(groups) != 1) fail("a move over the chip names the one group whose memory it uses");
        // The L2Bs of each group that uses its own memory, or of the chip.
        int units = std::popcount(chosen);
        if (!m.chip) {
            units = 0;
            for (int g = 0; g < c.groups; g++) {
                if (!(groups >> g & 1)) continue;
                const int own = std::popcount(chosen >> g * c.l2bs & ((c.l2bs >= 32 ? 0 : 1u << c.l2bs) - 1));
                if (!own) fail(fmt::format("the set names no L2B of group {}", g));
                if (units && own != units) fail("the set names more L2Bs in one group than in another");
                units = own;
            }
        }
        int64_t share = words;
        if (info(m.op).distributes) {
            if (words / c.moves.block % units)
                fail(fmt::format("{} blocks of {} LW cannot be distributed evenly to {} L2Bs", words / c.moves.block,
                                 c.moves.block, units));
            share = words / units;
        }
        l2bm(m.l2bm, share);
        const int64_t size = m.pdm ? c.sizes.pdm : c.sizes.dram;
        const char *memory = m.pdm ? "PDM" : "DRAM";
        if (m.address % uint32_t(c.moves.granule) || m.stride % c.moves.granule)
            fail(fmt::format("addresses and strides of {} are multiples of {} LW", memory, c.moves.granule));
        if (m.indirect) {
            if (words / c.moves.granule > c.moves.table)
                fail(fmt::format("its table has {} entries, and at most {} are possible", words / c.moves.granule,
                                 c.moves.table));
            if (m.table + (words / c.moves.granule + 1) / 2 > size)
                fail(fmt::format("its table ends at {}, outside {} of {} LW",
                                 m.table + (words / c.moves.granule + 1) / 2, memory, size));
            return;
        }
        const int64_t block = int64_t(m.size) * c.moves.block, last = m.address + int64_t(m.blocks - 1) * m.stride;
        const int64_t low = std::min<int64_t>(m.address, last), high = std::max<int64_t>(m.address, last) + block;
        if (low < 0 || high > size)
            fail(fmt::format("addresses {}..{} are outside {} of {} LW", low, high - 1, memory, size));
        if (is_store(m) && m.blocks > 1 && std::abs(int64_t(m.stride)) < block)
            fail("its blocks overlap in the destination");
    }
    void l2bm(int64_t at, int64_t words) const {
        if (at + words > c.sizes.l2bm)
            fail(Slot::Mv, fmt::format("addresses {}..{} are outside L2BM of {} LW", at, at + words - 1, c.sizes.l2bm));
    }
    static bool overlap(int64_t a, int64_t b, int64_t words) { return a < b + words && b < a + words; }
};

} // namespace

void check_word(const Word &word, const Config &config) {
    check_word(word);
    ConfigCheck(word, config).run();
}

} // namespace kumiko::sim
