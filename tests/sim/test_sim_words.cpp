// Words: building, encoding, text and files, in both directions.
#include "tests/sim/random_program.h"

#include "sim/accesses.h"
#include "sim/assembler.h"
#include "sim/operations.h"
#include "sim/program.h"

#include <doctest/doctest.h>
#include <fstream>
#include <sstream>

using namespace kumiko;
using namespace kumiko::sim;

namespace {
const Config tiny = tiny_config();
}

TEST_CASE("random words survive encoding, text and files") {
    Random r(1);
    Program p;
    p.machine = "small";
    for (int i = 0; i < 20000; i++) {
        const Word w = random_word(r, tiny);
        CAPTURE(i);
        CAPTURE(disassemble(w));
        const EncodedWord bits = encode(w);
        const Word back = decode(bits);
        REQUIRE(back.same_code(w));
        REQUIRE(encode(back) == bits);
        const Word read = assemble_word(disassemble(w));
        REQUIRE(read.same_code(w));
        REQUIRE(read.note == w.note);
        p.words.push_back(w);
    }
    const std::string bytes = p.save();
    const Program loaded = Program::load(bytes, "p");
    REQUIRE(loaded.words.size() == p.words.size());
    CHECK(loaded.machine == "small");
    CHECK(loaded.save() == bytes);
    const Program assembled = assemble(disassemble(p), "p");
    CHECK(assembled.save() == bytes);
}

TEST_CASE("random bits are a word that encodes to them, or an error") {
    Random r(2);
    int words = 0;
    for (int i = 0; i < 20000; i++) {
        EncodedWord bits = encode(random_word(r, tiny));
        for (int flips = int(r.below(4)); flips >= 0; flips--)
            bits[r.below(encoded_words)] ^= uint64_t(1) << r.below(64);
        try {
            const Word w = decode(bits);
            REQUIRE(encode(w) == bits);
            words++;
        } catch (const UserError &) {
        }
    }
    CHECK(words > 1000);
}

TEST_CASE("a word is built slot by slot") {
    Word w;
    w.mau = {.op = MauOp::Mfma,
             .a = w.read(lm0(0, 1, {4, 0})),
             .c = w.read(grf0(0, 2)),
             .to = w.write({grf0(0, 2), t_register()})};
    w.mw = {.on = true, .face = 1, .from = w.read(lbf())};
    w.note = "C";
    CHECK(disassemble(w) == "mwrite.f16.2 y.0, lbf | mfma.f16 x, lm0[0+1 ^4], grf0[0+2] -> grf0[0+2], t | note \"C\"");
    CHECK_NOTHROW(check_word(w, tiny));
    CHECK(assemble_word(disassemble(w)).same_code(w));
    CHECK_THROWS_WITH_AS(w.read(lm0(1)), doctest::Contains("H5: the read port of LM0"), HazardError);
    CHECK_THROWS_WITH_AS(w.read(immediate_f32(1)), doctest::Contains("H7"), HazardError);
    CHECK_THROWS_WITH_AS(w.write({lm0(0)}), doctest::Contains("H1: the port of LM0"), HazardError);
    CHECK_THROWS_WITH_AS(w.write({aluf()}), doctest::Contains("aluf cannot be written"), UserError);
}

TEST_CASE("words merge when slots and ports allow") {
    const auto merged = [](const char *a, const char *b) {
        Word w = assemble_word(a);
        const auto why = merge(w, assemble_word(b));
        return why ? *why : disassemble(w);
    };
    CHECK(merged("l1.mab.2 l1bm[0]", "pass.i32 lm0[0] -> t") == "l1.mab.2 l1bm[0] | pass.i32 lm0[0] -> t");
    CHECK(merged("mfma.f16 x, lm0[0+1], grf0[0+2]", "pass.i32 lm0[0+1] -> lm1[0+1]") ==
          "mfma.f16 x, lm0[0+1], grf0[0+2] | pass.i32 lm0[0+1] -> lm1[0+1]");
    CHECK(merged("add.i32 t, t", "pass.i32 t") == "H4: the ALU slot");
    CHECK(merged("vmul.f32 lm0[0], t", "pass.i32 lm0[1]") == "H5: the read port of LM0");
    CHECK(merged("vmul.f32 lm0[0], t", "pass.i32 t -> lm0[0+1]") == "H1: the port of LM0");
    CHECK(merged("vmul.f32 t, t -> grf0[0+1]", "pass.i32 t -> grf0[8+1]") == "H1: the write port of GRF0");
    CHECK(merged("vmul.f32 t, t -> t", "pass.i32 t -> t") == "H1: the write port of T");
    CHECK(merged("vmul.f32 lm0[0], t", "pass.i32 imm(1i)") == "H7: an immediate takes LM0's place");
    CHECK(merged("vmul.f32 t, imm(2i)", "pass.i32 imm(1i)") == "H7: the immediate");
    CHECK(merged("mfma.f16 x, t, t", "mwrite.f16.2 x.0, lbf") == "H6: a face read and written");
    CHECK(merged("mfma.f16 x, t, t", "mwrite.f32.2 y.0, lbf") == "H4: MAU and MW of different precision");
    CHECK(merged("vmul.f32 t, t | mask 3", "pass.i32 t") == "H8: a mask governs both ALU and MAU");
    CHECK(merged("vmul.f32 t, t | mask 3", "pass.i16 t | mask 3") == "H8: lanes of different width");
    Word a = assemble_word("wait 1 | note \"a\""), b = assemble_word("pass.i32 t | note \"b\"");
    CHECK(!merge(a, b));
    CHECK(a.note == "a; b");
}

TEST_CASE("the text form says what it means") {
    CHECK(disassemble(assemble_word("nop")) == "nop");
    CHECK(disassemble(assemble_word("pass.i32 imm(1.5f) -> t")) == "pass.i32 imm(0x3fc000003fc00000) -> t");
    CHECK(disassemble(assemble_word("pass.i32 imm(1.5h)")) == "pass.i32 imm(0x3e003e003e003e00)");
    CHECK(disassemble(assemble_word("pass.i32 imm(-1s)")) == "pass.i32 imm(0xffffffffffffffff)");
    CHECK(disassemble(assemble_word("pass.i32 imm(7i)")) == "pass.i32 imm(0x700000007)");
    const Program p = assemble("; a comment\n.machine full\n\n  rep 2,2 | nop ; twice\n pass.i32 t\nend\n", "p");
    CHECK(p.machine == "full");
    CHECK(p.words.size() == 3);
    CHECK(disassemble(p) == ".machine full\nrep 2,2\n  pass.i32 t\nend\n");
    for (const char *line : {
             "lt.f32 lm0[b2+5-1 ^8 ^-64], aluf -> grf1[1,2,3,4], mask 7",
             "l1.scatter l1bm[64 ^8] {0,2-3} -> lm0[t+8+1]",
             "l1.reduce4.2.max.i32 mreadf -> l1bm[0]",
             "l2.multicast l1bm[128] -> l1bm[0] {1-2}, child 1",
             "l2.bcast2 l2bm[0], l2bm[64] -> l1bm[0]",
             "mv.reduce.add.f32 l2bm[0] -> dram[64], chip, size 2, groups {1}, l2bs {0-3}, tag 15",
             "mv.scatter dram[0] -> l2bm[0], size 1, table 4096, tag 0",
             "mv.copy l2bm[0] -> l2bm[128], child 2, size 1, tag 3",
             "mfma.f32.neg y.1, t, mauf -> lm1[0+1]",
             "vpass.f16.2.hy grf0[0+2] -> grf1[0+1]",
             "wait 3 | rep 4,2 | rep 2,1 | base b1 += -8 | select.i16 t, id -> t | mask sel !17",
         })
        CHECK(disassemble(assemble_word(line)) == line);
}

TEST_CASE("docs/chip.md has the tables of operations") {
    std::ifstream in(KUMIKO_SOURCE_DIR "/docs/chip.md");
    std::stringstream text;
    text << in.rdbuf();
    const std::string page = operations_page();
    if (text.str().find(page) == std::string::npos) {
        std::ofstream(KUMIKO_BINARY_DIR "/chip_operations.md") << page;
        FAIL("docs/chip.md does not have the operations' tables as they are; the fresh ones are in " KUMIKO_BINARY_DIR
             "/chip_operations.md");
    }
}

TEST_CASE("an operation computed lane by lane has a meaning for each of its types, and only for these") {
    for (int op = 1; op < alu_op_count; op++) {
        const AluInfo &i = info(AluOp(op));
        for (int t = 0; t < type_count; t++) {
            if (i.result == AluResult::Whole) continue;
            CAPTURE(i.name);
            CAPTURE(name_of(Type(t)));
            if (i.types >> t & 1) CHECK_NOTHROW(alu_lane(AluOp(op), Type(t), 1, 2));
        }
    }
    CHECK_THROWS_AS(alu_lane(AluOp::Rotate, Type::F32, 1, 2), InternalError);
}

TEST_CASE("the accesses of a word") {
    const Config small = Config::load("small");
    const auto text = [&](const char *line) {
        constexpr const char *names[resource_count] = {"lm0",  "lm1",  "grf0", "grf1", "t",       "mask",
                                                       "base", "face", "l1bm", "l2bm", "forward", "move"};
        Accesses all;
        accesses(assemble_word(line), small, all);
        std::string s;
        for (const Access &a : all) {
            s += (s.empty() ? "" : "; ") + std::string(a.write ? "write " : "read ") + names[int(a.resource)];
            for (int i = 0; i < a.count; i++) s += " " + std::to_string(a.at[size_t(i)]);
            if (a.width > 1) s += " by " + std::to_string(a.width);
        }
        return s;
    };
    CHECK(text("l1.scatter l1bm[64] -> lm0[8+1]") == "read l1bm 64 by 32; write lm0 8 9 10 11; write forward 2");
    CHECK(text("mfma.f16 y, lm0[0+1], grf0[0+2] -> grf0[8+2], t") ==
          "read lm0 0 1 2 3; read grf0 0 2 4 6 by 2; write grf0 8 10 12 14 by 2; write t 0 by 8; write forward 1; "
          "read face 1");
    CHECK(text("narrow.f32 grf0[0,9,4,2] -> lm1[0+1]") == "read grf0 0 9 4 2 by 2; write lm1 0 1 2 3; write forward 0");
    CHECK(text("pass.i32 lm0[b1+t+0+1] -> grf0[0+1]") ==
          "read base 1; read t 0 by 8; read lm0 0 by 256; write grf0 0 1 2 3; write forward 0");
    CHECK(text("l2.bcast2 l2bm[0], l2bm[128] -> l1bm[64]") ==
          "write l1bm 64 by 64; read l2bm 0 by 64; read l2bm 128 by 64");
    CHECK(text("l2.multicast l1bm[0] -> l1bm[64], child 1") == "write l1bm 64 by 64; read l1bm 0 by 64");
    CHECK(text("wait 3 | mv.copy l2bm[0] -> l2bm[64], child 0, tag 2") ==
          "read move 3; write l2bm 0 by 4096; write move 2; read l2bm 0 by 64; write l2bm 64 by 64");
    CHECK(text("eq.i16 id, imm(1s) -> mask 3") == "write forward 0; write mask 3");
    CHECK(text("pass.i16 grf0[0+1] -> t | mask !3") ==
          "read grf0 0 1 2 3; write t 0 by 8; write forward 0; read mask 3");
}
