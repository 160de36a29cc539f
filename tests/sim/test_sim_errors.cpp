// Wrong texts, files and configurations: the place, the reason, and what is legal.
#include "sim/simulator.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

using namespace kumiko;
using namespace kumiko::sim;

namespace {

template<typename F>
std::string error_of(F &&f) {
    try {
        f();
    } catch (const UserError &e) {
        return e.what();
    }
    return "no error";
}
std::string text_error(const std::string &text) {
    return error_of([&] { assemble(text, "p"); });
}

// The small configuration with one number changed.
std::string config_error(const std::string &path, const Json &value) {
    Json j = Config::load("small").to_json();
    j["expect"] = {{"total_mabs", 4}};
    if (value.is_null())
        j.erase(path);
    else
        j[Json::json_pointer(path)] = value;
    return error_of([&] { Config::from_json(j, "my.json"); });
}

} // namespace

TEST_CASE("texts: line, column, cause") {
    CHECK(text_error("nop\n  vfam.f32 t, t, t") == "p:2:3: there is no operation 'vfam' (did you mean 'vfma'?)");
    CHECK(text_error("add.i32 t, lm2[0]") == "p:1:12: there is no operand 'lm2' (did you mean 'lm0'?)");
    CHECK(text_error("add.i32 t") == "p:1:10: expected ',' before the next operand, found the end of the line");
    CHECK(text_error("add t, t") == "p:1:1: add needs a type after it: i16, u16, i32, u32");
    CHECK(text_error("add.f32 t, t") == "p:1:1: add.f32 t, t: add does not take f32; it takes i16, u16, i32, u32");
    CHECK(text_error("add.i32.2 t, t") == "p:1:1: add.i32.2 t, t: width 2 is not in 1..1");
    CHECK(text_error("add.i32.3 t, t") ==
          "p:1:1: '3' is not legal after add; legal are a type and a width of 1 or 2 LW");
    CHECK(text_error("pass.i32 lm0[70000]") == "p:1:14: an address must be in 0..65535, found 70000");
    CHECK(text_error("pass.i32 lm0[99999999999999999999]") ==
          "p:1:14: an address must be in 0..65535, found 99999999999999999999");
    CHECK(text_error("pass.i32 lm0[1,2,3]") == "p:1:19: expected ',' between the four addresses, found ']'");
    CHECK(text_error("pass.i32 lm0[") == "p:1:14: expected an address, found the end of the line");
    CHECK(text_error("pass.i32 imm(12)") ==
          "p:1:14: an immediate is 0x… (64 bits), or a number with its type after it: 1.5f (fp32), 1.5h (fp16), "
          "7i (int32), 7s (int16); found '12'");
    CHECK(text_error("pass.i32 imm(70000s)").find("found '70000s'") != std::string::npos);
    CHECK(text_error("pass.i32 t -> aluf") == "p:1:15: aluf cannot be written; lm0, lm1, grf0, grf1 and t can");
    CHECK(text_error("pass.i32 t -> t, t") == "p:1:18: it is written twice");
    CHECK(text_error("pass.i32 t t") == "p:1:12: expected '|' or the end of the line, found 't'");
    CHECK(text_error("eq.i32 t, t -> mask 0") == "p:1:21: a mask entry that can be written must be in 1..15, found 0");
    CHECK(text_error("wait 16") == "p:1:6: a tag must be in 0..15, found 16");
    CHECK(text_error("rep 0,1") == "p:1:5: a rep's count must be in 1..4294967295, found 0");
    CHECK(text_error("rep 2,2 | rep 2,3 | nop") ==
          "p:1:1: rep 2,2 | rep 2,3: the inner rep has 3 words, but the outer only 2");
    CHECK(text_error("rep 2,2 | rep 2,2 | rep 2,2") == "p:1:21: a word begins at most two reps");
    CHECK(text_error("note \"abc") == "p:1:6: the quoted text has no end: a double quote is missing");
    CHECK(text_error(".machin full") == "p:1:2: there is no directive '.machin'; there is .machine NAME");
    CHECK(text_error("mwrite.f16.2 z.0, lbf") == "p:1:14: expected a face, x or y, found 'z.0'");
    CHECK(text_error("mwrite.f16.2 x.2, lbf") == "p:1:1: mwrite.f16.2 x.2, lbf: part 2 is not in 0..1");
    CHECK(text_error("l1.reduce.2 t -> l1bm[0]") ==
          "p:1:1: l1.reduce needs a reduction after it: add.f32, max.f32, min.f32, add.i32, max.i32 or min.i32");
    CHECK(text_error("l1.scatter.2 l1bm[0]") == "p:1:1: l1.scatter l1bm[0]: width 2 is not in 1..1");
    CHECK(text_error("l1.scatter l1bm[0] {3-1}") == "p:1:23: the last unit of a range must be in 3..31, found 1");
    CHECK(text_error("mv.bcast dram[0] -> l2bm[0], size 1") == "p:1:1: a move needs a tag: \", tag 3\"");
    CHECK(text_error("mv.bcast dram[0] -> l2bm[0], sise 1, tag 1") ==
          "p:1:30: a move has no 'sise' (did you mean 'size'?)");
    CHECK(text_error("select.i16 t, t") == "p:1:1: select.i16 t, t: select needs `mask sel N` in its word");
    CHECK(text_error("pass.i16 t | mask sel 1") ==
          "p:1:1: mask sel 1: `mask sel` is for select, which is not in this word");
    CHECK(text_error("mask 1") == "p:1:1: mask 1: a mask controls ALU and MAU, and neither is in this word");
    CHECK(text_error("setmask.i16 t -> mask 1") == "p:1:1: setmask.i16 t -> mask 1: its operand is an immediate");
    CHECK(text_error("pass.i32 grf0[b0+1]") == "p:1:1: base registers add to addresses of LM0 and LM1 only");
    CHECK(text_error("pass.i32 lm1[t+1]") == "p:1:1: only LM0 can be addressed by T");
}

TEST_CASE("files: the byte where they go wrong") {
    const std::string good = assemble("rep 3,1 | add.i32 t, id -> grf0[0+1] | note \"n\"\nend", "p").save();
    const auto load = [](const std::string &bytes) { return error_of([&] { Program::load(bytes, "f"); }); };
    CHECK(load(good) == "no error");
    CHECK(load("") == "f: byte 0: this is not a program file");
    CHECK(load("KUMIKOCX1234") == "f: byte 8: this is not a program file");
    CHECK(load(good + "x") == "f: byte " + std::to_string(good.size()) + ": 1 bytes follow the last word");
    for (size_t n = 8; n < good.size(); n++) CHECK(load(good.substr(0, n)) != "no error");
    std::string many = good;
    many[16] = '\xff', many[22] = '\x7f'; // the number of words
    CHECK(load(many).find("words do not fit in the remaining") != std::string::npos);
    CHECK(error_of([] { Program::load_file("/nowhere/x.kasm"); }).find("cannot be read") != std::string::npos);
}

TEST_CASE("configurations that contradict themselves") {
    CHECK(config_error("/clock_ghz", 0.75) == "no error");
    CHECK(config_error("/mabs", 3) ==
          "my.json: /expect/total_mabs: the file expects 4, but groups 1 · l2bs 1 · l1bs 2 · mabs 3 = 6");
    CHECK(config_error("/sizes/l1bm", 32) == "my.json: the configuration is inconsistent: an L2 broadcast moves 64 "
                                             "LW in a step, but sizes/l1bm is 32 LW");
    CHECK(config_error("/sizes/l2bm", 40) ==
          "my.json: the configuration is inconsistent: an L2 scatter moves 64 LW in a step, but sizes/l2bm is 40 LW");
    CHECK(config_error("/moves/indirect_rate", 9) ==
          "my.json: the configuration is inconsistent: moves/indirect_rate 9 exceeds moves/dram_rate 8");
    CHECK(config_error("/moves/across_rate", 32) ==
          "my.json: the configuration is inconsistent: moves/across_rate 32 exceeds moves/l2bm_rate 16");
    CHECK(config_error("/moves/granule", 24) ==
          "my.json: the configuration is inconsistent: moves/block 64 is not a multiple of moves/granule 24");
    CHECK(config_error("/sizes/dram", 1000) ==
          "my.json: the configuration is inconsistent: sizes/dram 1000 LW is not a multiple of moves/block 64");
    CHECK(config_error("/groups", 0) == "my.json: /groups: expected a whole number from 1 to 16, found 0");
    CHECK(config_error("/clock_ghz", 0) == "my.json: clock_ghz must be above 0");
    CHECK(config_error("/clock_ghz", "fast") == "my.json: /clock_ghz: expected a number, found \"fast\"");
    CHECK(config_error("clock_ghz", nullptr).find("my.json: 'clock_ghz' is missing") == 0);
    CHECK(config_error("/sizes/lmm", 5).find("lmm") != std::string::npos);
    CHECK(
        error_of([] { Config::load("smal"); }) ==
        "there is no machine 'smal' (did you mean 'small'?); a configuration of your own is a file that ends in .json");
    for (const std::string &name : Config::names()) {
        const Config c = Config::load(name);
        CHECK(Config::from_json(c.to_json(), name).to_json() == c.to_json());
    }
    CHECK(Config::load("full").fp16_macs_per_cycle() == 262144);
}

TEST_CASE("the host's side") {
    const Config small = Config::load("small");
    HostMemory m(small);
    const std::vector<uint64_t> words(4);
    CHECK(error_of([&] { m.write_dram(1, 0, words); }) == "there is no group 1; there are 1");
    CHECK(error_of([&] { m.write_dram(0, 2097150, words); }) ==
          "addresses 2097150..2097153 are outside DRAM of 2097152 LW");
    m.write_dram(0, 16382, words);
    CHECK(m.all_defined(HostMemory::Space::Dram, 0, 16382, 4));
    CHECK(m.first_undefined(HostMemory::Space::Dram, 0, 16380, 6) == 16380);
    CHECK(m.first_undefined(HostMemory::Space::Dram, 0, 16382, 6) == 16386);
    CHECK(error_of([&] {
              SimulateOptions o;
              o.instructions = "avx3";
              Simulator(small, o);
          }).find("this machine cannot run host instructions 'avx3'") == 0);
    CHECK(error_of([&] {
              HostMemory other(Config::load("medium"));
              Simulator(small).run(Program{}, other);
          }) == "the memory was made for another machine");
}
