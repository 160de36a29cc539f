// kumiko run OP: compiles it, checks it against the formula, times it.
#include "cli/chip.h"
#include "cli/common.h"
#include "cli/model.h"

#include "autotune/work.h"
#include "bench/timer.h"
#include "driver/expected.h"
#include "driver/kernel.h"
#include "dsl/inout.h"
#include "runtime/kumiko_runtime.h"
#include "support/duration.h"
#include "targets/chip/compile.h"
#include "targets/lower/nest.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>

namespace kumiko::cli {

namespace {

struct RunArguments {
    OpArguments op;
    ScheduleArguments schedule;
    int threads = 1;
    double seconds = 0.3;
    bool check = true, perf = false;
    std::string target = "host", trace, report, json;
    RunModel model;
    bool nodes = false, interpret = false; // of a model
};

// The arrays for a call of the kernel, in packed form where it takes that. With `check`, sets
// `reference` and returns its arrays; otherwise the arrays are random.
std::vector<Buffer<>> argument_arrays(const Op &op, const Sizes &sizes, const Kernel &kernel, bool check,
                                      std::optional<CheckArrays> &reference) {
    std::vector<Buffer<>> arrays;
    if (check) {
        reference = make_check_arrays(op, sizes);
        arrays = reference->inputs;
    } else {
        uint64_t seed = 1;
        for (const Input &in : op.inputs()) {
            arrays.push_back(make_input(in, sizes));
            in.type.is_float() ? fill_random(arrays.back(), seed++, -1, 1)
                               : fill_random_integers(arrays.back(), seed++, in.type.is_uint() ? 0 : -4, 4);
        }
    }
    for (size_t i = 0; i < arrays.size(); i++) {
        const std::string &from = kernel.nest().tensors[i].packed_from;
        if (!from.empty()) arrays[i] = kernel.pack(from, arrays[i], sizes);
    }
    for (const std::string &o : op.separate_outputs()) {
        arrays.push_back(make_output(op, o, sizes));
        fill_unwritten(arrays.back());
    }
    return arrays;
}

void print_run(const RunArguments &a, const Op &op, const std::string &origin, const Kernel &kernel,
               const std::optional<CheckArrays> &reference, const bench::Timing &t, const std::string &rate) {
    std::cout << fmt::format("{} ({} schedule)\n", op.name(), origin);
    std::cout << fmt::format("  compiled   in {} (lowering {})\n",
                             duration_text((kernel.report().lowering + kernel.report().code) * 1e-3),
                             duration_text(kernel.report().lowering * 1e-3));
    if (reference)
        std::cout << fmt::format("  checked    {} (the formula took {})\n",
                                 reference->exact ? "every bit equals the formula's"
                                                  : "every element within its error bound",
                                 duration_text(reference->seconds));
    std::cout << fmt::format("  a call     {} (median; spread {:.1f} %), {}, {} thread{}\n", duration_text(t.median),
                             100 * t.spread(), rate, a.threads, a.threads == 1 ? "" : "s");
    for (const std::string &w : kernel.warnings()) std::cout << "  warning    " << w << "\n";
}

void run_on_host(RunArguments a) {
    const Op op = a.op.op();
    const Sizes sizes = a.op.bound_sizes();
    a.op.check_sizes(op);
    const Target target = Target::host();
    kumiko_set_num_threads(a.threads);
    a.schedule.threads = a.threads;
    std::string origin;
    const Schedule schedule = a.schedule.schedule(op, target.machine, &origin);
    CompileOptions options;
    options.perf_map = a.perf;
    const Kernel kernel = compile(schedule, target, options);

    a.op.require_sizes(op);
    std::optional<CheckArrays> reference;
    const std::vector<Buffer<>> arrays = argument_arrays(op, sizes, kernel, a.check, reference);
    const std::vector<Buffer<>> outputs = output_arrays(op, arrays);
    kernel(arrays, sizes);
    if (reference) reference->check(outputs);
    const bench::Timing t = bench::time_one([&] { kernel(arrays, sizes); }, {.budget_seconds = a.seconds});

    const Work work = count_work(op, sizes);
    if (a.json != "-") print_run(a, op, origin, kernel, reference, t, rate_text(work, t.median));
    write_json(
        a.json,
        {{"op", a.op.name},
         {"parameters", a.op.parameters()},
         {"sizes", sizes},
         {"schedule", origin},
         {"threads", a.threads},
         {"compile_ms", kernel.report().lowering + kernel.report().code},
         {"lowering_ms", kernel.report().lowering},
         {"checked", reference ? Json(reference->exact ? "equal bits" : "within bounds") : Json(nullptr)},
         {"seconds", t.median},
         {"spread", t.spread()},
         {"rate", measured_by_operations(work) ? work.operations / t.median * 1e-9 : work.bytes / t.median * 1e-9},
         {"unit", measured_by_operations(work) ? "GFLOP/s" : "GB/s"},
         {"warnings", kernel.warnings()}});
}

void run(const RunArguments &a) {
    if (is_model(a.op.name)) {
        if (!a.json.empty() || !a.trace.empty() || !a.report.empty() || a.perf || !a.op.shape.empty() ||
            !a.op.type.empty() || !a.op.sizes.empty() || !a.schedule.file.empty() || !a.schedule.database.empty() ||
            a.target != "host")
            throw UserError("a model is run with --input, --output, --constant, --bound, --threads, --rounding, "
                            "--nodes, --interpret, --against, --tolerance and --save; the other options are for ops");
        if (a.nodes && a.interpret) throw UserError("--nodes and --interpret exclude each other");
        RunModel model = a.model;
        model.path = a.op.name, model.threads = a.threads;
        if (a.nodes) model.mode = RunModel::Mode::Nodes;
        if (a.interpret) model.mode = RunModel::Mode::Interpret;
        return run_model(model);
    }
    if (!a.model.inputs.empty() || !a.model.outputs.empty() || !a.model.constants.empty() || !a.model.bounds.empty() ||
        !a.model.rounding.empty() || !a.model.against.empty() || a.nodes || a.interpret)
        throw UserError(
            "--input, --output, --constant, --bound, --rounding, --nodes, --interpret and --against are for "
            "models, files whose names end in .onnx");
    if (is_chip(a.target)) return run_on_chip({a.op, a.schedule, a.target, a.check, a.trace, a.report, a.json});
    if (a.target != "host")
        throw UserError("kumiko run runs on this machine, host, or on a simulated chip (chip:small, chip:medium, "
                        "chip:full), not on " +
                        a.target);
    if (!a.trace.empty() || !a.report.empty())
        throw UserError("--trace and --report are for the chip; give --target chip:full");
    run_on_host(a);
}

} // namespace

void add_run(CLI::App &app) {
    auto *command = app.add_subcommand(
        "run", "compile an op, check it against its formula on random inputs, and time it; or compile a "
               "model and run it once");
    auto a = std::make_shared<RunArguments>();
    a->op.add_to(*command);
    a->schedule.add_to(*command);
    command
        ->add_option("--target", a->target,
                     "host, or a simulated chip: chip:small, chip:medium, chip:full, chip:FILE.json")
        ->capture_default_str();
    command->add_option("--trace", a->trace, "for a chip: write a trace for ui.perfetto.dev")->type_name("FILE");
    command->add_option("--report", a->report, "for a chip: write a page with figures and a roofline")
        ->type_name("FILE");
    command->add_option("--threads", a->threads, "threads that the kernel may use; 0: one per processor")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    command->add_option("--seconds", a->seconds, "seconds for timing")->check(above_zero())->capture_default_str();
    command->add_flag("!--no-check", a->check, "do not evaluate the formula, which is slow for large ops");
    command
        ->add_option(
            "--input", a->model.inputs,
            "for a model MODEL.onnx: the array of an input, FILE in the model's order or NAME=FILE; .npy of NumPy "
            "or .pb of ONNX")
        ->type_name("FILE");
    command->add_option("--output", a->model.outputs, "for a model: file of an output, in the same form")
        ->type_name("FILE");
    add_constant_option(*command, a->model.constants);
    add_bound_option(*command, a->model.bounds);
    add_rounding_option(*command, a->model.rounding);
    command->add_flag("--nodes", a->nodes, "for a model: run it node by node, each as a kernel, with any shapes");
    command->add_flag("--interpret", a->interpret, "for a model: evaluate the formulas instead of compiling kernels");
    command
        ->add_option("--against", a->model.against,
                     "for a model: onnxruntime compares all values with ONNX Runtime's, and saves the first node that "
                     "differs; f64 compares each kernel with its formula in double, and the outputs with the model's")
        ->check(CLI::IsMember({"onnxruntime", "f64"}))
        ->type_name("onnxruntime|f64");
    command
        ->add_option("--tolerance", a->model.tolerance,
                     "with --against: legal difference of floats, relative to the largest element of the tensor; "
                     "default: 1e-7 for f64, 1e-3 for f32, 1e-2 for f16, 4e-2 for bf16")
        ->check(above_zero());
    command->add_option("--save", a->model.saved, "with --against: folder for the node, as a test of ONNX")
        ->type_name("FOLDER")
        ->capture_default_str();
    command->add_flag("--perf", a->perf, "name the code for `perf record`");
    add_json_option(*command, a->json);
    add_examples(
        *command,
        "  kumiko run matmul --shape m=512,n=512,k=512\n"
        "  kumiko run conv2d --shape c=64,h=56,w=56,o=64,padding=1 --tuned tuning.db --threads 2\n"
        "  kumiko run matmul --shape m=512,n=512,k=512,transpose_b=true,output=f32 --type f16 --target chip:small\n"
        "  kumiko run softmax --shape m=M,n=128 --sizes M=77 --json -\n"
        "  kumiko run model.onnx --input x.npy --output y.npy\n"
        "  kumiko run model.onnx --input x.npy --against onnxruntime");
    command->callback([a] { run(*a); });
}

} // namespace kumiko::cli
