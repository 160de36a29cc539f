// Wrong layouts: what is wrong, where, and what is legal.
#include "targets/chip/layout/algebra.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::chip;

namespace {

const sim::Config small = sim::Config::load("small");

template<typename F>
std::string error_of(F &&f) {
    try {
        f();
    } catch (const UserError &e) {
        return e.what();
    } catch (const Unsupported &e) {
        return std::string("unsupported: ") + e.what();
    }
    return "no error";
}
std::string text_error(const char *text) {
    return error_of([&] { Layout::parse(text, ElementType::F16); });
}
std::string place_error(Memory memory, const char *text, int64_t base = 0) {
    return error_of([&] { check({memory, Layout::parse(text, ElementType::F16), base}, small); });
}

} // namespace

TEST_CASE("texts") {
    CHECK(text_error("(8:1)") == "layout:1:3: expected '=' between an extent and its factors, found ':1)'");
    CHECK(text_error("((8:))") == "layout:1:5: expected a factor's stride, found '))'");
    CHECK(text_error("((8_X:1))") == "layout:1:5: there is no level 'X'; there are G, L2B, L1B, MAB, PE and W");
    CHECK(text_error("((0:1))") == "layout:1:3: a factor's size must be in 1..1099511627776, found 0");
    CHECK(text_error("((8:1)) x") == "layout:1:9: expected the layout's end, found 'x'");
    CHECK(text_error("((8:1)") == "layout:1:7: expected ')' after the axes, found the end of the line");
    CHECK(text_error("((8:1)) @ (3_PE, 2_PE)") == "layout:1:18: this level has an offset already");
    CHECK(text_error("((8:1)) * (2:4)") == "layout: copies must be on a unit level, G, L2B, L1B, MAB or PE, not 2:4");
    CHECK(text_error("(9=(8:1))") ==
          "layout: axis 0: an extent of 9, and its factors reach the indices 0..7; it can be 1 to 8");
    CHECK(text_error("((2_MAB:1/20, 16:1))") == "layout: axis 0: index 16 has no place, since a digit of 2_MAB:1/20 is "
                                                "worth 20 indices and the factors inside it "
                                                "reach 16; a step of at most 16 leaves no gap");
    CHECK(text_error("((99999999:1), (99999999:1))") == "layout: a tensor of more than 1099511627776 elements");
    CHECK(error_of([] { element_type("f64"); }) ==
          "the chip has no elements of type 'f64'; it has f16, f32, i16 and i32");
    CHECK(error_of([] { memory_named("lm2"); }) ==
          "the chip has no memory 'lm2'; it has dram, pdm, l2bm, l1bm, lm0, lm1, grf0, grf1");
}

TEST_CASE("two elements at one place") {
    CHECK(place_error(Memory::Lm0, "((4_PE:1, 4:1), (4:1))") ==
          "((4_PE:1, 4:1), (4:1)) at lm0[0]: elements (0, 1) and (1, 0) are both at group 0, L2B 0, L1B 0, MAB 0, PE "
          "0, "
          "LM0[1], lane 0");
    CHECK(place_error(Memory::L1bm, "((2:8), (3:3, 4:1))", 5) ==
          "((2:8), (3:3, 4:1)) at l1bm[5]: elements (0, 3) and (0, 4) are both at group 0, L2B 0, L1B 0, L1BM[8], "
          "lane 0");
    // The overlapping places are padding.
    CHECK(place_error(Memory::Lm0, "(4=(2:3, 4:1))") == "no error");
    CHECK(place_error(Memory::Lm0, "(5=(2:0, 4:1))") == "(5=(2:0, 4:1)) at lm0[0]: elements (0) and (4) are both at "
                                                        "group 0, L2B 0, L1B 0, MAB 0, PE 0, LM0[0], lane 0");
}

TEST_CASE("an error about size names a size that fits") {
    CHECK(place_error(Memory::Lm0, "((300:1))") ==
          "((300:1)) at lm0[0]: it needs 300 LW in each PE that holds it, and LM0 has 256 from address 0 on (256 in "
          "all); "
          "spread over 2 times as many units, or in tiles of at most 256 LW, it would fit");
    CHECK(place_error(Memory::Grf0, "((60:1))", 64) == "((60:1)) at grf0[64]: it needs 60 LW in each PE that holds it, "
                                                       "and GRF0 has 0 from address 64 on (64 in all); a "
                                                       "lower address would have room");
    CHECK(place_error(Memory::L1bm, "((2_MAB:1))") ==
          "((2_MAB:1)) at l1bm[0]: a layout in L1BM cannot name MAB, since there is one L1BM in each L1B");
    CHECK(place_error(Memory::Dram, "((2_L2B:1))") ==
          "((2_L2B:1)) at dram[0]: a layout in DRAM cannot name L2B, since there is one DRAM in each group");
    CHECK(place_error(Memory::Lm1, "((4_MAB:1))") ==
          "((4_MAB:1)) at lm1[0]: it reaches MAB 3, and an L1B of small has 2");
    CHECK(place_error(Memory::Lm1, "((2_G:1))") ==
          "((2_G:1)) at lm1[0]: it reaches group 1, and the chip of small has 1");
    CHECK(place_error(Memory::Lm1, "((8_W:1))") == "((8_W:1)) at lm1[0]: it reaches lane 7, and a word holds 4 f16");
}

TEST_CASE("views") {
    const Layout l = Layout::parse("((4_PE:1, 6:1))", ElementType::F16);
    CHECK(error_of([&] { divide(l, 0, 5); }) ==
          "axis 0 of ((4_PE:1, 6:1)) has 24 elements, which do not divide into tiles of 5");
    CHECK(error_of([&] { divide(l, 0, 4); }) == "unsupported: ((4_PE:1, 6:1)): a digit of size 6 and step 4 on axis 0 "
                                                "cuts through 6_:1; sizes and steps must divide those of the factors");
    CHECK(error_of([&] { divide(l, 1, 4); }) == "((4_PE:1, 6:1)) has no axis 1; it has 1");
    CHECK(error_of([&] {
              compose(l, {{{25, 0, 1}}});
          }) == "a view of ((4_PE:1, 6:1)) reaches index 24 of axis 0, which has 24");
    CHECK(error_of([&] { compose(l, {{{2, 1, 1}}}); }) == "a view of ((4_PE:1, 6:1)) names axis 1; there are 1");
    CHECK(error_of([&] {
              compose(l, {{{3, 0, 2}}, {{5, 0, 1}}});
          }) == "unsupported: ((4_PE:1, 6:1)): digits of the view add up to 8 on axis 0 in a factor of size 6, which "
                "carries; digits must not overlap");
    CHECK(error_of([&] { permute(l, {0, 0}); }) == "an order of ((4_PE:1, 6:1)) names each of its 1 axes once");
    CHECK(error_of([&] { slice(l, 0, 24); }) == "((4_PE:1, 6:1)) has no index 24 on axis 0");
    const Layout windows = Layout::parse("((2_MAB:1/4, 6:1))", ElementType::F16);
    CHECK(error_of([&] { divide(windows, 0, 5); }) ==
          "unsupported: ((2_MAB:1/4, 6:1)): axis 0 has windows or an origin, and can only be used whole");
    CHECK(error_of([&] { slice(windows, 0, 5); }) ==
          "unsupported: ((2_MAB:1/4, 6:1)): axis 0 has windows or an origin: an index of it has several places");
}
