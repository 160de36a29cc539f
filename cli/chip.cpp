#include "cli/chip.h"

#include "driver/machines.h"
#include "driver/simulated.h"
#include "support/atomic_file.h"
#include "support/duration.h"

#include <fmt/format.h>

#include <iostream>

namespace kumiko::cli {

void run_on_chip(const ChipArguments &a) {
    const Op op = a.op.op();
    if (!a.op.sizes.empty())
        throw UserError("programs of the chip need constant sizes: give them with --shape, not with --sizes");
    std::string origin;
    const Schedule schedule = a.schedule.schedule(op, machine_named(a.target), &origin);
    const ChipProgram program = compile_chip(schedule);
    sim::SimulateOptions options;
    options.trace = !a.trace.empty();
    const auto [run, reference] = run_simulated(program, a.check, options);
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
