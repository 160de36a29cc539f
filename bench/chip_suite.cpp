// Programs of the simulated chip against what its matrix units and its DRAM allow: the greater of the two times is the bound, from the
// first word to the last move's completion, with all operands starting and ending in DRAM.
#include "bench/suite.h"

#include "driver/default_schedule.h"
#include "driver/machines.h"
#include "dsl/interpret.h"
#include "ops/matmul.h"
#include "targets/chip/compile.h"

#include <fmt/format.h>

namespace kumiko::bench {

namespace {

struct Case {
    const char *machine;
    int m, n, k;
    Type out;
};

BenchRow run_case(const Case &c, const BenchOptions &options) {
    ops::MatmulOptions o;
    o.transpose_b = true; // k contiguous in both
    o.output = c.out;
    const Op op = ops::matmul(f16, c.m, c.n, c.k, o);
    const ChipProgram program = compile_chip(default_schedule(op, machine_named(c.machine)));
    const Buffer<> a = random_integers(f16, {c.m, c.k}, 1), b = random_integers(f16, {c.n, c.k}, 2),
                   out(c.out, {c.m, c.n});
    fill_unwritten(out);
    const sim::Run run = program.run({a, b, out});
    const double macs = double(c.m) * c.n * c.k;
    BenchRow row;
    row.suite = "chip-gemm";
    row.name = fmt::format("{} {}x{}x{} {}", c.machine, c.m, c.n, c.k, c.out == f16 ? "f16" : "f32");
    row.unit = "MAC/cycle";
    row.ours = row.untuned = macs / double(run.cycles());
    row.seconds = run.seconds();
    const double bound = std::max(run.matrix_bound_cycles(), run.dram_bound_cycles());
    row.peers["bound"] = macs / bound;
    row.best_peer = "bound";
    row.ratio = bound / double(run.cycles());
    row.peak = double(program.config().fp16_macs_per_cycle());
    row.of_peak = row.ours / row.peak;
    row.remarks.push_back(
        fmt::format("{}: {} cycles, DRAM {:.2f}x the compulsory, {} words compiled in {:.2f} s", row.name, run.cycles(),
                    double(run.link_bytes[size_t(sim::Link::DramRead)] + run.link_bytes[size_t(sim::Link::DramWrite)]) /
                        run.bounds.compulsory_dram_bytes,
                    program.program().words.size(), program.seconds()));
    if (options.check && macs <= 2e8) {
        if (const std::string d = difference(out, interpret(op, {a, b}).front()); !d.empty())
            throw UserError(row.name + ": " + d);
        row.remarks.back() += ", equal to the formula bit for bit";
    }
    return row;
}

} // namespace

std::vector<BenchRow> run_chip_suite(const BenchOptions &options,
                                     const std::function<void(const std::string &)> &progress) {
    std::vector<BenchRow> rows;
    for (const Case &c : {Case{"chip:small", 512, 512, 512, f16}, Case{"chip:medium", 1024, 1024, 1024, f16},
                          Case{"chip:full", 512, 512, 512, f16}, Case{"chip:full", 1000, 1000, 1000, f16},
                          Case{"chip:full", 1024, 1024, 1024, f16}, Case{"chip:full", 2048, 2048, 2048, f16},
                          Case{"chip:full", 4096, 4096, 4096, f16}}) {
        if (progress) progress(fmt::format("{} {}x{}x{}", c.machine, c.m, c.n, c.k));
        rows.push_back(run_case(c, options));
    }
    return rows;
}

} // namespace kumiko::bench
