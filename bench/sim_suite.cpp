// The simulation speed of the chip with timing and hazard checks enabled: multiply-accumulates per
// second in a matmul's inner loop, and steps per second on the small machine. The peer is the same
// simulator without vector instructions of the host.
#include "bench/suite.h"

#include "bench/peak.h"
#include "sim/simulator.h"

#include <fmt/format.h>

namespace kumiko::bench {

namespace {

using namespace kumiko::sim;

// Weights stream from L1BM into one face while the other is in use; accumulators stay in GRF0, x in
// LM1. 16 vectors per matrix.
std::string inner_loop(int rounds) {
    return fmt::format(
        "rep 4,1 | pass.i32.2 imm(1.5h) -> grf0[0+2 ^8]\n"
        "rep 8,1 | pass.i32.2 imm(0.25h) -> lm1[0+2 ^8]\n"
        "rep 4,1 | l1.gather imm(0.125h) -> l1bm[0 ^32]\n"
        "nop\nnop\n"
        "l1.mab.2 l1bm[0]\n"
        "mwrite.f16.2 x.0, lbf | l1.mab.2 l1bm[32]\n"
        "mwrite.f16.2 x.1, lbf | l1.mab.2 l1bm[0]\n"
        "rep {},8 | mfma.f16 x, lm1[0+1], grf0[0+2] -> grf0[0+2] | mwrite.f16.2 y.0, lbf | l1.mab.2 l1bm[32]\n"
        "mfma.f16 x, lm1[4+1], grf0[8+2] -> grf0[8+2] | mwrite.f16.2 y.1, lbf\n"
        "mfma.f16 x, lm1[8+1], grf0[16+2] -> grf0[16+2]\n"
        "mfma.f16 x, lm1[12+1], grf0[24+2] -> grf0[24+2] | l1.mab.2 l1bm[64]\n"
        "mfma.f16 y, lm1[16+1], grf0[0+2] -> grf0[0+2] | mwrite.f16.2 x.0, lbf | l1.mab.2 l1bm[96]\n"
        "mfma.f16 y, lm1[20+1], grf0[8+2] -> grf0[8+2] | mwrite.f16.2 x.1, lbf\n"
        "mfma.f16 y, lm1[24+1], grf0[16+2] -> grf0[16+2]\n"
        "mfma.f16 y, lm1[28+1], grf0[24+2] -> grf0[24+2] | l1.mab.2 l1bm[0]\n"
        "end\n",
        rounds);
}

struct SimCase {
    std::string name, machine, unit;
    int rounds;
    bool macs; // otherwise steps
};

// One program on one machine, ready to execute.
struct Ready {
    Ready(const SimCase &c, const std::string &host)
        : config(Config::load(c.machine)), program(assemble(inner_loop(c.rounds), "inner loop")), memory(config),
          simulator(config, [&] {
              SimulateOptions o;
              o.undefined = Undefined::Error;
              o.instructions = host;
              return o;
          }()) {}

    Config config;
    Program program;
    HostMemory memory;
    Simulator simulator;
    double amount = 0;
};

} // namespace

std::vector<BenchRow> run_sim_suite(const BenchOptions &options,
                                    const std::function<void(const std::string &)> &progress) {
    std::vector<BenchRow> rows;
    for (const SimCase &c : {SimCase{"full, matmul's inner loop", "full", "GMAC/s", 8, true},
                             SimCase{"medium, the same", "medium", "GMAC/s", 16, true},
                             SimCase{"small, the same", "small", "Mstep/s", 500, false}}) {
        if (progress) progress(c.name);
        std::vector<std::unique_ptr<Ready>> all;
        std::vector<TimedWork> work;
        const std::vector<std::string> hosts = host_instructions();
        for (const std::string &host : hosts) {
            all.push_back(std::make_unique<Ready>(c, host));
            work.push_back([&c, r = all.back().get()] {
                const Run run = r->simulator.run(r->program, r->memory);
                r->amount = c.macs ? run.macs() * 1e-9 : double(run.steps) * 1e-6;
            });
        }
        const CountedWork peak = fma_peak(1);
        work.push_back(peak.run);
        TimerOptions timer;
        timer.budget_seconds = options.budget_seconds;
        const std::vector<Timing> times = time_interleaved(work, timer);
        BenchRow row;
        row.suite = "sim-speed", row.name = c.name, row.unit = c.unit;
        row.ours = row.untuned = all.front()->amount / times.front().median;
        row.seconds = times.front().median;
        row.spread = times.front().spread();
        for (size_t i = 1; i < all.size(); i++) row.peers[hosts[i]] = all[i]->amount / times[i].median;
        if (all.size() > 1) {
            row.best_peer = "baseline";
            row.ratio = speedup(times.front(), times[all.size() - 1]);
        }
        if (c.macs) {
            row.peak = peak.flops / 2 * 1e-9 / times.back().median;
            row.of_peak = row.ours / row.peak;
        }
        row.remarks.push_back("sim-speed: host instructions " + hosts.front() +
                              "; the peer is the same simulator for any x86-64; of peak: float32 multiply-adds");
        rows.push_back(std::move(row));
    }
    return rows;
}

} // namespace kumiko::bench
