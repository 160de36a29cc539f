// Vectors, rows and copies on the simulated chip: element-wise ops, reductions, softmax, norms,
// pooling, transposes and gathers with all operands in DRAM, compared with the time that DRAM needs
// for their bytes; and sums in LM, compared with LM's rate.
#include "bench/suite.h"

#include "driver/default_schedule.h"
#include "driver/machines.h"
#include "driver/simulated.h"
#include "ops/ops.h"

#include <fmt/format.h>

namespace kumiko::bench {

namespace {

BenchRow from_dram(const std::string &machine, const std::string &name, const Op &op, const BenchOptions &options) {
    const ChipProgram program = compile_chip(default_schedule(op, machine_named(machine)));
    double elements = 0;
    for (const Input &in : op.inputs()) {
        double n = 1;
        for (const Axis &a : in.axes) n *= double(evaluate_size(a.extent(), {}));
        elements += n;
    }
    const bool check = options.check && elements <= 5e5;
    const sim::Run run = run_simulated(program, check).run;
    BenchRow row;
    row.suite = "chip-rows";
    row.name = machine + " " + name;
    row.unit = "B/cycle";
    const double bytes = run.bounds.compulsory_dram_bytes, bound = run.dram_bound_cycles();
    row.ours = row.untuned = bytes / double(run.cycles());
    row.seconds = run.seconds();
    row.peers["bound"] = bytes / bound;
    row.best_peer = "bound";
    row.ratio = bound / double(run.cycles());
    row.remarks.push_back(fmt::format("{}: {} cycles, {} words compiled in {:.2f} s{}", row.name, run.cycles(),
                                      program.program().words.size(), program.seconds(), check ? ", checked" : ""));
    return row;
}

// `sums` sums, one after the other, of tensors that stay in LM; every PE does the same, so that
// DRAM has little to do.
ChipProgram sums_in_lm(const Machine &machine, int words, int sums) {
    Axis i("i", words * 4);
    const Tensor A = input("A", f16, {i}), B = input("B", f16, {i});
    Tensor t = B;
    for (int n = 0; n < sums; n++) t = compute(fmt::format("T{}", n), {i}, A(i) + t(i));
    const Op op("sums", {A, B}, {compute("Y", {i}, A(i) + t(i))});
    Schedule s(op, machine);
    const auto deal = [&](StageHandle S) {
        S.split("i", 4, {"w", "v"});
        S.split("w", words, {"tile", "word"});
        S.vectorize("v");
    };
    deal(s.stage("Y"));
    for (int n = sums; n-- > 0;) {
        StageHandle T = s.stage(fmt::format("T{}", n));
        T.compute_at("Y", "tile");
        deal(T);
        T.place_in("LM1");
        s.place_in("A", "LM0", T.name(), "tile");
        if (n == 0) s.place_in("B", "LM1", T.name(), "tile");
    }
    s.place_in("A", "LM0", "Y", "tile");
    return compile_chip(s);
}

BenchRow from_lm(const std::string &name, const BenchOptions &) {
    const Machine machine = machine_named(name);
    const bool small = name == "chip:small";
    const int words = small ? 64 : 512, few = 1, many = 3;
    std::array<double, 2> cycles{};
    for (const int sums : {few, many}) {
        const ChipProgram p = sums_in_lm(machine, words, sums);
        cycles[sums == many] = double(run_simulated(p, false).run.cycles());
    }
    BenchRow row;
    row.suite = "chip-rows";
    row.name = name + " add in LM";
    row.unit = "LW/cycle";
    // Each sum reads two words and writes one; a PE's LMs provide four per cycle.
    const double each = (cycles[1] - cycles[0]) / (many - few), traffic = 3.0 * words;
    row.ours = row.untuned = traffic / each;
    row.peers["LM"] = 4;
    row.best_peer = "LM";
    row.ratio = row.ours / 4;
    row.remarks.push_back(fmt::format("{}: {} words of a PE in {} cycles", row.name, words, each));
    return row;
}

} // namespace

std::vector<BenchRow> run_chip_rows_suite(const BenchOptions &options,
                                          const std::function<void(const std::string &)> &progress) {
    std::vector<BenchRow> rows;
    for (const std::string machine : {"chip:small", "chip:full"}) {
        const bool full = machine == "chip:full";
        const int n = full ? 1 << 24 : 1 << 17, m = full ? 4096 : 128, row = full ? 1024 : 256;
        const int side = full ? 4096 : 512, images = full ? 16 : 2, short_rows = full ? 5000 : 500;
        const int long_rows = full ? 200000 : 20000, window = full ? 112 : 56;
        const std::vector<std::pair<std::string, Op>> cases = {
            {fmt::format("add {} f16", n), ops::binary("add", f16, n)},
            {fmt::format("gelu {} f16", n / 4), ops::unary("gelu", f16, n / 4)},
            {fmt::format("exp {} f16", n / 4), ops::unary("exp", f16, n / 4)},
            {fmt::format("sum {}x{} f16", m, row), ops::reduction("sum", f16, {m, row}, {1})},
            {fmt::format("sum of columns {}x{} f16", m, row), ops::reduction("sum", f16, {m, row}, {0})},
            {fmt::format("sum of all {}x{} f16", m, row), ops::reduction("sum", f16, {m, row}, {})},
            {fmt::format("sum of planes {}x64x28x28 f16", images),
             ops::reduction("sum", f16, {images, 64, 28, 28}, {2, 3})},
            {fmt::format("softmax {}x{} f16", m, row), ops::softmax(f16, m, row)},
            {fmt::format("layer_norm {}x{} f16", m, row), ops::layer_norm(f16, m, row)},
            {fmt::format("argmax {}x{} f16", m, row), ops::reduction("argmax", f16, {m, row}, {1})},
            {fmt::format("add 3x{} f16", long_rows), ops::binary_rows("add", f16, 3, long_rows)},
            {fmt::format("add {}x40 f16", short_rows), ops::binary_rows("add", f16, short_rows, 40)},
            {fmt::format("transpose {}x{} f16", side, side), ops::transpose(f16, side, side)},
            {fmt::format("gather {} rows of {} f16", 2 * m, row), ops::gather(f16, 2 * m, 1000, row)},
            {fmt::format("batch_norm {}x64x28x28 f16", images), ops::batch_norm(f16, images, 64, 28, 28)},
            {fmt::format("max_pool {}x64x{}x{}, 3x3 by 2, f16", images, window, window),
             ops::max_pool(f16, images, 64, window, window, 3, 3, {ops::ImageLayout::NCHW, 2, 1})},
            {fmt::format("average_pool {}x64x{}x{}, 2x2 by 2, f16", images, window, window),
             ops::average_pool(f16, images, 64, window, window, 2, 2, {ops::ImageLayout::NCHW, 2, 0})},
        };
        for (const auto &[name, op] : cases) {
            if (progress) progress(machine + " " + name);
            rows.push_back(from_dram(machine, name, op, options));
        }
        if (progress) progress(machine + " add in LM");
        rows.push_back(from_lm(machine, options));
    }
    return rows;
}

} // namespace kumiko::bench
