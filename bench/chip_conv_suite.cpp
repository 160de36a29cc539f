// Convolutions on the simulated chip compared with the bounds of its matrix units, or vectors, and
// its DRAM: whole programs with all operands in DRAM, and a layer whose image stays in LM.
#include "bench/suite.h"

#include "driver/machines.h"
#include "driver/simulated.h"
#include "ops/conv.h"
#include "schedules/library/chip_conv.h"
#include "schedules/library/chip_depthwise.h"

#include <fmt/format.h>

namespace kumiko::bench {

namespace {

struct Shape {
    // Square images, padded with zeros so that outputs have the same size.
    int n, c, size, o, window;
    ops::Conv2dOptions options() const { return ops::Conv2dOptions().padding(window / 2); }
    Op dense(int outputs) const { return ops::conv2d(f16, n, c, size, size, outputs, window, window, options()); }
    Op depthwise() const { return ops::depthwise_conv2d(f16, n, c, size, size, window, window, options()); }
    double macs() const { return double(n) * size * size * o * window * window * c; }
    std::string text() const { return fmt::format("{}x{} {}->{} {}x{}x{}", window, window, c, o, n, size, size); }
};

BenchRow row_of(const std::string &name, double macs, double cycles, double bound) {
    BenchRow row;
    row.suite = "chip-conv";
    row.name = name;
    row.unit = "MAC/cycle";
    row.ours = row.untuned = macs / cycles;
    row.peers["bound"] = macs / bound;
    row.best_peer = "bound";
    row.ratio = bound / cycles;
    return row;
}

// A whole program, for matrix units with `macs_per_cycle`.
BenchRow from_dram(const std::string &name, const Schedule &s, double macs, double macs_per_cycle,
                   const BenchOptions &options) {
    const ChipProgram p = compile_chip(s);
    const bool check = options.check && macs <= 2e8;
    const sim::Run run = run_simulated(p, check).run;
    const double bound = std::max(macs / macs_per_cycle, run.dram_bound_cycles());
    BenchRow row = row_of(name, macs, double(run.cycles()), bound);
    row.seconds = run.seconds();
    row.peak = macs_per_cycle;
    row.of_peak = row.ours / row.peak;
    row.remarks.push_back(fmt::format("{}: {} cycles, {} words compiled in {:.2f} s{}", name, run.cycles(),
                                      p.program().words.size(), p.seconds(), check ? ", checked" : ""));
    return row;
}

// The cost of additional output channels for the same images: a layer whose image is already
// loaded. "tile": it stays in LM, with its halo; "channels": channels are loaded from L2BM as they
// are used, two sets of 16 in LM.
BenchRow one_more_layer(const std::string &machine, const Shape &shape, const std::string &image) {
    const Machine m = machine_named(machine);
    std::array<double, 2> cycles{}, dram{}; // without the additional layer, with it
    double seconds = 0;
    library::ChipConvParameters p = library::chip_conv_parameters(shape.dense(shape.o), m);
    p.image.set(image, "image");
    for (const int layers : {0, 1}) {
        const Op op = shape.dense(shape.o * (1 + layers));
        const ChipProgram program = compile_chip(library::schedule_chip_conv(op, m, p));
        const sim::Run run = run_simulated(program, false).run;
        cycles[size_t(layers)] = double(run.cycles());
        dram[size_t(layers)] = run.dram_bound_cycles();
        seconds = std::max(seconds, program.seconds());
    }
    const double macs_per_cycle = double(sim::Config::load(machine.substr(5)).fp16_macs_per_cycle());
    const double taken = cycles[1] - cycles[0], bound = std::max(shape.macs() / macs_per_cycle, dram[1] - dram[0]);
    BenchRow row = row_of(fmt::format("{} {} image in {}", machine, shape.text(), image == "tile" ? "LM" : "L2BM"),
                          shape.macs(), taken, bound);
    row.peak = macs_per_cycle;
    row.of_peak = row.ours / row.peak;
    row.remarks.push_back(fmt::format("{}: {} cycles for {} more output channels, compiled in {:.2f} s", row.name,
                                      taken, shape.o, seconds));
    return row;
}

// `convolutions` depthwise convolutions, one after the other, of one image that stays in LM; every
// MAB does the same, so that DRAM has little to do.
ChipProgram depthwise_in_lm(const Machine &machine, int rows, int columns, int window, int convolutions) {
    const Axis m("m", convolutions), c("c", 16), y("y", rows), x("x", columns), ky("ky", window), kx("kx", window);
    const Axis in_y("y", rows + window - 1), in_x("x", columns + window - 1);
    const Tensor X = input("X", f16, {in_y, in_x, c}), W = input("W", f16, {m, ky, kx, c});
    const Tensor S =
        compute("S", {m, y, x, c}, sum(cast(f32, X(y + ky, x + kx, c)) * cast(f32, W(m, ky, kx, c)), {ky, kx}));
    const Op op("depthwise", {X, W}, {compute("Y", {m, y, x, c}, cast(f16, S(m, y, x, c)))});
    Schedule s(op, machine);
    s.stage("Y").split("c", 4, {"c.w", "c.v"});
    s.stage("Y").reorder({"c.w", "m", "y", "x", "c.v"}).bind("c.w", "PE").vectorize("c.v");
    StageHandle sums = s.stage("S");
    sums.compute_at("Y", "m");
    sums.split("c", 4, {"c.w", "c.v"});
    sums.reorder({"c.w", "m", "y", "x", "ky", "kx", "c.v"}).vectorize("c.v").place_in("GRF1");
    s.place_in("X", "LM0", "S", "m");
    s.place_in("W", "LM1", "S", "m");
    return compile_chip(s);
}

BenchRow depthwise_from_lm(const std::string &name, int window) {
    const Machine machine = machine_named(name);
    const bool small = name == "chip:small";
    const int rows = small ? 4 : 7, columns = small ? 4 : 14, few = 2, many = 6;
    std::array<double, 2> cycles{};
    for (const int n : {few, many})
        cycles[n == many] =
            double(run_simulated(depthwise_in_lm(machine, rows, columns, window, n), true).run.cycles());
    // One fused multiply–add of a word per PE and cycle.
    const double bound = double(rows) * columns * window * window, each = (cycles[1] - cycles[0]) / (many - few);
    const double units = double(machine.units_in_all("PE")) * 4;
    BenchRow row =
        row_of(fmt::format("{} depthwise {}x{} image in LM", name, window, window), bound * units, each, bound);
    row.peak = units;
    row.of_peak = row.ours / row.peak;
    row.remarks.push_back(fmt::format("{}: {} cycles for {} outputs of a lane", row.name, each, rows * columns));
    return row;
}

} // namespace

std::vector<BenchRow> run_chip_conv_suite(const BenchOptions &options,
                                          const std::function<void(const std::string &)> &progress) {
    std::vector<BenchRow> rows;
    const auto say = [&](const std::string &what) {
        if (progress) progress(what);
    };
    for (const std::string machine : {"chip:small", "chip:full"}) {
        const Machine m = machine_named(machine);
        const bool small = machine == "chip:small";
        const double macs_per_cycle = double(sim::Config::load(machine.substr(5)).fp16_macs_per_cycle());
        for (const int window : {3, 1}) {
            const Shape shape = small ? Shape{2, 64, 14, 64, window} : Shape{32, 256, 14, 256, window};
            const std::string name = machine + " " + shape.text();
            say(name);
            const Op op = shape.dense(shape.o);
            rows.push_back(from_dram(name, library::schedule_chip_conv(op, m, library::chip_conv_parameters(op, m)),
                                     shape.macs(), macs_per_cycle, options));
            if (small || window == 1) continue;
            for (const char *image : {"tile", "channels"}) rows.push_back(one_more_layer(machine, shape, image));
        }
        const Shape shape = small ? Shape{2, 32, 14, 1, 3} : Shape{32, 256, 14, 1, 3};
        const std::string name = fmt::format("{} depthwise 3x3 {} {}x14x14", machine, shape.c, shape.n);
        say(name);
        const Op op = shape.depthwise();
        rows.push_back(from_dram(name,
                                 library::schedule_chip_depthwise(op, m, library::chip_depthwise_parameters(op, m)),
                                 shape.macs(), double(m.units_in_all("PE")) * 4, options));
        rows.push_back(depthwise_from_lm(machine, 3));
    }
    return rows;
}

} // namespace kumiko::bench
