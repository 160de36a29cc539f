// Moves that schedules need: the chosen sequence, its cycles compared with the bound, and the data
// moved.
#include "tests/property/moved_chip.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace kumiko;
using namespace kumiko::chip;

namespace {

const sim::Config small = sim::Config::load("small");
const sim::Config full = sim::Config::load("full");

Scratch half(const sim::Config &c) {
    Scratch s;
    s.l2bm = {c.sizes.l2bm / 2, c.sizes.l2bm};
    s.l1bm = {c.sizes.l1bm / 2, c.sizes.l1bm};
    s.lm0 = s.lm1 = {c.sizes.lm / 2, c.sizes.lm};
    s.grf0 = s.grf1 = {c.sizes.grf / 2, c.sizes.grf};
    s.tag_begin = 0, s.tag_end = 2;
    s.mask_begin = 1, s.mask_end = 9;
    return s;
}

Placement f16(Memory memory, const char *layout, int64_t base = 0) {
    return {memory, Layout::parse(layout, ElementType::F16), base};
}

// Plans, runs and compares; holds the program's text.
struct Outcome {
    Move move;
    std::string text;
    int64_t cycles;
};
Outcome moved(const Placement &from, const Placement &to, const sim::Config &c, const MoveOptions &options = {}) {
    Outcome o;
    o.move = plan_move(from, to, half(c), c, options);
    o.text = sim::disassemble(program_of(o.move, c));
    MovedChip chip(c);
    const auto values = chip.send(from);
    o.cycles = int64_t(chip.run(o.move).cycles());
    CHECK(chip.differs(to, values) == "");
    CHECK(o.cycles == o.move.cycles);
    return o;
}

} // namespace

TEST_CASE("each hop in its natural form runs at its link's rate") {
    CHECK(moved(f16(Memory::L1bm, "((64:1), (4_W:1))"), f16(Memory::Lm0, "((64:1), (4_W:1))"), small).text ==
          ".machine small\nrep 8,1 | l1.pe.2 l1bm[0 ^8] -> lm0[0+2 ^8]\n");
    CHECK(
        moved(f16(Memory::L1bm, "((16:4), (4:1, 4_W:1))"), f16(Memory::Lm0, "((16:1), (4_PE:1, 4_W:1))"), small).text ==
        ".machine small\nrep 4,1 | l1.mab.1 l1bm[0 ^16] -> lm0[0+1 ^4]\n");
    CHECK(moved(f16(Memory::L1bm, "((8:8, 2:4), (4:1, 4_W:1))"), f16(Memory::Lm0, "((8:1, 2_MAB:1), (4_PE:1, 4_W:1))"),
                small)
              .text == ".machine small\nrep 2,1 | l1.scatter l1bm[0 ^32] -> lm0[0+1 ^4]\n");
    CHECK(moved(f16(Memory::Grf0, "((8:1, 2_MAB:1), (4_PE:1, 4_W:1))"), f16(Memory::L1bm, "((8:8, 2:4), (4:1, 4_W:1))"),
                small)
              .text == ".machine small\nrep 2,1 | l1.gather grf0[0+1 ^4] -> l1bm[0 ^32]\n");
    CHECK(moved(f16(Memory::L2bm, "((256:1), (4_W:1))"), f16(Memory::L1bm, "((256:1), (4_W:1))"), small).text ==
          ".machine small\nrep 4,1 | l2.bcast l2bm[0 ^64] -> l1bm[0 ^64]\n");
    CHECK(moved(f16(Memory::L2bm, "((16:16, 2:8, 8:1), (4_W:1))"), f16(Memory::L1bm, "((16:8, 2_L1B:1, 8:1), (4_W:1))"),
                small)
              .text == ".machine small\nrep 4,1 | l2.scatter l2bm[0 ^64] -> l1bm[0 ^32]\n");
    CHECK(moved(f16(Memory::Dram, "((4:256, 128:1), (4_W:1))", 1024), f16(Memory::L2bm, "((512:1), (4_W:1))"), small)
              .text == ".machine small\nmv.bcast dram[1024] -> l2bm[0], blocks 4, size 2, stride 256, groups {0}, l2bs "
                       "{0}, tag 0\nwait 0\n");
    CHECK(moved(f16(Memory::Lm0, "((64:1), (4_W:1))"), f16(Memory::Lm1, "((64:1), (4_W:1))"), small).text ==
          ".machine small\nrep 8,1 | pass.i16.2 lm0[0+2 ^8] -> lm1[0+2 ^8]\n");
}

TEST_CASE("the matrix unit transposes rows to columns") {
    const Outcome o = moved(f16(Memory::Lm0, "((2:16, 16:1), (4_PE:1, 4_W:1))"),
                            f16(Memory::Lm1, "((2:16, 4_PE:1, 4_W:1), (16:1))"), small);
    CHECK(o.text == ".machine small\n"
                    "mwrite.f16.2 x.0, lm0[0+2]\n"
                    "mwrite.f16.2 x.1, lm0[8+2]\n"
                    "mwrite.f16.2 y.0, lm0[16+2] | mread.f16.2 x.0 -> lm1[0+2]\n"
                    "mwrite.f16.2 y.1, lm0[24+2] | mread.f16.2 x.1 -> lm1[8+2]\n"
                    "mread.f16.2 y.0 -> lm1[16+2]\n"
                    "mread.f16.2 y.1 -> lm1[24+2]\n");
    const Placement f32{Memory::Grf0, Layout::parse("((8:1), (4_PE:1, 2_W:1))", ElementType::F32), 0};
    const Placement turned{Memory::Lm0, Layout::parse("((4_PE:1, 2_W:1), (8:1))", ElementType::F32), 0};
    CHECK(moved(f32, turned, small).move.ops.size() == 2);
}

TEST_CASE("windows: neighbours share one copy") {
    const Outcome o = moved(f16(Memory::L1bm, "((30:4), (4:1, 4_W:1))"),
                            f16(Memory::Lm0, "(30=(2_MAB:1/14, 16:1), (4_PE:1, 4_W:1))"), small);
    CHECK(o.move.ops.size() == 8);
    // Padding before the first row is not written; others fill it with zeros.
    moved(f16(Memory::L2bm, "((28:8, 2:4), (4:1, 4_W:1))"),
          f16(Memory::Lm0, "(56=(4_MAB:1/14, 16:1)@-1, (4_PE:1, 4_W:1))"), full);
}

TEST_CASE("from DRAM to PEs and back, on the whole chip") {
    const auto dram = [](int64_t base) { return f16(Memory::Dram, "((4_G:1, 512:4), (4:1, 4_W:1))", base); };
    const Placement lm = f16(Memory::Lm0, "((4_G:1, 2_L2B:1, 8_L1B:1, 2:1, 16_MAB:1), (4_PE:1, 4_W:1))");
    const Outcome in = moved(dram(0), lm, full);
    CHECK(in.cycles <= 460);
    CHECK(in.move.bound.cycles >= 160 + 128);
    const Outcome out = moved(lm, dram(2048), full);
    CHECK(out.cycles <= 480);
}

TEST_CASE("a tile of a larger tensor does not write outside of it") {
    const Placement from = f16(Memory::L2bm, "((8:64), (64:1, 4_W:1))"),
                    to = f16(Memory::Dram, "((8:256), (64:1, 4_W:1))", 512);
    MoveOptions keep;
    keep.keep_padding = true;
    const Move m = plan_move(from, to, half(small), small, keep);
    MovedChip chip(small);
    const auto values = chip.send(from);
    std::vector<uint64_t> before;
    for (int64_t a = 0; a < MovedChip::filled; a++) before.push_back(chip.read(Memory::Dram, 0, a));
    chip.run(m);
    CHECK(chip.differs(to, values) == "");
    for (int64_t a = 0; a < MovedChip::filled; a++)
        if (a < 512 || a >= 512 + 8 * 256 || a % 256 >= 64) REQUIRE(chip.read(Memory::Dram, 0, a) == before[size_t(a)]);
}

TEST_CASE("reductions along the tree") {
    const auto reduced = [](const sim::Config &c, ElementType type, const char *from, Memory a, const char *to,
                            Memory b, int axis, sim::Reduction operation) {
        const Placement source{a, Layout::parse(from, type), 0},
            target{b, Layout::parse(to, type), a == b ? c.sizes.lm / 4 : 0};
        MoveOptions options;
        options.reduction = MoveReduction{axis, operation};
        const Move m = plan_move(source, target, half(c), c, options);
        // Small whole numbers: any order gives the same sum.
        const auto bits = [&](int64_t v) {
            if (type == ElementType::I32) return uint64_t(uint32_t(v));
            const float f = float(v);
            uint32_t w;
            std::memcpy(&w, &f, 4);
            return uint64_t(w);
        };
        const auto number = [](int32_t e) { return (int64_t(e) * 37 + 11) % 101 - 50; };
        MovedChip chip(c);
        chip.send(source, [&](int32_t e) { return bits(number(e)); });
        std::map<int32_t, int64_t> sums;
        int64_t inner = 1;
        const std::vector<int64_t> extents = source.layout.extents();
        for (size_t k = size_t(axis) + 1; k < extents.size(); k++) inner *= extents[k];
        for (int32_t e = 0; e < source.layout.elements(); e++) {
            const int32_t kept = int32_t(e / (inner * extents[size_t(axis)]) * inner + e % inner);
            const bool first = e / inner % extents[size_t(axis)] == 0, most = operation == sim::Reduction::MaxI32;
            sums[kept] = first ? number(e) : most ? std::max(sums[kept], number(e)) : sums[kept] + number(e);
        }
        std::map<int32_t, uint64_t> values;
        for (const auto &[e, v] : sums) values[e] = bits(v);
        const sim::Run run = chip.run(m);
        CHECK(chip.differs(target, values) == "");
        CHECK(int64_t(run.cycles()) == m.cycles);
        return sim::disassemble(program_of(m, c));
    };
    using sim::Reduction;
    CHECK(reduced(small, ElementType::F32, "((2_MAB:1), (8:1), (4_PE:1, 2_W:1))", Memory::Lm0, "((8:8), (4:2, 2_W:1))",
                  Memory::L1bm, 0, Reduction::AddF32)
              .find("l1.reduce") != std::string::npos);
    // Over MABs and L1Bs, and down again to everyone.
    reduced(small, ElementType::I32, "((8:1), (2_L1B:1, 2_MAB:1), (4_PE:1, 2_W:1))", Memory::Grf0,
            "((8:1), (4_PE:1, 2_W:1))", Memory::Lm1, 1, Reduction::MaxI32);
    // The L1Bs keep rows apart while the MABs combine.
    reduced(small, ElementType::F32, "((2_MAB:1), (2_L1B:1, 4:1), (4_PE:1, 2_W:1))", Memory::Lm0,
            "((8:4), (4:1, 2_W:1))", Memory::Dram, 0, Reduction::AddF32);
    // All levels of a larger chip.
    reduced(full, ElementType::F32, "((4_G:1, 2_L2B:1, 8_L1B:1, 16_MAB:1), (4:1), (4_PE:1, 2_W:1))", Memory::Lm0,
            "((4:4), (4:1, 2_W:1))", Memory::L2bm, 0, Reduction::AddF32);
}
