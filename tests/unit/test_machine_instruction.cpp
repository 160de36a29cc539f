// Tensor instructions: those of each machine, value ranges, the compact form, user instructions.
#include "machine/instruction.h"
#include "support/error.h"

#include <doctest/doctest.h>

using namespace kumiko;

TEST_CASE("the built-in instructions are sound") {
    for (const Instruction &i : InstructionSet::builtin().all()) {
        INFO(i.name);
        CHECK_NOTHROW(i.check());
        CHECK(i.operands.front().accumulator);
    }
    const Instruction &dot = InstructionSet::builtin().get("avx512.vpdpbusd");
    CHECK(dot.operations() == 128);
    CHECK(dot.operand("a").lane_strides == std::vector<int>{4, 1});
    CHECK_THROWS_WITH_AS(InstructionSet::builtin().get("avx512.vpdpbus"),
                         "unknown instruction 'avx512.vpdpbus' (did you mean 'avx512.vpdpbusd'?)", UserError);
}

TEST_CASE("a machine has the instructions whose processor features it has") {
    auto names = [](const std::string &machine) {
        std::vector<std::string> out;
        for (const Instruction *i : InstructionSet::builtin().available_on(Machine::named(machine)))
            out.push_back(i->name);
        return out;
    };
    CHECK(names("x86-64-sse4.2").empty());
    CHECK(names("x86-64-avx2") == std::vector<std::string>{"avx2.vpmaddubsw", "avx2.vpmaddwd"});
    CHECK(names("x86-64-avx512-vnni") == std::vector<std::string>{"avx512.vpdpbusd", "avx512.vpmaddubsw",
                                                                  "avx512.vpmaddwd", "avx2.vpmaddubsw",
                                                                  "avx2.vpmaddwd"});
}

TEST_CASE("values for which an instruction is exact") {
    Instruction i = InstructionSet::builtin().get("avx2.vpmaddubsw");
    REQUIRE(i.ranges.size() == 1);
    CHECK(i.ranges[0].tensor == "b");
    CHECK(2 * 255 * i.ranges[0].max <= INT16_MAX);
    CHECK(2 * 255 * i.ranges[0].min >= INT16_MIN);
    i.ranges = {{"c", 0, 1}};
    CHECK_THROWS_WITH(i.check(),
                      doctest::Contains("operand 'c', whose values are limited, is not an operand that it reads"));
    i.ranges = {{"a", 2, 1}};
    CHECK_THROWS_WITH(i.check(), doctest::Contains("operand 'a' has an empty range of values"));
}

TEST_CASE("the compact form of an instruction") {
    const Instruction dot4 =
        Instruction("mine.dot4",
                    [](Axis i, Axis k) {
                        Tensor a = input("a", u8, {k}), b = input("b", i8, {i, k});
                        return accumulate("c", i32, {i}, sum(cast<int32_t>(a(k)) * cast<int32_t>(b(i, k)), k));
                    },
                    {16, 4})
            .needs(Feature::avx512_vnni, "avx512f");
    CHECK(dot4.features == std::vector<std::string>{"avx512_vnni", "avx512f"});
    REQUIRE(dot4.operands.size() == 3);
    CHECK(dot4.operands[0].tensor == "c");
    CHECK(dot4.operands[0].accumulator);
    CHECK(dot4.operands[0].lanes == 16);
    CHECK(dot4.operand("a").lanes == 4);
    CHECK(dot4.operand("b").lanes == 64);
    CHECK(dot4.operand("b").lane_strides == std::vector<int>{4, 1});
    CHECK(dot4.operations() == 128);
    CHECK(dot4.meaning.to_string().find("c(i) = sum over k") != std::string::npos);
    const auto of = [](auto formula) { return Instruction("bad", formula, {4, 2}); };
    CHECK_THROWS_WITH(of([](Axis i, Axis k) {
                          Tensor a = input("a", u8, {i, k});
                          return accumulate("c", i32, {i}, sum(a(i, k), k));
                      }),
                      doctest::Contains("the instruction's result \"c\" is i32, but its sum is u8"));
    CHECK_THROWS_WITH(of([](Axis i, Axis k) {
                          Tensor a = input("a", i32, {i, k});
                          return accumulate("c", i32, {i, k}, a(i, k));
                      }),
                      "instruction 'bad': its meaning must be one reduction with one output");
}

TEST_CASE("a user's own instruction, and contradictions") {
    Axis i("i", 4), k("k", 2);
    Tensor a = input("a", f32, {i, k}), b = input("b", f32, {k});
    Tensor c = compute("c", {i}, sum(a(i, k) * b(k), k));
    Instruction mine{"mine.dot2",
                     "",
                     {"mine"},
                     Op("dot", {a, b}, {c}),
                     {{"c", f32, 4, {1}, true}, {"a", f32, 8, {1, 4}}, {"b", f32, 2, {1}}}};
    InstructionSet set = InstructionSet::builtin();
    CHECK_NOTHROW(set.add(mine));
    CHECK(set.find("mine.dot2"));
    CHECK_THROWS_WITH_AS(set.add(mine), "there is already an instruction 'mine.dot2'", UserError);
    Instruction bad = mine;
    bad.name = "bad";
    bad.operands[1].lane_strides = {2, 2};
    CHECK_THROWS_WITH(set.add(bad), "instruction 'bad': the lanes of operand 'a' do not hold each element once");
    bad.operands[1].lane_strides = {2, 1};
    bad.operands[2].lanes = 4;
    CHECK_THROWS_WITH(set.add(bad), "instruction 'bad': operand 'b' has 2 elements, but 4 lanes");
    bad.operands[2] = {"x", f32, 2, {1}};
    CHECK_THROWS_WITH(set.add(bad), "instruction 'bad': operand 'x' is not a tensor of its meaning");
}
