// Impossible moves: the reason, and what would make them possible.
#include "targets/chip/move/move.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::chip;

namespace {

const sim::Config small = sim::Config::load("small");

Placement f16(Memory memory, const char *layout, int64_t base = 0) {
    return {memory, Layout::parse(layout, ElementType::F16), base};
}
std::string error_of(const Placement &from, const Placement &to, const Scratch &scratch = {},
                     const MoveOptions &options = {}) {
    try {
        plan_move(from, to, scratch, small, options);
    } catch (const UserError &e) {
        return e.what();
    } catch (const Unsupported &e) {
        return std::string("unsupported: ") + e.what();
    }
    return "no error";
}

} // namespace

TEST_CASE("placements that do not go together") {
    CHECK(error_of(f16(Memory::Lm0, "((8:1))"), f16(Memory::Lm1, "((9:1))")) ==
          "((8:1)) at lm0[0] and ((9:1)) at lm1[0] are not one tensor: f16 of 8 and f16 of 9");
    CHECK(error_of(f16(Memory::Lm0, "((8:1))"), {Memory::Lm1, Layout::parse("((8:1))", ElementType::F32), 0}) ==
          "((8:1)) at lm0[0] and ((8:1)) at lm1[0] are not one tensor: f16 of 8 and f32 of 8");
    CHECK(error_of(f16(Memory::Lm0, "((8:1))"), f16(Memory::Lm0, "((8:1))", 4)) ==
          "a move's source at lm0[0..7] and its destination at lm0[4..11] share words");
    Scratch scratch;
    scratch.lm1 = {8, 16};
    CHECK(error_of(f16(Memory::Lm0, "((8:1))"), f16(Memory::Lm1, "((5:1))", 4), scratch) ==
          "((8:1)) at lm0[0] and ((5:1)) at lm1[4] are not one tensor: f16 of 8 and f16 of 5");
    // A step has four cycles and writes four words.
    CHECK(error_of(f16(Memory::Lm0, "((5:1))"), f16(Memory::Lm1, "((5:1))", 4), scratch) ==
          "a move's destination at lm1[4..11] and its scratch at lm1[8..15] share words");
    scratch.lm1 = {8, 300};
    CHECK(error_of(f16(Memory::Lm0, "((4:1))"), f16(Memory::Lm1, "((4:1))", 4), scratch) ==
          "scratch at lm1[8..299] is outside its 256 LW");
    scratch.lm1 = {};
    scratch.tag_end = 17;
    CHECK(error_of(f16(Memory::Lm0, "((4:1))"), f16(Memory::Lm1, "((4:1))", 4), scratch) ==
          "scratch tags 0..16 and mask entries 1..0: there are tags 0..15 and entries 1..15");
    CHECK(error_of(f16(Memory::Dram, "((64:1))", 8), f16(Memory::L2bm, "((64:1))")) ==
          "((64:1)) at dram[8]: moves off the chip need addresses that are multiples of 16 LW");
    CHECK(error_of(f16(Memory::Lm0, "((300:1))"), f16(Memory::L2bm, "((300:1))")).find("it needs 300 LW in each PE") !=
          std::string::npos);
}

TEST_CASE("features that the chip lacks") {
    const Placement rows = f16(Memory::Lm0, "((8:1, 2_MAB:1), (4_PE:1, 4_W:1))"),
                    other = f16(Memory::Lm1, "((2_L1B:1, 8:1), (4_PE:1, 4_W:1))");
    const std::string what =
        "unsupported: ((8:1, 2_MAB:1), (4_PE:1, 4_W:1)) at lm0[0] to ((2_L1B:1, 8:1), (4_PE:1, 4_W:1)) at lm1[0]: no "
        "sequence of operations was found; it would take ";
    // Rows of one L1B's MABs move to other L1Bs: every L1B receives all of them and selects its own
    // by a mask.
    Scratch scratch;
    scratch.mask_end = 4;
    CHECK(error_of(rows, other, scratch) == what + "64 LW of scratch in l1bm");
    scratch.l1bm = {0, 512};
    CHECK(error_of(rows, other, scratch) == what + "128 LW of scratch in l2bm, which has 0 left");
    CHECK(error_of(f16(Memory::Dram, "((64:1), (4_W:1))"), f16(Memory::L2bm, "((64:1), (4_W:1))"), scratch) ==
          "unsupported: ((64:1), (4_W:1)) at dram[0] to ((64:1), (4_W:1)) at l2bm[0]: no sequence of operations was "
          "found; it would "
          "take a tag for moves off the chip");
    MoveOptions keep;
    keep.keep_padding = true;
    scratch.tag_end = 1;
    CHECK(error_of(f16(Memory::L2bm, "((8:32), (32:1, 4_W:1))"), f16(Memory::Dram, "((8:256), (32:1, 4_W:1))"), scratch,
                   keep) ==
          "unsupported: ((8:32), (32:1, 4_W:1)) at l2bm[0] to ((8:256), (32:1, 4_W:1)) at dram[0]: "
          "no sequence of operations was "
          "found; it would take a destination whose padding may be overwritten, or that is written in whole steps: a "
          "destination whose ranges are multiples of 64 LW, at multiples of 16 LW, if padding is kept");
}

TEST_CASE("reductions") {
    MoveOptions options;
    options.reduction = MoveReduction{0, sim::Reduction::AddF32};
    CHECK(error_of(f16(Memory::Lm0, "((2_MAB:1), (8:1))"), f16(Memory::Lm1, "((8:1))"), {}, options) ==
          "((2_MAB:1), (8:1)) at lm0[0] cannot be reduced by add.f32: reductions of the tree are of f32 and i32");
    const auto f32 = [](const char *text) { return Layout::parse(text, ElementType::F32); };
    options.reduction->axis = 2;
    CHECK(error_of({Memory::Lm0, f32("((2_MAB:1), (8:1))"), 0}, {Memory::Lm1, f32("((2:1), (8:2))"), 0}, {}, options) ==
          "((2_MAB:1), (8:1)) at lm0[0] has no axis 2 to reduce");
    options.reduction->axis = 0;
    Scratch scratch;
    scratch.l1bm = {0, 512};
    scratch.l2bm = {0, 4096};
    scratch.tag_end = 1;
    CHECK(error_of({Memory::Lm0, f32("((2:8), (8:1))"), 0}, {Memory::Lm1, f32("((8:1))"), 0}, scratch, options)
              .find("the axis can be on MAB, L1B, L2B and G only, each reduced completely") != std::string::npos);
    CHECK(error_of({Memory::Lm0, f32("((2_MAB:1), (8:1))"), 0}, {Memory::Lm1, f32("((8:1))"), 0}, {}, options)
              .find("it would take 64 LW of scratch in l1bm, which has 0") != std::string::npos);
}
