// Each of the ten hazard rules, and every other way in which a program may be wrong: one wrong
// program and the error's text.
#include "sim/simulator.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::sim;

namespace {

std::string error_of(const std::string &text, const Config &config, bool zero = true) {
    HostMemory memory(config);
    const std::vector<uint64_t> words(4096);
    memory.write_dram(0, 0, words);
    SimulateOptions o;
    o.undefined = zero ? Undefined::Zero : Undefined::Error;
    o.max_steps = 100000;
    try {
        simulate(assemble(text, "p.kasm"), config, memory, o);
    } catch (const std::exception &e) {
        return e.what();
    }
    return "no error";
}
std::string error_of(const std::string &text, bool zero = true) { return error_of(text, Config::load("small"), zero); }

Rule rule_of(const std::string &text) {
    HostMemory memory(Config::load("small"));
    try {
        SimulateOptions o;
        o.undefined = Undefined::Zero;
        simulate(assemble(text, "p.kasm"), Config::load("small"), memory, o);
    } catch (const HazardError &e) {
        return e.rule;
    }
    return Rule(0);
}

} // namespace

TEST_CASE("H1: one access to an LM, one slot on a write port, one write to an address") {
    CHECK(error_of("pass.i32 lm0[0+1] -> lm0[8+1]") ==
          "p.kasm:1:22: H1: the port of LM0: it is in use in this word, and is accessed once a step\n"
          "  pass.i32 lm0[0+1] -> lm0[8+1]\n  pass.i32 lm0[0+1] -> lm0[8+1]");
    CHECK(rule_of("vmul.f32 t, t -> grf0[0+1] | pass.i32 t -> grf0[8+1]") == Rule::H1);
    CHECK(rule_of("vmul.f32 t, t -> t | pass.i32 t -> t") == Rule::H1);
    CHECK(error_of("pass.i32 t -> grf1[4]") ==
          "H1: GRF1[4]: it is written in cycles 0 and 1 of one step\n  step 0, word "
          "0: pass.i32 t -> grf1[4]\n  step 0, word 0: pass.i32 t -> grf1[4]");
    CHECK(rule_of("pass.i32.2 t -> grf1[4+1]") == Rule::H1);
    CHECK(error_of("l1.gather t -> l1bm[0] | l2.bcast l2bm[0] -> l1bm[16]") ==
          "H1: L1BM[16..31]: it is written twice in one step\n  step 0, word 0: l1.gather t -> l1bm[0]\n"
          "  step 0, word 0: l2.bcast l2bm[0] -> l1bm[16]");
    // A word built without the helpers is checked when it runs.
    Word w = assemble_word("vmul.f32 t, t -> grf0[0+1]");
    w.alu = {.op = AluOp::Pass, .a = Source::T, .to = ToGrf0};
    CHECK_THROWS_WITH_AS(check_word(w),
                         "H1: the write port of GRF0: it serves one slot a step\n  vmul.f32 t, t -> grf0[0+1]\n"
                         "  pass.i32 t -> grf0[0+1]",
                         HazardError);
    w = assemble_word("vmul.f32 lm0[0], t");
    w.alu = {.op = AluOp::Pass, .a = Source::T, .to = ToLm0};
    CHECK_THROWS_WITH_AS(check_word(w), doctest::Contains("H1: the port of LM0: it is accessed once a step"),
                         HazardError);
}

TEST_CASE("H2: no read of an LM for two steps after a write to it") {
    CHECK(error_of("nop\npass.i32 id -> lm1[0+1] | note \"store x\"\nnop\nadd.i32 lm1[200], t | note \"load y\"") ==
          "H2: LM1: written at step 1, it may be read from step 4, and is read at step 3\n"
          "  step 1, word 1: pass.i32 id -> lm1[0+1] (store x)\n  step 3, word 3: add.i32 lm1[200], t (load y)");
    CHECK(rule_of("l1.scatter l1bm[0] -> lm0[0+1]\nl1.gather lm0[8] -> l1bm[64]") == Rule::H2);
    // Across the iterations of a REP, and across its end.
    CHECK(rule_of("rep 2,3 | pass.i32 lm1[0] -> t\nnop\npass.i32 id -> lm1[0+1]") == Rule::H2);
    CHECK(rule_of("rep 1,3 | pass.i32 lm1[0] -> t\nnop\npass.i32 id -> lm1[0+1]") == Rule(0));
    CHECK(rule_of("rep 2,1 | pass.i32 id -> lm1[0+1 ^4]\npass.i32 lm1[0]") == Rule::H2);
}

TEST_CASE("H3: the same address too early") {
    CHECK(error_of("vmul.f32 t, t -> grf0[8+1]\nnop\nvmul.f32 grf0[5+2], t") ==
          "H3: GRF0[9]: written at step 0, it may be read from step 3, and is read at step 2\n"
          "  step 0, word 0: vmul.f32 t, t -> grf0[8+1]\n  step 2, word 2: vmul.f32 grf0[5+2], t");
    CHECK(rule_of("pass.i32 id -> t\npass.i32 t") == Rule::H3);
    CHECK(error_of("eq.i32 id, id -> mask 3\npass.i32 id -> t | mask 3") ==
          "H3: mask entry 3: written at step 0, it may be read from step 4, and is read at step 1\n"
          "  step 0, word 0: eq.i32 id, id -> mask 3\n  step 1, word 1: pass.i32 id -> t");
    CHECK(rule_of("base b0 = 1\npass.i32 lm0[b0+1]") == Rule::H3);
    CHECK(error_of("l1.gather id -> l1bm[0]\nl2.gather l1bm[16] -> l2bm[0]") ==
          "H3: L1BM[16..31]: written at step 0, it may be read from step 3, and is read at step 1\n"
          "  step 0, word 0: l1.gather id -> l1bm[0]\n  step 1, word 1: l2.gather l1bm[16] -> l2bm[0]");
    CHECK(rule_of("l2.gather l1bm[0] -> l2bm[0]\nmv.gather l2bm[0] -> dram[0], size 1, tag 0") == Rule::H3);
    CHECK(rule_of("rep 4,2 | l1.gather id -> l1bm[0 ^32]\nl1.pe.1 l1bm[32 ^32]") == Rule(0));
    CHECK(rule_of("rep 4,2 | l1.gather id -> l1bm[0 ^32]\nl1.pe.1 l1bm[0 ^32]") == Rule::H3);
}

TEST_CASE("H4: one operation a slot, two of MAU, MW, MR, one precision, moves apart") {
    CHECK(error_of("add.i32 t, t | sub.i32 t, t") ==
          "p.kasm:1:16: H4: the ALU slot: it holds one operation per word\n  add.i32 t, t\n  sub.i32 t, t");
    CHECK(error_of("mmul.f16 x, t | mwrite.f16.2 y.0, t | mread.f16.2 x.0") ==
          "p.kasm:1:1: H4: MAU, MW, MR: at most two of them work in a step\n  mmul.f16 x, t\n  mread.f16.2 x.0");
    CHECK(error_of("mmul.f16 x, t | mwrite.f32.2 y.0, t") ==
          "p.kasm:1:1: H4: the matrix unit's precision: MAU and MW must have the same precision in a step\n  mmul.f16 "
          "x, t\n  "
          "mwrite.f32.2 y.0, t");
    const std::string mv = "mv.bcast dram[0] -> l2bm[0], size 1, tag 0\n",
                      other = "mv.bcast dram[0] -> l2bm[64], size 1, tag 0\n";
    CHECK(
        error_of(mv + "nop\nnop\n" + other) ==
        "H4: the MV slot: it issues one move in 4 steps\n  step 0, word 0: mv.bcast dram[0] -> l2bm[0], size 1, tag 0\n"
        "  step 3, word 3: mv.bcast dram[0] -> l2bm[64], size 1, tag 0");
    CHECK(rule_of(mv + "nop\nnop\nnop\n" + other) == Rule(0));
}

TEST_CASE("H5: slots that share a read port read the same addresses") {
    CHECK(error_of("vmul.f32 grf0[0+1], t | add.i32 grf0[0+2], t") ==
          "p.kasm:1:33: H5: the read port of GRF0: it serves one address pattern a step\n  vmul.f32 grf0[0+1], t\n  "
          "add.i32 grf0[0+2], t");
    CHECK(rule_of("vmul.f32 lm0[0+1], t | add.i32 lm0[0], t") == Rule::H5);
    CHECK(rule_of("vmul.f32 lm0[0+1], t | add.i32 lm0[0+1], t") == Rule(0));
    // T addresses are never shared
    CHECK(rule_of("vmul.f32 lm0[t+1], t | add.i32 lm0[t+1], t") == Rule::H5);
}

TEST_CASE("H6: a face read and written, or read in part") {
    CHECK(error_of("mmul.f16 x, t | mwrite.f16.2 x.0, t") ==
          "p.kasm:1:1: H6: face x: a face cannot be read and written in one step\n  mmul.f16 x, t\n  mwrite.f16.2 x.0, "
          "t");
    CHECK(rule_of("mread.f16.2 y.0 | mwrite.f16.2 y.0, t") == Rule::H6);
    CHECK(error_of("mwrite.f16.2 x.0, t\nmmul.f16 x, t") ==
          "H6: face x: only its rows 0 to 7 have been written\n  step 0, word 0: mwrite.f16.2 x.0, t\n"
          "  step 1, word 1: mmul.f16 x, t");
    CHECK(error_of("mwrite.f16.1 x.1, t\nmwrite.f16.1 x.3, t\nmmul.f16 x, t")
              .starts_with("H6: face x: only its rows 4 to 7, 12 to 15 have been written\n  step 1, word 1: "));
    CHECK(rule_of("mwrite.f16.2 x.0, t\nmwrite.f16.2 x.1, t\nmmul.f16 x, t") == Rule(0));
    // Starting again leaves it partly written again.
    CHECK(rule_of("mwrite.f16.2 x.0, t\nmwrite.f16.2 x.1, t\nmwrite.f16.2 x.0, t\nmmul.f16 x, t") == Rule::H6);
    CHECK(error_of("mmul.f16 y, t") == "step 0, word 0: mmul.f16 y, t: it reads face y, which was never written");
    CHECK(error_of("mwrite.f32.2 y.0, t\nmmul.f16 y, t") ==
          "step 1, word 1: mmul.f16 y, t: it reads face y as f16, which was written as f32");
}

TEST_CASE("H7: an immediate excludes LM0") {
    CHECK(error_of("add.i32 lm0[0], imm(1i)") ==
          "p.kasm:1:17: H7: the field of LM0: an immediate is encoded in LM0's field of the word\n  add.i32 lm0[0], "
          "imm(1i)\n  add.i32 lm0[0], imm(1i)");
    CHECK(error_of("vmul.f32 t, imm(2f) | pass.i32 imm(1i)") ==
          "p.kasm:1:32: H7: the immediate: a word has one, which all slots share\n  vmul.f32 t, imm(2f)\n  pass.i32 "
          "imm(1i)");
    CHECK(rule_of("pass.i32 imm(1i) | vmul.f32 t, t -> lm0[0+1]") == Rule::H7);
}

TEST_CASE("H8: one mask entry and width") {
    CHECK(error_of("pass.i32 t | mask 1 | mask 2") ==
          "p.kasm:1:23: H8: the mask slot: a word has one mask entry\n  mask 1\n  mask 2");
    CHECK(error_of("vmul.f32 t, t | pass.i16 t | mask 17") ==
          "p.kasm:1:1: H8: the mask: ALU and MAU under one mask must have lanes of the same width\n  vmul.f32 t, t\n  "
          "pass.i16 t");
    CHECK(rule_of("vmul.f16 t, t | pass.i16 t | mask 17") == Rule(0));
}

TEST_CASE("H9: what a move owns until its wait") {
    const std::string load = "mv.bcast dram[0] -> l2bm[0], size 1, tag 4\n",
                      store = "mv.gather l2bm[0] -> dram[64], size 1, tag 4\n";
    CHECK(
        error_of(load + "l2.bcast l2bm[32] -> l1bm[0]") ==
        "H9: L2BM[32..95]: the move with tag 4 writes it until a wait for that tag\n"
        "  step 0, word 0: mv.bcast dram[0] -> l2bm[0], size 1, tag 4\n  step 1, word 1: l2.bcast l2bm[32] -> l1bm[0]");
    CHECK(rule_of(load + "l2.bcast l2bm[64] -> l1bm[0]") == Rule(0));
    CHECK(rule_of(load + "wait 4 | l2.bcast l2bm[32] -> l1bm[0]") == Rule(0));
    // whatever the timing
    CHECK(rule_of(load + "rep 200,1 | nop\nl2.bcast l2bm[32] -> l1bm[0]") == Rule::H9);
    CHECK(rule_of(load + "l2.gather l1bm[0] -> l2bm[0]") == Rule::H9);
    // reading its source is allowed
    CHECK(rule_of(store + "l2.bcast l2bm[0] -> l1bm[0]") == Rule(0));
    CHECK(error_of(store + "l2.gather l1bm[0] -> l2bm[0]") ==
          "H9: L2BM[0..63]: the move with tag 4 reads it until a wait for that tag\n"
          "  step 0, word 0: mv.gather l2bm[0] -> dram[64], size 1, tag 4\n  step 1, word 1: l2.gather l1bm[0] -> "
          "l2bm[0]");
    const std::string rest = "nop\nnop\nnop\n";
    CHECK(error_of(store + rest + "mv.bcast dram[112] -> l2bm[512], size 1, tag 5") ==
          "H9: the words of a move: no wait for tag 4 is between these two moves, which overlap\n"
          "  step 0, word 0: mv.gather l2bm[0] -> dram[64], size 1, tag 4\n"
          "  step 4, word 4: mv.bcast dram[112] -> l2bm[512], size 1, tag 5");
    CHECK(rule_of(store + rest + "mv.bcast dram[128] -> l2bm[512], size 1, tag 5") == Rule(0));
    // Blocks between blocks do not overlap.
    const std::string even = "mv.gather l2bm[0] -> dram[0], blocks 8, size 1, stride 128, tag 4\n" + rest;
    CHECK(rule_of(even + "mv.gather l2bm[512] -> dram[64], blocks 8, size 1, stride 128, tag 5") == Rule(0));
    CHECK(rule_of(even + "mv.gather l2bm[512] -> dram[80], blocks 8, size 1, stride 128, tag 5") == Rule::H9);
    CHECK(rule_of(even + "mv.bcast dram[960] -> l2bm[512], size 1, tag 5") == Rule(0));
    CHECK(rule_of(even + "mv.bcast dram[896] -> l2bm[512], size 1, tag 5") == Rule::H9);
    CHECK(rule_of(even + "mv.bcast dram[1024] -> l2bm[512], size 1, tag 5") == Rule(0));
    CHECK(rule_of(even + "mv.bcast dram[976] -> l2bm[512], blocks 8, size 1, stride -128, tag 5") == Rule::H9);
    CHECK(rule_of(even + "mv.bcast dram[960] -> l2bm[512], blocks 8, size 1, stride -128, tag 5") == Rule(0));
}

TEST_CASE("H10: a forward lives one step") {
    CHECK(error_of("pass.i32 id\nnop\npass.i32 aluf") ==
          "H10: aluf: made at step 0, it may be read at step 1 only, and is read at step 2\n"
          "  step 0, word 0: pass.i32 id\n  step 2, word 2: pass.i32 aluf");
    CHECK(error_of("pass.i32 mauf") ==
          "H10: mauf: no slot has produced it; a forward can be read only in the step after it was produced\n"
          "  (no instruction)\n  step 0, word 0: pass.i32 mauf");
    CHECK(error_of("l1.pe.1 l1bm[0]\npass.i32.2 lbf") == "H10: lbf: it holds 1 LW a cycle, and 2 are read\n  step 0, "
                                                         "word 0: l1.pe.1 l1bm[0]\n  step 1, word 1: pass.i32.2 lbf");
    CHECK(rule_of("pass.i32 aluf") == Rule::H10);
    CHECK(rule_of("rep 2,2 | pass.i32 id\npass.i32 aluf") == Rule(0));
}

TEST_CASE("addresses outside their memory") {
    CHECK(error_of("pass.i32 lm0[250+2]") ==
          "step 0, word 0: pass.i32 lm0[250+2]: cycle 3 addresses LM0[256], and LM0 has 256 LW");
    CHECK(error_of("pass.i32.2 grf1[63] | note \"x\"") ==
          "step 0, word 0: pass.i32.2 grf1[63]: cycle 0 addresses GRF1[63..64], and GRF1 has 64 LW (x)");
    CHECK(error_of("pass.i32 id -> grf0[2-1]") ==
          "step 0, word 0: pass.i32 id -> grf0[2-1]: cycle 3 addresses GRF0[-1], and GRF0 has 64 LW");
    CHECK(error_of("rep 20,1 | pass.i32 lm1[0+1 ^16]") ==
          "step 16, word 0: pass.i32 lm1[0+1 ^16]: cycle 0 addresses LM1[256], and LM1 has 256 LW");
    CHECK(error_of("base b0 = -5\nnop\nnop\nnop\npass.i32 lm0[b0+4]") ==
          "step 4, word 4: pass.i32 lm0[b0+4]: cycle 0 addresses LM0[-1], and LM0 has 256 LW");
    CHECK(error_of("pass.i32 imm(250i) -> t\nnop\nnop\npass.i32 lm0[t+4+2]") ==
          "step 3, word 3: pass.i32 lm0[t+4+2]: PE 0 addresses LM0[256] in cycle 1 by T, and LM0 has 256 LW");
    CHECK(error_of("l1.scatter l1bm[490]") ==
          "step 0, word 0: l1.scatter l1bm[490]: addresses 490..521 are outside L1BM of 512 LW");
    CHECK(error_of("l2.bcast l2bm[4090] -> l1bm[0]") ==
          "step 0, word 0: l2.bcast l2bm[4090] -> l1bm[0]: addresses 4090..4153 are outside L2BM of 4096 LW");
    CHECK(error_of("mv.bcast dram[2097152] -> l2bm[0], size 1, tag 0") ==
          "word 0: mv.bcast dram[2097152] -> l2bm[0], size 1, tag 0: addresses 2097152..2097215 are outside DRAM of "
          "2097152 LW");
    CHECK(error_of("mv.bcast dram[0] -> l2bm[4064], size 1, tag 0") ==
          "word 0: mv.bcast dram[0] -> l2bm[4064], size 1, tag 0: addresses 4064..4127 are outside L2BM of 4096 LW");
}

TEST_CASE("reads of unwritten words") {
    CHECK(error_of("pass.i32 lm0[7]", false) ==
          "step 0, word 0: pass.i32 lm0[7]: it reads LM0[7] of PE 0, which was never written");
    CHECK(error_of("pass.i32 t", false) == "step 0, word 0: pass.i32 t: it reads T of PE 0, which was never written");
    CHECK(error_of("pass.i32 id -> grf0[0+1] | mask 17\nnop\nnop\npass.i32 grf0[0]", false) ==
          "step 3, word 3: pass.i32 grf0[0]: it reads GRF0[0] of PE 0, which was never written");
    CHECK(
        error_of("pass.i32 id -> grf0[0+1] | mask 17\npass.i32 id -> grf0[0+1] | mask !17\nnop\nnop\npass.i32 grf0[0]",
                 false) == "no error");
    CHECK(error_of("pass.i32 id -> grf0[0+1] | mask zero 17\nnop\nnop\npass.i32 grf0[0]", false) == "no error");
    CHECK(error_of("l1.pe.1 l1bm[5]", false) ==
          "step 0, word 0: l1.pe.1 l1bm[5]: it reads L1BM[5] of L1B 0, which was never written");
    CHECK(error_of("l2.bcast l2bm[5] -> l1bm[0]", false) ==
          "step 0, word 0: l2.bcast l2bm[5] -> l1bm[0]: it reads L2BM[5] of L2B 0, which was never written");
    CHECK(error_of("mv.bcast dram[4080] -> l2bm[0], size 1, tag 0", false) ==
          "step 0, word 0: mv.bcast dram[4080] -> l2bm[0], size 1, tag 0: it reads DRAM[4096] of group 0, which was "
          "never written");
    CHECK(error_of("pass.i32 id -> t | mask 5", false) == "step 0, word 0: mask 5: entry 5 of PE 0 was never written");
    CHECK(error_of("l1.gather id -> l1bm[0]\nnop\nnop\nl1.pe.1 l1bm[0] {1}\npass.i32 lbf", false) ==
          "step 4, word 4: pass.i32 lbf: it reads lbf in MABs that the L1 slot of the previous step did not serve");
    CHECK(error_of("l1.gather id -> l1bm[0] {0}\nnop\nnop\nl1.scatter l1bm[0] {0} -> t", false) == "no error");
    CHECK(error_of("l1.gather id -> l1bm[0] {0}\nnop\nnop\nl1.scatter l1bm[0] {0-1} -> t", false) ==
          "step 3, word 3: l1.scatter l1bm[0] {0-1} -> t: it reads L1BM[4] of L1B 0, which was never written");
}

TEST_CASE("waits, reps, the end") {
    CHECK(error_of("wait 9") == "step 0, word 0: wait 9: no move with tag 9 was issued before");
    CHECK(error_of("rep 2,1 | wait 1") == "word 0: a wait is inside a rep");
    CHECK(error_of("rep 2,2 | nop\nmv.bcast dram[0] -> l2bm[0], size 1, tag 0") == "word 1: a move is inside a rep");
    CHECK(error_of("rep 2,1 | end") == "word 0: the end is inside a rep");
    CHECK(error_of("end\nnop") == "word 0: the end is before the last word");
    CHECK(error_of("nop\nrep 2,2 | nop") == "word 1: its rep of 2 words extends beyond the program's end");
    CHECK(error_of("rep 2,2 | nop\nrep 2,2 | nop\nnop") ==
          "word 1: its rep of 2 words extends beyond the end of the enclosing rep");
    CHECK(error_of("rep 2,3 | nop\nrep 2,2 | nop\nrep 2,1 | nop") ==
          "word 2: reps are nested 3 deep; 2 is possible on small");
    CHECK(error_of("rep 2,65 | nop") == "word 0: rep 2,65: a rep has at most 64 words on small");
    CHECK(error_of("rep 1000000,1 | nop") == "the program runs for more than 100000 steps");
}

TEST_CASE("units that are not there, moves that cannot be") {
    CHECK(error_of("l1.scatter l1bm[0] {0-2}") ==
          "word 0: l1.scatter l1bm[0] {0-2}: there is no MAB 2 on small, which has 2");
    CHECK(error_of("l1.mab4.1 l1bm[0]") ==
          "word 0: l1.mab4.1 l1bm[0]: 4×4 mode needs a multiple of four MABs, and small has 2 in an L1B");
    CHECK(error_of("l2.down l2bm[0] -> l1bm[0], child 2") ==
          "word 0: l2.down l2bm[0] -> l1bm[0], child 2: there is no L1B 2 on small, which has 2");
    const std::string mv = "mv.bcast dram[8] -> l2bm[0], size 1, tag 0";
    CHECK(error_of(mv) == "word 0: " + mv + ": addresses and strides of DRAM are multiples of 16 LW");
    CHECK(error_of("mv.gather l2bm[0] -> dram[0], blocks 2, size 2, stride 64, tag 0")
              .find("its blocks overlap in the destination") != std::string::npos);
    CHECK(error_of("mv.bcast dram[0] -> l2bm[0], size 1, groups {1}, tag 0").find("there is no group 1 on small") !=
          std::string::npos);
    CHECK(error_of("mv.scatter dram[0] -> l2bm[0], size 3, tag 0", Config::load("medium"))
              .find("3 blocks of 64 LW cannot be distributed evenly to 2 L2Bs") != std::string::npos);
    CHECK(error_of("mv.bcast dram[0] -> l2bm[0], size 1, chip, tag 0", Config::load("full"))
              .find("names the one group whose memory it uses") != std::string::npos);
    CHECK(error_of("mv.bcast pdm[0] -> l2bm[0], size 1, table 0, tag 0").find("only moves of DRAM can be indirect") !=
          std::string::npos);
}
