// Micro-ops: what words read and write, the distances between them, and words ordered, folded and
// costed.
#include "sim/simulator.h"
#include "support/random.h"
#include "targets/chip/micro/micro_op.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::chip;
using namespace kumiko::sim;

namespace {

const Config small = Config::load("small");

int distance(const char *first, const char *second) {
    return min_distance(assemble_word(first), assemble_word(second), small).value_or(-1);
}
MicroOp op(const char *line, const char *next = nullptr) {
    MicroOp m(assemble_word(line));
    if (next) m.next(assemble_word(next));
    return m;
}
std::string text(const std::vector<Word> &words) {
    std::string s;
    for (const Word &w : words) s += disassemble(w) + "\n";
    return s;
}

} // namespace

TEST_CASE("distances are those of the machine's rules") {
    // any address of an LM
    CHECK(distance("pass.i32 imm(1i) -> lm1[0+1]", "pass.i32 lm1[8+1] -> grf0[0+1]") == 3);
    CHECK(distance("pass.i32 imm(1i) -> grf0[0+1]", "pass.i32 grf0[3] -> lm1[0+1]") == 3);
    CHECK(distance("pass.i32 imm(1i) -> grf0[0+1]", "pass.i32 grf0[4] -> lm1[0+1]") == -1);
    CHECK(distance("pass.i32 grf0[0+1] -> lm1[0+1]", "pass.i32 lm1[0+1] -> grf0[0+1]") == 3);
    CHECK(distance("pass.i32 lm0[0+1] -> lm1[0+1]", "pass.i32 grf0[0+1] -> lm1[0+1]") == 1);
    CHECK(distance("pass.i32 lm0[0+1] -> grf1[0+1]", "l1.scatter l1bm[0] -> lm0[8+1]") == 0);
    CHECK(distance("l1.gather lm0[0+1] -> l1bm[0]", "l1.scatter l1bm[0] -> lm1[0+1]") == 3);
    CHECK(distance("l1.gather lm0[0+1] -> l1bm[0]", "l2.gather l1bm[0] -> l2bm[0]") == 3);
    CHECK(distance("l2.bcast l2bm[0] -> l1bm[0]", "l1.scatter l1bm[0] -> lm1[0+1]") == 2);
    CHECK(distance("l2.bcast l2bm[0] -> l1bm[64]", "l1.scatter l1bm[0] -> lm1[0+1]") == -1);
    CHECK(distance("l2.gather l1bm[0] -> l2bm[0]", "mv.gather l2bm[0] -> dram[0], tag 0") == 2);
    CHECK(distance("mv.bcast dram[0] -> l2bm[0], tag 0", "wait 0") == 1);
    CHECK(distance("wait 0", "l2.bcast l2bm[0] -> l1bm[0]") == 0);
    CHECK(distance("mv.bcast dram[0] -> l2bm[0], tag 0", "mv.bcast dram[64] -> l2bm[64], tag 1") == 4);
    CHECK(distance("eq.i16 id, imm(1s) -> mask 3", "pass.i16 lm0[0+1] -> lm1[0+1] | mask 3") == 4);
    CHECK(distance("eq.i16 id, imm(1s) -> mask 3", "pass.i16 lm0[0+1] -> lm1[0+1] | mask 4") == -1);
    CHECK(distance("mwrite.f16.2 x.0, lm0[0+2]", "mread.f16.2 x.0 -> lm1[0+2]") == 1);
    CHECK(distance("mread.f16.2 x.0 -> lm1[0+2]", "mwrite.f16.2 x.0, lm0[0+2]") == 1);
    CHECK(distance("base b1 = 64", "pass.i32 lm0[b1+0+1] -> lm1[0+1]") == 4);
}

TEST_CASE("in order, as early as the rules allow, merged where slots are free") {
    // Independent micro-ops share a word; a reader of a forward comes in the next step.
    CHECK(text(emit_in_order({op("l2.bcast l2bm[0] -> l1bm[0]"), op("l1.scatter l1bm[64] -> lm0[0+1]"),
                              op("l1.pe.1 l1bm[0]", "pass.i32 lbf -> grf0[0+1]"), op("pass.i32 lm0[0+1] -> lm1[0+1]")},
                             small)) == "l2.bcast l2bm[0] -> l1bm[0] | l1.scatter l1bm[64] -> lm0[0+1]\n"
                                        "nop\n"
                                        "l1.pe.1 l1bm[0]\n"
                                        "pass.i32 lbf -> grf0[0+1]\n"
                                        "pass.i32 lm0[0+1] -> lm1[0+1]\n");
}

TEST_CASE("folding keeps every step") {
    for (uint64_t seed = 0; seed < 200; seed++) {
        Random r(seed);
        // A nest of stretches, some of them regular.
        std::vector<Word> words;
        const int kinds = int(r.between(1, 3));
        for (int n = int(r.between(1, 5)); n > 0; n--) {
            const int outer = int(r.between(1, 4)), inner = int(r.between(1, 5));
            const int a = int(r.below(8)), b = int(r.below(5)), c = int(r.below(4));
            for (int i = 0; i < outer; i++)
                for (int j = 0; j < inner; j++)
                    for (int k = 0; k < kinds; k++) {
                        Word w;
                        const int x = a + i * b + j * c;
                        const Operand from = k == 2 ? listed(Source::Grf0, {x, x + 2, x + a, x + 1}) : grf0(x);
                        w.alu = {.op = AluOp::Pass, .type = sim::Type::I32, .a = w.read(from)};
                        w.alu.to = w.write({k == 0   ? lm0(i + 4 * j, 20)
                                            : k == 1 ? lm1(100 + i * c - j, 5)
                                                     : grf1(4 * i, 1)});
                        words.push_back(w);
                    }
        }
        const std::vector<Word> folded = fold(words, small);
        CHECK(folded.size() <= words.size());
        const auto run = [&](const std::vector<Word> &list) {
            Simulator s(small, {.undefined = Undefined::Zero, .hazards = false});
            for (int u = 0; u < small.total_pes(); u++)
                for (int x = 0; x < 64; x++) s.write(Simulator::Place::Grf0, u, x, uint64_t(u * 1000 + x));
            HostMemory memory(small);
            const sim::Run result = s.run({"small", list}, memory);
            std::vector<uint64_t> state = {result.cycles()};
            for (int x = 0; x < 256; x++)
                for (const auto place : {Simulator::Place::Lm0, Simulator::Place::Lm1})
                    state.push_back(s.read(place, 3, x));
            return state;
        };
        REQUIRE(run(folded) == run(words));
        CHECK(predict_cycles(words, small) == int64_t(run(words)[0]));
    }
}
