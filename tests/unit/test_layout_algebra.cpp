// Layouts by hand: places of elements, text, capacity, algebra.
#include "targets/chip/layout/algebra.h"
#include "targets/chip/layout/conversion.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::chip;

namespace {

const sim::Config small = sim::Config::load("small"); // 1 group, 1 L2B, 2 L1Bs, 2 MABs
const sim::Config full = sim::Config::load("full");

Layout f16(const char *text) { return Layout::parse(text, ElementType::F16); }
Layout f32(const char *text) { return Layout::parse(text, ElementType::F32); }

std::string where(const Placement &p, const std::vector<int64_t> &index, const sim::Config &c = small) {
    std::string s;
    for (const Place &place : places_of(p, index, c)) s += (s.empty() ? "" : "; ") + place.to_string(p.memory);
    return s;
}

} // namespace

TEST_CASE("digits of an index are coordinates") {
    const Placement p{Memory::Lm0, f16("((2_L1B:1, 2_MAB:1, 4:2), (2:1, 4_PE:1, 4_W:1))"), 10};
    check(p, small);
    CHECK(p.layout.extents() == std::vector<int64_t>{16, 32});
    CHECK(p.layout.words() == 8);
    CHECK(where(p, {0, 0}) == "group 0, L2B 0, L1B 0, MAB 0, PE 0, LM0[10], lane 0");
    CHECK(where(p, {15, 31}) == "group 0, L2B 0, L1B 1, MAB 1, PE 3, LM0[17], lane 3");
    CHECK(where(p, {5, 17}) == "group 0, L2B 0, L1B 0, MAB 1, PE 0, LM0[13], lane 1");
    CHECK(*element_at(p, {0, 0, 0, 1, 0, 13, 1}, small) == std::vector<int64_t>{5, 17});
}

TEST_CASE("memory levels without a directive hold copies; copies and offsets can be stated") {
    CHECK(places_of({Memory::L1bm, f16("((8:1))"), 0}, {3}, small).size() == 2);
    CHECK(places_of({Memory::Grf0, f16("((8:1))"), 0}, {3}, small).size() == 16);
    CHECK(places_of({Memory::Grf0, f16("((8:1))"), 0}, {3}, full).size() == 4096);
    CHECK(places_of({Memory::L1bm, f16("((8:1)) * (2_L1B:4)"), 0}, {3}, full).size() == 16);
    CHECK(where({Memory::L1bm, f16("((8:1)) @ (1_L1B, 5)"), 100}, {3}) == "group 0, L2B 0, L1B 1, L1BM[108], lane 0");
    CHECK(where({Memory::L1bm, f16("((1_L1B:1), (8:1))"), 0}, {0, 3}) == "group 0, L2B 0, L1B 0, L1BM[3], lane 0");
}

TEST_CASE("padding holds no element") {
    const Placement p{Memory::Lm1, f32("(13=(4_PE:1, 2:1, 2_W:1))"), 0};
    check(p, small);
    CHECK(*element_at(p, {0, 0, 0, 0, 3, 0, 0}, small) == std::vector<int64_t>{12});
    CHECK(!element_at(p, {0, 0, 0, 0, 3, 0, 1}, small));
    CHECK(!element_at(p, {0, 0, 0, 0, 3, 1, 0}, small));
    CHECK(!element_at(p, {0, 0, 0, 0, 0, 2, 0}, small));
    const Footprint f = footprint(p, small);
    CHECK(f.words == 2);
    CHECK(f.elements == 4);
    CHECK(f.units == 16);
    CHECK(f.copies == 4);
}

TEST_CASE("windows give an element several places, and a place one element") {
    const Placement p{Memory::Lm0, f32("(6=(2_MAB:1/4, 6:1)@-1)"), 0};
    check(p, small);
    // Window 0 holds −1..4, window 1 holds 3..8: 3 and 4 are in both; −1, and from 6 on, are
    // padding.
    CHECK(places_of(p, {3}, small).size() == 2 * 8);
    CHECK(places_of(p, {2}, small).size() == 8);
    CHECK(!element_at(p, {0, 0, 0, 0, 0, 0, 0}, small));
    CHECK(*element_at(p, {0, 0, 0, 0, 0, 1, 0}, small) == std::vector<int64_t>{0});
    CHECK(*element_at(p, {0, 0, 0, 0, 0, 5, 0}, small) == std::vector<int64_t>{4});
    CHECK(*element_at(p, {0, 0, 0, 1, 0, 0, 0}, small) == std::vector<int64_t>{3});
    CHECK(*element_at(p, {0, 0, 0, 1, 0, 2, 0}, small) == std::vector<int64_t>{5});
    CHECK(!element_at(p, {0, 0, 0, 1, 0, 3, 0}, small));
}

TEST_CASE("text: printed as written, parsed as printed") {
    for (const char *text :
         {"((8_G:1, 4:2), (2:1, 4_PE:1, 2_W:1))", "()", "(())", "((1_MAB:0), (16:1))", "(30=(8_PE:1, 4:1))",
          "(56=(4_MAB:1/14, 16:1)@-1)", "((4_MAB:1/14, 16:1))", "((16:1)) * (2_L1B:4)", "((16:1)) @ (3_L1B, 64)",
          "((16:1)) * (2_L2B:1, 3_PE:1) @ (0_MAB, 2_W)"})
        CHECK(f16(text).to_string() == text);
    CHECK(f16(" ( (8_L2B:1,4:2) ,(2:1))").to_string() == "((8_L2B:1, 4:2), (2:1))");
}

TEST_CASE("dense") {
    CHECK(Layout::dense(ElementType::F16, {3, 10}).to_string() == "((3:3), 10=(3:1, 4_W:1))");
    CHECK(Layout::dense(ElementType::F32, {2, 3, 4}).to_string() == "((2:6), (3:2), (2:1, 2_W:1))");
}

TEST_CASE("compose, divide, permute, slice") {
    const Layout l = f16("((4_PE:1, 8:2), (2:1, 4_W:1))");
    CHECK(divide(l, 0, 8).to_string() == "((4_PE:1), (8:2), (2:1, 4_W:1))");
    CHECK(divide(l, 0, 4).to_string() == "((4_PE:1, 2:8), (4:2), (2:1, 4_W:1))");
    CHECK(divide(l, 0, 16).to_string() == "((2_PE:2), (2_PE:1, 8:2), (2:1, 4_W:1))");
    CHECK(permute(l, {1, 0}).to_string() == "((2:1, 4_W:1), (4_PE:1, 8:2))");
    CHECK(slice(divide(l, 0, 4), 0, 3).to_string() == "((4:2), (2:1, 4_W:1)) @ (1_PE, 8)");
    // Rows and columns as one axis.
    CHECK(compose(l, {{{32, 0, 1}, {8, 1, 1}}}).to_string() == "((4_PE:1, 8:2, 2:1, 4_W:1))");
    // Every fourth row.
    CHECK(compose(l, {{{8, 0, 4}}, {{8, 1, 1}}}).to_string() == "((4_PE:1, 2:8), (2:1, 4_W:1))");
    // The level of an axis that is gone stays named: PE 0 only.
    CHECK(compose(l, {{{8, 1, 1}}}).to_string() == "((2:1, 4_W:1)) @ (0_PE)");
}

TEST_CASE("equal: one map, written differently") {
    CHECK(canonical(f16("((2_PE:2, 2_PE:1, 1_MAB:3, 4:2, 2:1))")).to_string() == "((4_PE:1, 8:1)) @ (0_MAB)");
    CHECK(canonical(f16("(3=(8:100, 4_PE:1))")).to_string() == "((3_PE:1))");
    CHECK(equal(f16("((2:2, 2:1))"), f16("((4:1))"), Memory::L1bm, small));
    CHECK(!equal(f16("((2:1, 2:2))"), f16("((4:1))"), Memory::L1bm, small));
    CHECK(!equal(f16("((4:1))"), f32("((4:1))"), Memory::L1bm, small));
    // Copies everywhere, stated or not: the same on a machine with two L1Bs.
    CHECK(equal(f16("((4:1)) * (2_L1B:1)"), f16("((4:1))"), Memory::L1bm, small));
    CHECK(!equal(f16("((4:1)) * (2_L1B:1)"), f16("((4:1))"), Memory::L1bm, full));
    CHECK(!equal(f16("((4:1)) @ (0_L1B)"), f16("((4:1))"), Memory::L1bm, small));
    // A window that is as wide as its step is no window.
    CHECK(equal(f16("((2_MAB:1/4, 4:1))"), f16("((2_MAB:1, 4:1))"), Memory::Lm0, small));
}

TEST_CASE("the bound of a conversion") {
    // 1,024 LW into each L1BM of `full` from its L2BM: 16 a cycle.
    const ConversionBound b = conversion_bound({Memory::L2bm, f16("((1024:1), (4_W:1))"), 0},
                                               {Memory::L1bm, f16("((1024:1), (4_W:1))"), 0}, full);
    REQUIRE(b.parts.size() == 1);
    CHECK(b.to_string() == "64 cycles at least: into L1BM 1024 LW in 64 cycles");
    // Data that is already in place costs nothing.
    CHECK(conversion_bound({Memory::Lm0, f16("((4_PE:1), (4_W:1))"), 0}, {Memory::Lm1, f16("((4_PE:1), (4_W:1))"), 0},
                           full)
              .cycles == 0);
    CHECK(conversion_bound({Memory::Dram, f16("((64:1), (4_W:1)) @ (0_G)"), 0},
                           {Memory::L2bm, f16("((64:1), (4_W:1))"), 0}, small)
              .cycles == 160 + 8);
}
