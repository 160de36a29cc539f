// kumiko machine
#include "cli/common.h"

#include "bench/peak.h"
#include "bench/timer.h"
#include "driver/machines.h"
#include "targets/chip/compile.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>

namespace kumiko::cli {

void add_machine(CLI::App &app) {
    auto *command = app.add_subcommand("machine", "print the machine table that schedules use");
    struct MachineArguments {
        std::string name = "host", json;
        bool list = false, measure = false;
    };
    auto a = std::make_shared<MachineArguments>();
    command->add_option("name", a->name, "this machine, or a level to compile for")->capture_default_str();
    command->add_flag("--list", a->list, "list the levels");
    command->add_flag("--measure", a->measure, "measure its multiply-adds and its copying (this machine only)");
    add_json_option(*command, a->json);
    add_examples(*command, "  kumiko machine\n  kumiko machine --measure --json -\n  kumiko machine x86-64-avx512");
    command->callback([a] {
        const bool text = a->json != "-";
        if (a->list) {
            Json names = Json::array();
            for (const std::string &n : machine_names()) {
                if (text) std::cout << n << "\n";
                names.push_back(n);
            }
            return write_json(a->json, names);
        }
        if (is_chip(a->name)) {
            const Machine chip = machine_named(a->name);
            if (a->measure) throw UserError("only this machine can be measured, not " + a->name);
            if (text) std::cout << chip.to_string();
            return write_json(a->json, {{"machine", parse_json(chip.save(), "machine")}, {"id", chip.id()}});
        }
        const Target target = Target::named(a->name);
        Json report = {{"machine", parse_json(target.machine.save(), "machine")},
                       {"id", target.machine.id()},
                       {"target", parse_json(target.cpu.to_json(), "target")}};
        if (text) {
            std::cout << target.machine.to_string();
            std::cout << fmt::format("compiles for {} ({}), {}-bit vectors\n", target.cpu.cpu, target.cpu.triple,
                                     target.cpu.vector_bits);
        }
        if (a->measure) {
            if (a->name != "host") throw UserError("only this machine can be measured, not " + a->name);
            Json measured = Json::object();
            for (const bench::CountedWork &w : {bench::fma_peak(), bench::copy_bandwidth()}) {
                const bench::Timing t = bench::time_one(w.run);
                const double rate = (w.flops > 0 ? w.flops : w.bytes) * 1e-9 / t.median;
                if (text)
                    std::cout << fmt::format("measured, one thread: {}: {:.1f} {}\n", w.name, rate,
                                             w.flops > 0 ? "GFLOP/s" : "GB/s");
                measured[w.flops > 0 ? "fma_gflops" : "copy_gbs"] = rate;
            }
            report["measured"] = measured;
        }
        write_json(a->json, report);
    });
}

} // namespace kumiko::cli
