#include "cli/chip.h"

#include "driver/expected.h"
#include "driver/machines.h"
#include "support/atomic_file.h"
#include "support/duration.h"
#include "targets/chip/compile.h"

#include <fmt/format.h>

#include <iostream>

namespace kumiko::cli {

void run_on_chip(const ChipArguments &a) {
    const Op op = a.op.op();
    if (!a.op.sizes.empty())
        throw UserError("programs of the chip are made for given sizes: state them with --shape, not with --sizes");
    std::string origin;
    const Schedule schedule = a.schedule.schedule(op, machine_named(a.target), &origin);
    const ChipProgram program = compile_chip(schedule);
    std::optional<CheckArrays> reference;
    std::vector<Buffer<>> arrays;
    if (a.check) {
        reference = make_check_arrays(op, {});
        arrays = reference->inputs;
    } else {
        uint64_t seed = 1;
        for (const Input &in : op.inputs()) {
            arrays.push_back(make_input(in, {}));
            in.type.is_float() ? fill_random(arrays.back(), seed++, -1, 1)
                               : fill_random_integers(arrays.back(), seed++, in.type.is_uint() ? 0 : -4, 4);
        }
    }
    std::vector<Buffer<>> outputs;
    for (const std::string &o : op.outputs()) {
        outputs.push_back(make_output(op, o, {}));
        fill_unwritten(outputs.back());
        arrays.push_back(outputs.back());
    }
    sim::SimulateOptions options;
    options.trace = !a.trace.empty();
    const sim::Run run = program.run(arrays, options);
    if (reference) reference->check(outputs);
    if (!a.trace.empty()) run.save_trace(a.trace);
    if (!a.report.empty()) write_file_atomically(a.report, run.html());
    if (a.json != "-") {
        std::cout << fmt::format("{} ({} schedule) on {}\n", op.name(), origin, a.target);
        std::cout << fmt::format("  compiled   {} operations into {} words in {}\n", program.operations(),
                                 program.program().words.size(), duration_text(program.seconds()));
        if (reference)
            std::cout << fmt::format("  checked    {} (the formula took {})\n",
                                     reference->exact ? "every bit equals the formula's"
                                                      : "every element within its error bound",
                                     duration_text(reference->seconds));
        std::cout << run.report();
    }
    Json json = run.json();
    json["op"] = a.op.name;
    json["parameters"] = a.op.parameters();
    json["target"] = a.target;
    json["schedule"] = origin;
    json["compile_ms"] = program.seconds() * 1e3;
    json["checked"] = reference ? Json(reference->exact ? "equal bits" : "within bounds") : Json(nullptr);
    write_json(a.json, json);
}

std::string show_on_chip(const Schedule &schedule, const std::string &stage) {
    const ChipProgram program = compile_chip(schedule);
    if (stage == "l3") return program.l3();
    if (stage == "l2") return program.l2();
    if (stage == "l1") return program.l1();
    return program.words();
}

} // namespace kumiko::cli
