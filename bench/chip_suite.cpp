// Programs of the simulated chip compared with the bounds of its matrix units and its DRAM: the
// greater of the two times is the bound, from the first word to the last move's completion, with
// all operands in DRAM at begin and end.
#include "bench/suite.h"

#include "driver/default_schedule.h"
#include "driver/machines.h"
#include "dsl/interpret.h"
#include "ops/matmul.h"
#include "targets/chip/compile.h"

#include <fmt/format.h>

namespace kumiko::bench {

namespace {

struct ChipCase {
    const char *machine;
    int m, n, k;
    Type out;
    bool k_contiguous = true; // in B; otherwise its columns are contiguous
};

BenchRow run_case(const ChipCase &c, const BenchOptions &options) {
    ops::MatmulOptions o;
    o.transpose_b = c.k_contiguous;
    o.output = c.out;
    const Op op = ops::matmul(f16, c.m, c.n, c.k, o);
    const ChipProgram program = compile_chip(default_schedule(op, machine_named(c.machine)));
    const Buffer<> a = random_integers(f16, {c.m, c.k}, 1),
                   b = c.k_contiguous ? random_integers(f16, {c.n, c.k}, 2) : random_integers(f16, {c.k, c.n}, 2),
                   out(c.out, {c.m, c.n});
    fill_unwritten(out);
    const sim::Run run = program.run({a, b, out});
    const double macs = double(c.m) * c.n * c.k;
    const auto slower = [&](Packing packing) { // how many times slower
        const ChipProgram p = compile_chip(default_schedule(op, machine_named(c.machine)), program.config(), packing);
        return double(p.run({a, b, out}).cycles()) / double(run.cycles());
    };
    BenchRow row;
    row.suite = "chip-gemm";
    row.name = fmt::format("{} {}x{}x{} {}", c.machine, c.m, c.n, c.k, c.out == f16 ? "f16" : "f32") +
               (c.k_contiguous ? "" : " B across");
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
    if (macs <= 2e9)
        row.remarks.back() +=
            fmt::format(", packed {:.1f}x the naive form (operation by operation, each move waited for), "
                        "{:.1f}x one operation a word",
                        slower(Packing::Naive), slower(Packing::OneAWord));
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
    std::vector<ChipCase> cases = {{"chip:small", 512, 512, 512, f16}};
    for (const int n : {1024, 4096}) cases.push_back({"chip:medium", n, n, n, f16});
    for (const int n : {512, 1000, 1024, 2048, 4096, 8192}) cases.push_back({"chip:full", n, n, n, f16});
    cases.push_back({"chip:full", 4096, 4096, 4096, f32});
    for (const int n : {2048, 8192}) cases.push_back({"chip:full", n, n, n, f16, false});
    for (const ChipCase &c : cases) {
        if (progress) progress(fmt::format("{} {}x{}x{}", c.machine, c.m, c.n, c.k));
        rows.push_back(run_case(c, options));
    }
    return rows;
}

} // namespace kumiko::bench
