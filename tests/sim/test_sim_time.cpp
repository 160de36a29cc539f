// Exact cycles, from programs written by hand, on `small`.
#include "sim/simulator.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <atomic>
#include <thread>

using namespace kumiko;
using namespace kumiko::sim;

namespace {

const Config small = Config::load("small");

Run run(const std::string &text, const Config &c = small) {
    HostMemory memory(c);
    std::vector<uint64_t> words(8192, 0x3c003c003c003c00);
    for (int g = 0; g < c.groups; g++) {
        memory.write_dram(g, 0, words);
        memory.write(HostMemory::Space::Pdm, g, 0, std::span(words).first(1024));
    }
    SimulateOptions o;
    o.undefined = Undefined::Zero;
    o.max_steps = 100000;
    return simulate(assemble(text, "test"), c, memory, o);
}
uint64_t cycles(const std::string &text, const Config &c = small) { return run(text, c).cycles(); }

// The smallest number of empty words between two words without a hazard.
int gap(const std::string &first, const std::string &second, const std::string &before = "") {
    for (int n = 0; n < 8; n++) {
        std::string text = before + first + "\n";
        for (int i = 0; i < n; i++) text += "nop\n";
        try {
            run(text + second + "\n");
            return n;
        } catch (const HazardError &) {
        }
    }
    return 8;
}

} // namespace

TEST_CASE("a step is four cycles, and the tail lets results arrive") {
    CHECK(cycles("nop") == 4);
    CHECK(cycles("nop\nnop\nend") == 12);
    CHECK(cycles("pass.i32 imm(1i)") == 4); // a forward needs no more
    CHECK(cycles("pass.i32 imm(1i) -> t") == 4 + 8);
    CHECK(cycles("pass.i32 imm(1i) -> grf0[0+1]") == 4 + 8);
    CHECK(cycles("pass.i32 imm(1i) -> lm1[0+1]") == 4 + 8);
    CHECK(cycles("pass.i32 imm(1i) -> lm1[0+1]\nnop") == 8 + 4);
    CHECK(cycles("eq.i32 imm(1i), id -> mask 1") == 4 + 12);
    CHECK(cycles("base b0 = 4") == 4 + 12);
    CHECK(cycles("mwrite.f16.2 x.0, imm(1h)") == 4);
    CHECK(cycles("l1.gather imm(1i) -> l1bm[0]") == 4 + 8);
    CHECK(cycles("l1.scatter l1bm[0] -> grf0[0+1]") == 4 + 8);
    CHECK(cycles("l2.bcast l2bm[0] -> l1bm[0]") == 4 + 8);
    CHECK(cycles("l2.gather l1bm[0] -> l2bm[0]") == 4 + 8);
}

TEST_CASE("REP costs nothing and nests") {
    CHECK(run("rep 10,1 | pass.i32 t").steps == 10);
    CHECK(run("rep 10,2 | pass.i32 t\nnop\nnop").steps == 21);
    CHECK(run("rep 3,3 | nop\nrep 5,1 | nop\nnop\nend").steps == 3 * 7 + 1);
    CHECK(run("rep 3,2 | rep 5,1 | nop\nnop\nend").steps == 3 * 6 + 1);
    CHECK(run("rep 3,2 | rep 5,2 | nop\nnop").steps == 30);
    CHECK(run("rep 2,2 | nop\nrep 4,1 | nop").steps == 10);
}

TEST_CASE("each memory is readable again after its gap, and not before") {
    CHECK(gap("pass.i32 imm(1i) -> lm1[0+1]", "pass.i32 lm1[8]") == 2); // any address
    CHECK(gap("pass.i32 id -> lm0[0+1]", "pass.i32 lm0[8]") == 2);
    CHECK(gap("pass.i32 id -> lm0[0+1]", "pass.i32 lm1[0]") == 0);
    CHECK(gap("pass.i32 imm(1i) -> grf0[0+1]", "pass.i32 grf0[3]") == 2);
    CHECK(gap("pass.i32 imm(1i) -> grf0[0+1]", "pass.i32 grf0[4]") == 0);
    CHECK(gap("pass.i32 imm(1i) -> grf0[0+1]", "pass.i32.2 grf0[8,9,10,2]") == 2);
    CHECK(gap("pass.i32 imm(1i) -> t", "pass.i32 t") == 2);
    CHECK(gap("pass.i32 imm(1i) -> t", "pass.i32 lm0[t+0]") == 2);
    CHECK(gap("eq.i32 imm(1i), id -> mask 2", "pass.i32 t -> t | mask 2") == 3);
    CHECK(gap("eq.i32 imm(1i), id -> mask 2", "pass.i32 t -> t | mask 3") == 0);
    CHECK(gap("base b1 = 2", "pass.i32 lm0[b1+0]") == 3);
    CHECK(gap("base b1 = 2", "base b1 += 2") == 3);
    CHECK(gap("base b1 = 2", "pass.i32 lm0[b2+0]") == 0);
    CHECK(gap("mwrite.f32.2 x.0, imm(1f)", "mmul.f32 x.0, t") == 0);
    CHECK(gap("mwrite.f32.2 x.0, imm(1f)", "mread.f32.2 x.0") == 0);
    CHECK(gap("l1.gather id -> l1bm[0]", "l1.scatter l1bm[31]") == 2);
    CHECK(gap("l1.gather id -> l1bm[0]", "l1.scatter l1bm[32]") == 0);
    CHECK(gap("l1.gather id -> l1bm[0]", "l2.gather l1bm[0] -> l2bm[0]") == 2);
    CHECK(gap("l1.reduce.1.add.f32 id -> l1bm[0]", "l1.pe.1 l1bm[15]") == 2);
    CHECK(gap("l2.bcast l2bm[0] -> l1bm[0]", "l1.mab.1 l1bm[60]") == 1);
    CHECK(gap("l2.bcast l2bm[0] -> l1bm[0]", "l2.multicast l1bm[0] -> l1bm[64], child 1") == 2);
    CHECK(gap("l2.gather l1bm[0] -> l2bm[0]", "l2.scatter l2bm[0] -> l1bm[128]") == 2);
    CHECK(gap("l2.gather l1bm[0] -> l2bm[0]", "mv.gather l2bm[0] -> dram[0], size 1, tag 0") == 1);
}

TEST_CASE("forwards last one step") {
    CHECK_NOTHROW(run("pass.i32 imm(1i)\npass.i32 aluf"));
    CHECK_NOTHROW(run("vmul.f16 imm(1h), imm(1h)\npass.i32.2 mauf"));
    CHECK_NOTHROW(run("l1.mab.2 l1bm[0]\nmwrite.f16.2 x.0, lbf"));
    CHECK_NOTHROW(run("mwrite.f32.2 x.0, imm(1f)\nmread.f32.2 x.0\npass.i32.2 mreadf"));
}

TEST_CASE("moves: start, rate, turnaround, queue, ports") {
    // small: DRAM 8 LW per cycle, start 160; the waiting word issues when the move is complete.
    CHECK(cycles("mv.bcast dram[0] -> l2bm[0], size 1, tag 0\nwait 0") == 160 + 8 + 4);
    CHECK(cycles("mv.bcast dram[0] -> l2bm[0], size 4, tag 0\nwait 0") == 160 + 32 + 4);
    CHECK(cycles("mv.bcast dram[0] -> l2bm[0], blocks 4, size 1, stride 128, tag 0\nwait 0") == 160 + 32 + 4);
    CHECK(cycles("mv.gather l2bm[0] -> dram[0], size 1, tag 0\nwait 0") == 160 + 8 + 4);
    CHECK(cycles("mv.bcast pdm[0] -> l2bm[0], size 1, tag 0\nwait 0") == 64 + 4 + 4);
    // Two moves in a row: the second's start overlaps with the first.
    CHECK(cycles("mv.bcast dram[0] -> l2bm[0], size 32, tag 0\nnop\nnop\nnop\nmv.bcast dram[0] -> l2bm[2048], size 32, "
                 "tag 1\nwait 1") == 160 + 256 + 256 + 4);
    // Reading, then writing: 16 cycles in between.
    CHECK(cycles("mv.bcast dram[0] -> l2bm[0], size 32, tag 0\nnop\nnop\nnop\nmv.gather l2bm[2048] -> dram[4096], size "
                 "32, tag 1\nwait 1") == 160 + 256 + 16 + 256 + 4);
    CHECK(cycles("mv.copy l2bm[0] -> l2bm[1024], child 0, size 1, tag 0\nwait 0") == 64 + 4 + 4);
    // A wait on a completed move costs nothing; a move without a wait ends the run late and warns.
    const Run late = run("mv.bcast dram[0] -> l2bm[0], size 1, tag 0\nend");
    CHECK(late.cycles() == 168);
    CHECK(late.tail_cycles == 160);
    REQUIRE(late.warnings.size() == 1);
    CHECK(late.warnings[0] == "no word waits for the last moves with tag 0; the end of the program waited");
}

TEST_CASE("an indirect move takes the granules that its table names, at half the rate") {
    HostMemory memory(small);
    std::vector<uint64_t> words(1024);
    for (size_t i = 0; i < words.size(); i++) words[i] = i;
    memory.write_dram(0, 0, words);
    // Granules 40, 3, 17, 0.
    const std::vector<uint64_t> table = {uint64_t(3) << 32 | 40, uint64_t(0) << 32 | 17};
    memory.write_dram(0, 4096, table);
    Simulator chip(small);
    const Program p = assemble("mv.bcast dram[0] -> l2bm[0], size 1, table 4096, tag 0\nwait 0", "p");
    CHECK(chip.run(p, memory).cycles() == 160 + 16 + 4);
    for (int i = 0; i < 64; i++) {
        const uint64_t granule[] = {40, 3, 17, 0};
        CHECK(chip.read(Simulator::Place::L2bm, 0, i) == 16 * granule[i / 16] + uint64_t(i) % 16);
    }
    // A move that touches a granule of the table conflicts with it; others do not.
    const std::string load = "mv.bcast dram[0] -> l2bm[0], size 1, table 4096, tag 0\nnop\nnop\nnop\n";
    CHECK_THROWS_AS(chip.run(assemble(load + "mv.gather l2bm[128] -> dram[272], size 1, tag 1", "p"), memory),
                    HazardError);
    chip.write(Simulator::Place::L2bm, 0, 128, 0);
    for (int i = 128; i < 192; i++) chip.write(Simulator::Place::L2bm, 0, i, 0);
    CHECK_NOTHROW(chip.run(assemble(load + "mv.gather l2bm[128] -> dram[64], size 1, tag 1\nend", "p"), memory));
    memory.write_dram(0, 4096, std::vector<uint64_t>{131072});
    CHECK_THROWS_WITH_AS(
        chip.run(p, memory),
        doctest::Contains("entry 0 of the table is granule 131072, which is outside DRAM of 2097152 LW"), UserError);
}

TEST_CASE("a full queue stalls the stream and is counted") {
    std::string text;
    for (int i = 0; i < 6; i++)
        text += fmt::format("mv.bcast dram[0] -> l2bm[{}], size 8, tag {}\nnop\nnop\nnop\n", 512 * i, i);
    const Run r = run(text + "wait 5");
    // The first is in service until 160 + 64, four are queued; the sixth issues when the first
    // completes.
    CHECK(r.idle_cycles[size_t(Idle::Queue)] == 160 + 64 - 5 * 16);
    CHECK(r.cycles() == 160 + 6 * 64 + 4);
}

TEST_CASE("larger chips: groups work side by side, across costs more") {
    Config c = Config::load("full");
    CHECK(cycles("mv.scatter dram[0] -> l2bm[0], size 2, tag 0\nwait 0", c) ==
          160 + 8 + 4); // 128 LW a group, 16 a cycle
    CHECK(cycles("mv.bcast dram[0] -> l2bm[0], size 2, chip, groups {1}, tag 0\nwait 0", c) == 160 + 8 + 4);
    // 8 LW per cycle across groups.
    CHECK(cycles("mv.bcast pdm[0] -> l2bm[0], size 2, chip, groups {1}, tag 0\nwait 0", c) == 64 + 16 + 4);
    CHECK(cycles("mv.bcast pdm[0] -> l2bm[0], size 2, groups {1}, tag 0\nwait 0", c) == 64 + 8 + 4);
    CHECK(cycles("mv.copy l2bm[0] -> l2bm[256], child 0, size 2, l2bs {1}, tag 0\nwait 0", c) == 64 + 8 + 4);
    CHECK(cycles("mv.copy l2bm[0] -> l2bm[256], child 0, size 2, l2bs {1-2}, tag 0\nwait 0", c) == 64 + 16 + 4);
    CHECK(cycles("mv.reduce.add.f32 l2bm[0] -> dram[0], size 2, tag 0\nwait 0", c) == 160 + 8 + 4);
    // Two different groups finish as fast as one; the same group twice runs one after the other.
    const auto two = [&](int second) {
        return cycles(fmt::format("mv.bcast dram[0] -> l2bm[0], size 64, groups {{0}}, tag 0\nnop\nnop\nnop\n"
                                  "mv.bcast dram[0] -> l2bm[{}], size 64, groups {{{}}}, tag 1\nwait 0\nwait 1",
                                  second ? 0 : 8192, second),
                      c);
    };
    CHECK(two(1) == 16 + 160 + 256 + 4);
    CHECK(two(0) == 160 + 2 * 256 + 4);
}

TEST_CASE("the same program gives the same bits and cycles") {
    const std::string text =
        "pass.i32 id -> lm0[0+1]\nnop\nnop\nl1.gather lm0[0+1] -> l1bm[0]\nnop\nnop\nl1.mab.2 l1bm[0] -> grf0[0+2]";
    const Run a = run(text), b = run(text);
    CHECK(a.cycles() == b.cycles());
    CHECK(a.json() == b.json());
}

TEST_CASE("a run that would take hours is stopped") {
    std::atomic<bool> stop = false;
    SimulateOptions o;
    o.stop = &stop;
    HostMemory memory(small);
    std::string text, said;
    for (int i = 0; i < 100; i++) text += "rep 65535,1 | rep 65535,1 | nop\n";
    std::thread stopper([&] { stop = true; });
    try {
        simulate(assemble(text, "test"), small, memory, o);
    } catch (const UserError &e) {
        said = e.what();
    }
    stopper.join();
    CHECK(said == "the run was stopped");
}

TEST_CASE("the report counts what was done") {
    const Run r =
        run("mwrite.f16.2 x.0, imm(1h)\nmwrite.f16.2 x.1, imm(1h)\nrep 10,1 | mmul.f16 x, lm1[0]\n"
            "vfma.f32 t, t, t\npass.i32 t\nl1.pe.1 l1bm[0]\nnop\nmv.scatter dram[0] -> l2bm[0], size 1, tag 3\nwait 3");
    CHECK(r.matrix_f16_steps == 10);
    CHECK(r.matrix_macs() == 10 * 4 * 1024);
    CHECK(r.macs() == 10 * 4 * 1024 + 4 * 4 * 8);
    CHECK(r.link_bytes[size_t(Link::DramRead)] == 512);
    CHECK(r.link_bytes[size_t(Link::L1ToPe)] == 4 * 8 * 16);
    CHECK(r.idle_cycles[size_t(Idle::MatrixWrite)] == 8);
    CHECK(r.idle_cycles[size_t(Idle::Vector)] == 4);
    CHECK(r.idle_cycles[size_t(Idle::Alu)] == 4);
    CHECK(r.idle_cycles[size_t(Idle::Moves)] == 4);
    CHECK(r.idle_cycles[size_t(Idle::WaitLoad)] == 160 + 8 - 4);
    uint64_t all = 4 * r.matrix_f16_steps;
    for (const uint64_t i : r.idle_cycles) all += i;
    CHECK(all == r.cycles());
    CHECK(r.report().find("[R] 7 nm") != std::string::npos);
    CHECK(r.html().find("<svg") != std::string::npos);
    // The page fetches nothing.
    CHECK(r.html().find("http://") == r.html().find("http://www.w3.org/2000/svg"));
    CHECK(r.json()["cycles"] == r.cycles());
    CHECK_THROWS_WITH_AS(r.trace(), doctest::Contains("recorded no trace"), UserError);
}

TEST_CASE("the trace is JSON with a track for each slot, tag and group") {
    HostMemory memory(small);
    const std::vector<uint64_t> words(64);
    memory.write_dram(0, 0, words);
    SimulateOptions o;
    o.trace = true;
    const Run r = simulate(
        assemble("mv.bcast dram[0] -> l2bm[0], size 1, tag 2 | note \"load \\\"A\\\"\"\nrep 5,1 | pass.i32 id\nwait 2",
                 "t"),
        small, memory, o);
    const Json j = parse_json(r.trace(), "trace");
    std::vector<std::string> tracks, slices;
    for (const Json &e : j["traceEvents"]) {
        if (e["ph"] == "M" && e["name"] == "thread_name") tracks.push_back(e["args"]["name"]);
        if (e["ph"] == "X") slices.push_back(e["name"]);
    }
    CHECK(tracks == std::vector<std::string>{"word", "CTRL", "MV", "ALU", "tag 2", "group 0"});
    CHECK(slices.size() == 7);
}
