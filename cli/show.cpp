// kumiko show OP: its forms on the way to machine code.
#include "cli/chip.h"
#include "cli/common.h"
#include "cli/model.h"

#include "autotune/alternatives.h"
#include "autotune/tune.h"
#include "driver/machines.h"
#include "schedules/summary.h"
#include "targets/chip/compile.h"
#include "targets/cpu/object.h"
#include "targets/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>

namespace kumiko::cli {

namespace {

struct ShowArguments {
    OpArguments op;
    ScheduleArguments schedule;
    std::string stage = "nest", target = "host", pass, json, output, rounding, report;
    std::vector<std::string> model_sizes, model_constants, model_bounds;
    bool times = false, why = false;
};

template<typename T>
std::string text_of(const T &value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

std::string with_newline(std::string text) { return text.empty() || text.back() == '\n' ? text : text + "\n"; }

// The other decisions that tuning would try, and their expected costs.
std::string alternatives_text(const Op &op, const Schedule &schedule, const Space &space, const Sizes &sizes,
                              Json &report) {
    for (const std::string &size : op.sizes()) {
        if (!sizes.count(size))
            return "\nfor the expected costs of other decisions, give sizes: --sizes " + size + "=100\n";
    }
    const Point point = space.default_point();
    if (space.schedule(point).to_json() != schedule.to_json())
        return "\ntuning begins with another schedule, so that other decisions cannot be listed beside this one\n";
    const auto all = alternatives(space, point, *CostModel::shipped(space.machine()), 1, sizes);
    size_t width = 0;
    for (const Alternative &o : all) width = std::max(width, o.change.size());
    std::string text;
    for (const Alternative &o : all) {
        text += o.against.empty()
                    ? fmt::format("{:<{}}  time {:5.2f}  model {:+.2f}\n", o.change, width, o.relative, o.score)
                    : fmt::format("{:<{}}  not here: {}\n", o.change, width, o.against);
        report["alternatives"].push_back(
            {{"change", o.change}, {"time", o.relative}, {"model", o.score}, {"against", o.against}});
    }
    return text.empty() ? ""
                        : "\nother decisions, for one thread (time: counted, 1 is the schedule above; model: "
                          "expected speed, above 0 is faster):\n" +
                              text;
}

// The candidates that the default was compared with.
std::string compared_text(const Space &space, Json &report) {
    std::string text;
    report["compared"] = Json::array();
    for (const ComparedPoint &other : space.compared()) {
        text += other.change;
        if (other.relative_time > 0) text += fmt::format("  time {:.2f}", other.relative_time);
        if (other.score) text += fmt::format("  model {:+.2f}", *other.score);
        text += other.relative_time > 0 ? other.chosen ? "  taken\n" : "  not taken\n" : "  has no schedule\n";
        report["compared"].push_back({{"change", other.change},
                                      {"time", other.relative_time},
                                      {"model", other.score ? Json(*other.score) : Json(nullptr)},
                                      {"taken", other.chosen}});
    }
    return text.empty() ? ""
                        : "\nthe default was compared with these in turn (time: counted, 1 is the best one till then; "
                          "model: expected speed):\n" +
                              text;
}

// The stages for which the default uses the loops of their sketch (autotune/choice.h).
std::string sketched_text(const Space &space) {
    const Json decisions = space.to_json(space.default_point());
    std::string stages;
    for (const auto &[name, value] : decisions.items()) {
        if (value == "sketch") stages += (stages.empty() ? "; sketch of " : ", ") + name.substr(0, name.rfind('.'));
    }
    return stages;
}

// The schedule's decisions for each stage, and the expected costs of other decisions.
std::string explain_choice(const ShowArguments &a, const Op &op, const Schedule &schedule, const Target &target,
                           const std::string &origin, const std::string &candidate, Json &report) {
    std::unique_ptr<Space> space; // null for schedules other than the default
    if (!candidate.empty()) {
        const PackedBy packed_by = a.schedule.ahead ? PackedBy::Caller : PackedBy::Kernel;
        space = space_for(op, target.machine, SpaceKind::Fitting, packed_by).second;
    }
    std::string text = "schedule: " + origin;
    if (candidate == "elementwise")
        text += ", by rules for each stage" + sketched_text(*space);
    else if (space)
        text += ", the library's " + candidate;
    text += "\n\n";
    const std::vector<StageSummary> stages = summaries(schedule);
    size_t width = 0, sketch_width = 0;
    for (const StageSummary &s : stages) {
        width = std::max(width, s.stage.size());
        sketch_width = std::max(sketch_width, s.sketch.size());
    }
    for (const StageSummary &s : stages) {
        text += fmt::format("{:<{}}  {:<{}}  {}\n", s.stage, width, s.sketch, sketch_width, s.text);
        report["stages"].push_back({{"stage", s.stage}, {"sketch", s.sketch}, {"text", s.text}});
    }
    if (!space) return text;
    return text + compared_text(*space, report) + alternatives_text(op, schedule, *space, a.op.bound_sizes(), report);
}

void show(const ShowArguments &a) {
    const Op op = a.op.op();
    const bool chip = is_chip(a.target),
               of_chip = a.stage == "l3" || a.stage == "l2" || a.stage == "l1" || a.stage == "words";
    if (of_chip && !chip) throw UserError("--stage " + a.stage + " is for the chip only; give --target chip:small");
    if (chip && (a.stage == "ir" || a.stage == "llvm" || a.stage == "asm"))
        throw UserError("--stage " + a.stage + " is for processors only; the chip has l3, l2, l1 and words");
    const Target target = chip ? Target{machine_named(a.target), {}} : Target::named(a.target);
    if (!a.pass.empty() && a.stage != "ir")
        throw UserError("--pass prints the IR after a pass: it needs --stage ir, not --stage " + a.stage);
    if (a.why && a.stage != "nest")
        throw UserError("--why takes the place of --stage " + a.stage + "; give one of them");
    Json report = {{"op", a.op.name}, {"parameters", a.op.parameters()}, {"stage", a.stage}, {"target", a.target}};
    std::string text;
    if (a.stage == "formula") {
        text = op.to_string();
    } else {
        std::string origin, candidate;
        const Schedule schedule = a.schedule.schedule(op, target.machine, &origin, &candidate);
        report["schedule"] = origin;
        report["directives"] = Json(schedule.to_json());
        if (a.stage == "schedule")
            text = schedule.to_cpp();
        else if (a.stage == "explain")
            text = schedule.explain();
        else if (a.why)
            text = explain_choice(a, op, schedule, target, origin, candidate, report);
        else if (a.stage == "nest")
            text = text_of(schedule.nest());
        else if (of_chip)
            text = show_on_chip(schedule, a.stage);
        else {
            std::vector<PassReport> passes;
            std::string passed;
            LowerOptions options;
            options.timings = &passes;
            if (!a.pass.empty()) {
                const auto names = pass_names();
                if (std::find(names.begin(), names.end(), a.pass) == names.end())
                    throw UserError("there is no pass \"" + a.pass +
                                    "\"; there are: " + fmt::format("{}", fmt::join(names, ", ")));
                options.print = [&](const std::string &pass, const Halide::Internal::Stmt &body) {
                    if (pass == a.pass) passed = text_of(body);
                };
            }
            const Nest nest = lower(schedule, options);
            std::vector<Nest> nests = {nest};
            for (const Nest &pack : nest.packs) nests.push_back(pack);
            CodegenOptions codegen;
            codegen.target = target.cpu;
            if (a.stage == "ir") {
                if (!a.pass.empty())
                    text = passed;
                else
                    for (const Nest &n : nests) text += with_newline(text_of(n.body));
            }
            if (a.stage == "llvm") text = compile_llvm_ir(nests, codegen);
            if (a.stage == "asm") text = compile_assembly(nests, codegen);
            report["passes"] = Json::array();
            for (const PassReport &p : passes) {
                report["passes"].push_back({{"name", p.name}, {"milliseconds", p.milliseconds}});
                if (a.times) std::cerr << fmt::format("{:>8.2f} ms  {}\n", p.milliseconds, p.name);
            }
        }
    }
    report["text"] = text;
    if (a.json != "-") std::cout << with_newline(text);
    write_json(a.json, report);
}

const std::vector<std::string> stages_of_model = {"fixed", "simplified", "fused", "planned"};

bool is_stage_of_model(const std::string &stage) {
    return std::count(stages_of_model.begin(), stages_of_model.end(), stage) > 0;
}

void show_stage_of_model(const ShowArguments &a, bool staged) {
    if (staged && !is_stage_of_model(a.stage))
        throw UserError(
            fmt::format("a model has no stage \"{}\"; there are: {}", a.stage, fmt::join(stages_of_model, ", ")));
    if (staged && !a.report.empty())
        throw UserError("--report shows the whole model, and --stage one stage of it; give one of them");
    if (!a.report.empty() && !a.output.empty())
        throw UserError("--output is for a stage of a model; --report names the file of the page");
    const ShowModel model = {
        a.op.name, staged ? a.stage : "", a.model_sizes, a.model_constants, a.model_bounds, a.rounding, a.output};
    a.report.empty() ? show_model(model) : report_model(model, a.report);
}

void show_op(const ShowArguments &a) {
    if (is_stage_of_model(a.stage) || !a.rounding.empty() || !a.model_sizes.empty() || !a.model_constants.empty() ||
        !a.model_bounds.empty() || !a.output.empty() || !a.report.empty())
        throw UserError(fmt::format(
            "the stages {}, --size, --constant, --bound, --rounding, --output and --report are for models (FILE.onnx)",
            fmt::join(stages_of_model, ", ")));
    show(a);
}

} // namespace

void add_show(CLI::App &app) {
    auto *command =
        app.add_subcommand("show", "print formula, schedule, loop nest, IR, LLVM IR or assembly of an op, or "
                                   "the nodes of a model with their types");
    auto a = std::make_shared<ShowArguments>();
    a->op.add_to(*command);
    auto *stage =
        command
            ->add_option("--stage", a->stage,
                         "formula, schedule (as C++), explain (the nest after each directive), nest, ir (final Halide "
                         "IR), llvm, asm; of the chip l3 (tensors in DRAM), l2 (loops, moves, memories), l1 "
                         "(operations), words; of a model fixed (sizes are numbers), simplified (by the rules of "
                         "graphs), fused (a node for "
                         "each kernel), planned (with the order and places in memory)")
            ->check(CLI::IsMember({"formula", "schedule", "explain", "nest", "ir", "llvm", "asm", "l3", "l2", "l1",
                                   "words", "fixed", "simplified", "fused", "planned"}))
            ->capture_default_str();
    a->schedule.add_to(*command);
    command
        ->add_option("--target", a->target,
                     "a level, such as x86-64-avx2 or aarch64, or chip:small; `kumiko machine --list` lists them")
        ->capture_default_str();
    command->add_option("--pass", a->pass, "with --stage ir: print the IR after this pass");
    command->add_flag("--why", a->why,
                      "print the schedule's decisions for each stage, and the expected costs of others");
    command->add_flag("--times", a->times, "print the time of each pass too");
    add_size_options(*command, a->model_sizes, a->model_constants);
    add_bound_option(*command, a->model_bounds);
    add_rounding_option(*command, a->rounding);
    command->add_option("-o,--output", a->output, "of a model: file for the stage, as ONNX");
    command
        ->add_option("--report", a->report,
                     "of a model: write a page with its graph, kernels, memory, and what was fused")
        ->type_name("FILE.html");
    add_json_option(*command, a->json);
    add_examples(*command, "  kumiko show matmul --shape m=512,n=512,k=512 --stage nest\n"
                           "  kumiko show gelu --shape n=4096 --type bf16 --stage asm --target x86-64-avx512\n"
                           "  kumiko show softmax --shape m=M,n=128 --stage ir\n"
                           "  kumiko show softmax --shape m=64,n=1000 --why\n"
                           "  kumiko show model.onnx\n"
                           "  kumiko show model.onnx --stage simplified --size batch=1 -o simplified.onnx\n"
                           "  kumiko show model.onnx --size batch=1 --report page.html");
    command->callback([a, stage] { is_model(a->op.name) ? show_stage_of_model(*a, stage->count() > 0) : show_op(*a); });
}

} // namespace kumiko::cli
