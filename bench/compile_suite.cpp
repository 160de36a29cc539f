// The cost of compiling, and the overhead of a call.
#include "bench/suite.h"

#include "driver/default_schedule.h"
#include "driver/kernel.h"
#include "driver/library.h"
#include "ops/registry.h"
#include "support/temporary_folder.h"

namespace kumiko::bench {

namespace {

BenchRow row_of(const std::string &name, const std::string &unit, const Timing &t, double scale) {
    BenchRow row;
    row.suite = "compile", row.name = name, row.unit = unit;
    row.ours = row.untuned = t.median * scale;
    row.seconds = t.median;
    row.spread = t.spread();
    return row;
}

// Fifty kernels of the kinds that occur in a network.
LibraryDescription fifty_kernels() {
    LibraryDescription d;
    d.name = "fifty";
    const auto add = [&](const std::string &op, const Json &parameters) {
        const std::string name = "k" + std::to_string(d.kernels.size());
        const Json complete = ops::complete_parameters(ops::find_operator(op), parameters);
        LibraryKernel k{name, ops::make(op, complete)};
        k.op_name = op, k.parameters = complete;
        d.kernels.push_back(k);
    };
    for (int n : {64, 128, 192, 256, 320, 384, 512, 768, 1024, 1536, 2048, 3072, 4096}) {
        add("matmul", {{"m", 128}, {"n", n}, {"k", 768}});
        if (d.kernels.size() < 14)
            add("matmul", {{"m", 16}, {"n", 256}, {"k", n}, {"bias", true}, {"activation", "relu"}});
    }
    for (int h : {56, 28, 14, 7}) {
        const int channels = 64 * 56 / h;
        add("conv2d", {{"c", channels}, {"h", h}, {"w", h}, {"o", channels}, {"padding", 1}});
        add("conv2d", {{"c", channels}, {"h", h}, {"w", h}, {"o", 2 * channels}, {"kh", 1}, {"kw", 1}});
        add("depthwise_conv2d", {{"c", channels}, {"h", h}, {"w", h}, {"padding", 1}});
    }
    for (const char *op : {"softmax", "layer_norm", "rms_norm"}) {
        for (int n : {128, 768, 1000}) add(op, {{"m", 256}, {"n", n}});
    }
    for (const char *op : {"relu", "gelu", "silu", "exp", "tanh", "sigmoid", "sqrt", "abs", "square", "log"}) {
        if (d.kernels.size() < 50) add(op, {{"n", "n"}});
    }
    d.kernels.resize(std::min<size_t>(d.kernels.size(), 50), d.kernels.front());
    return d;
}

} // namespace

std::vector<BenchRow> run_compile_suite(const Target &target,
                                        const std::function<void(const std::string &)> &progress) {
    std::vector<BenchRow> rows;
    const auto say = [&](const std::string &text) {
        if (progress) progress(text);
    };
    for (const auto &[name, op, parameters] : std::vector<std::tuple<std::string, std::string, Json>>{
             {"matmul 512x512x512", "matmul", {{"m", 512}, {"n", 512}, {"k", 512}}},
             {"conv 64->64 3x3 @ 56x56", "conv2d", {{"c", 64}, {"h", 56}, {"w", 56}, {"o", 64}, {"padding", 1}}},
             {"softmax 1536x128", "softmax", {{"m", 1536}, {"n", 128}}}}) {
        say(name);
        const Schedule schedule = default_schedule(ops::make(op, parameters), target.machine);
        std::vector<double> all, lowering;
        for (int i = 0; i < 22; i++) {
            const Kernel k = compile(schedule, target);
            if (i == 0) continue; // the first call starts LLVM
            all.push_back((k.report().lowering + k.report().code) * 1e-3);
            lowering.push_back(k.report().lowering * 1e-3);
        }
        rows.push_back(row_of(name + ", to callable", "ms", summarize(all), 1e3));
        rows.push_back(row_of(name + ", lowering", "ms", summarize(lowering), 1e3));
    }

    say("a library of 50 kernels");
    const LibraryDescription library = fifty_kernels();
    const TemporaryFolder scratch;
    LibraryReport report = build_library(library, scratch.path() / "without", {.self_test = false});
    rows.push_back(row_of("library of " + std::to_string(library.kernels.size()) + " kernels", "s",
                          summarize({report.seconds}), 1));
    report = build_library(library, scratch.path() / "with");
    rows.push_back(row_of("the same with its self-test", "s", summarize({report.seconds}), 1));

    say("a call");
    const Kernel tiny = compile(Schedule(ops::make("relu", {{"n", 1}}), target.machine), target);
    const Buffer<float> x({1}), y({1});
    x.data()[0] = 1;
    void *tensors[] = {x.data(), y.data()};
    rows.push_back(row_of("call of a kernel on buffers", "ns", time_one([&] { tiny(x, y); }), 1e9));
    rows.push_back(
        row_of("call of a kernel on pointers", "ns", time_one([&] { tiny.call_raw(tensors, nullptr); }), 1e9));
    return rows;
}

} // namespace kumiko::bench
