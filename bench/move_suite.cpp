// Moves on the chip: simulated cycles compared with the bound of the links that the words have to
// cross. Remarks contain the predicted cycles. A simulated chip is the same everywhere, so nothing
// is timed.
#include "bench/suite.h"

#include "sim/simulator.h"
#include "targets/chip/move/move.h"

#include <fmt/format.h>

namespace kumiko::bench {

namespace {

using namespace kumiko::chip;

struct MoveCase {
    const char *name;
    Memory from;
    const char *from_layout;
    Memory to;
    const char *to_layout;
};
// All on the machine `full`, f16.
const MoveCase cases[] = {
    {"DRAM -> L2BM, dense", Memory::Dram, "((4_G:1, 2048:1), (4_W:1))", Memory::L2bm, "((4_G:1, 2048:1), (4_W:1))"},
    {"DRAM -> LM0, rows over the chip", Memory::Dram, "((4_G:1, 1024:4), (4:1, 4_W:1))", Memory::Lm0,
     "((4_G:1, 2_L2B:1, 8_L1B:1, 4:1, 16_MAB:1), (4_PE:1, 4_W:1))"},
    {"LM0 -> DRAM, rows over the chip", Memory::Lm0, "((4_G:1, 2_L2B:1, 8_L1B:1, 4:1, 16_MAB:1), (4_PE:1, 4_W:1))",
     Memory::Dram, "((4_G:1, 1024:4), (4:1, 4_W:1))"},
    {"LM0 -> DRAM, blocks of rows", Memory::Lm0, "((4_G:1, 2_L2B:1, 8_L1B:1, 16_MAB:1, 4:1), (4_PE:1, 4_W:1))",
     Memory::Dram, "((4_G:1, 1024:4), (4:1, 4_W:1))"},
    {"L2BM -> L1BM, copies", Memory::L2bm, "((2048:1), (4_W:1))", Memory::L1bm, "((2048:1), (4_W:1))"},
    {"L1BM -> LM0, copies", Memory::L1bm, "((256:1), (4_W:1))", Memory::Lm0, "((256:1), (4_W:1))"},
    {"L1BM -> LM0, weights for every MAB", Memory::L1bm, "((256:4), (4:1, 4_W:1))", Memory::Lm0,
     "((256:1), (4_PE:1, 4_W:1))"},
    {"L1BM -> LM0, windows with halo", Memory::L1bm, "((226:4), (4:1, 4_W:1))", Memory::Lm0,
     "((16_MAB:1/14, 16:1), (4_PE:1, 4_W:1))"},
    {"LM0 -> LM1, rows to columns", Memory::Lm0, "((16:16, 16:1), (4_PE:1, 4_W:1))", Memory::Lm1,
     "((16:16, 4_PE:1, 4_W:1), (16:1))"},
    {"LM0 -> LM1, from one L1B to all", Memory::Lm0, "((8_L1B:1, 2:1), (4_PE:1, 4_W:1))", Memory::Lm1,
     "((16:1), (4_PE:1, 4_W:1))"},
};

} // namespace

std::vector<BenchRow> run_move_suite(const std::function<void(const std::string &)> &progress) {
    const sim::Config config = sim::Config::load("full");
    Scratch scratch;
    scratch.l2bm = {config.sizes.l2bm / 2, config.sizes.l2bm};
    scratch.l1bm = {config.sizes.l1bm / 2, config.sizes.l1bm};
    scratch.lm0 = scratch.lm1 = {config.sizes.lm / 2, config.sizes.lm};
    scratch.grf0 = scratch.grf1 = {config.sizes.grf / 2, config.sizes.grf};
    scratch.tag_end = 2;
    scratch.mask_end = 9;
    std::vector<BenchRow> rows;
    for (const MoveCase &c : cases) {
        if (progress) progress(c.name);
        const chip::Placement from{c.from, Layout::parse(c.from_layout, ElementType::F16), 0},
            to{c.to, Layout::parse(c.to_layout, ElementType::F16), 0};
        const Move move = plan_move(from, to, scratch, config);
        sim::HostMemory memory(config);
        sim::SimulateOptions options;
        options.undefined = sim::Undefined::Zero; // only time matters here; tests compare the data
        const sim::Run run = sim::simulate(program_of(move, config), config, memory, options);
        BenchRow row;
        row.suite = "chip-move", row.name = c.name, row.unit = "cycles";
        row.ours = row.untuned = double(run.cycles());
        row.seconds = run.seconds();
        row.peers["bound"] = double(move.bound.cycles);
        row.best_peer = "bound";
        row.ratio = double(move.bound.cycles) / double(run.cycles());
        row.remarks.emplace_back(
            "chip-move: machine full, f16; the peer is the bound of the links that the words have to cross");
        row.remarks.push_back(fmt::format("{}: {} cycles predicted; {}", c.name, move.cycles, move.bound.to_string()));
        rows.push_back(std::move(row));
    }
    return rows;
}

} // namespace kumiko::bench
