#include "cli/model.h"

#include "cli/against.h"
#include "cli/against_f64.h"
#include "cli/common.h"
#include "dsl/npy.h"
#include "dsl/types.h"
#include "graph/build/compiled_model.h"
#include "graph/build/stages.h"
#include "graph/report/page.h"
#include "runtime/kumiko_runtime.h"
#include "support/atomic_file.h"
#include "support/duration.h"
#include "support/error.h"
#include "support/names.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>

namespace kumiko::cli {

namespace {

bool ends_with(const std::string &text, const std::string &end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Files by the names of values, of arguments "FILE" or "NAME=FILE".
std::vector<std::string> files_of(const std::vector<std::string> &arguments,
                                  const std::vector<graph::ValueInfo> &values, const std::string &kind) {
    std::vector<std::string> files(values.size());
    size_t next = 0;
    for (const std::string &argument : arguments) {
        const size_t equals = argument.find('=');
        size_t at = next;
        if (equals != std::string::npos) {
            std::vector<std::string> names;
            for (const graph::ValueInfo &v : values) names.push_back(v.name);
            const std::string name = argument.substr(0, equals);
            at = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
            if (at == names.size())
                throw UserError(fmt::format("the model has no {} \"{}\"{}", kind, name, suggest(name, names)));
        } else {
            while (next < files.size() && !files[next].empty()) next++; // named before
            at = next;
        }
        if (at >= values.size())
            throw UserError(fmt::format("the model has only {} {}s, but more files are given", values.size(), kind));
        if (!files[at].empty()) throw UserError(fmt::format("{} {} is given two files", kind, values[at].name));
        files[at] = equals == std::string::npos ? argument : argument.substr(equals + 1);
    }
    return files;
}

// Numbers in the type of the model's input. One number is a scalar where the input is.
Buffer<> integers_as(const std::vector<int64_t> &numbers, const std::string &name, const graph::Model &model) {
    Type type = i64;
    std::vector<int64_t> extents = {static_cast<int64_t>(numbers.size())};
    for (const graph::ValueInfo &in : model.graph().inputs) {
        if (in.name != name) continue;
        if (in.type) type = *in.type;
        if (in.shape && in.shape->empty() && numbers.size() == 1) extents.clear();
    }
    Buffer<> made(type, extents);
    for (size_t n = 0; n < numbers.size(); n++) {
        if (type == i64)
            static_cast<int64_t *>(made.data())[n] = numbers[n];
        else if (type == i32 && numbers[n] != static_cast<int32_t>(numbers[n]))
            throw UserError(
                fmt::format("--constant {}: {} is out of range of the input's type, i32", name, numbers[n]));
        else if (type == i32)
            static_cast<int32_t *>(made.data())[n] = static_cast<int32_t>(numbers[n]);
        else
            throw UserError(fmt::format("--constant {}: the input is of {}; numbers are given for i64 and i32, and a "
                                        "file *.npy or *.pb for others",
                                        name, type_name(type)));
    }
    return made;
}

size_t position_of(const std::vector<graph::ValueInfo> &values, const std::string &name) {
    size_t n = 0;
    while (values.at(n).name != name) n++;
    return n;
}

// The options of a program for inputs of these sizes.
graph::CompileModelOptions options_for(const graph::Model &model, const std::vector<Buffer<>> &inputs,
                                       const std::map<std::string, Buffer<>> &constants,
                                       const std::vector<std::string> &bounds, const std::string &rounding) {
    graph::CompileModelOptions options;
    options.constants = constants;
    options.bounds = bounds_of(bounds);
    options.rules->rounding = rounding_of(rounding);
    const std::map<std::string, int64_t> sizes = graph::check_inputs(model, inputs);
    for (const graph::ValueInfo &in : model.graph().inputs) {
        if (constants.count(in.name) || !in.shape) continue;
        for (size_t d = 0; d < in.shape->size(); d++) {
            if (!(*in.shape)[d].number) options.sizes[in.symbol(d)] = sizes.at(in.symbol(d));
        }
    }
    return options;
}

graph::CompiledModel compile(const graph::Model &model, const graph::CompileModelOptions &options) {
    try {
        return graph::CompiledModel::compile(model, options);
    } catch (const Unsupported &e) {
        throw Unsupported(fmt::format("{}\n  --nodes runs the model node by node, also loops and shapes that depend on "
                                      "data; --constant NAME=VALUES compiles it with an input that is the same in all "
                                      "runs",
                                      e.what()));
    }
}

// Values whose sizes depend on data are dense in the begin of arrays of the largest size.
void cut_to_size(std::map<std::string, Buffer<>> &made, const graph::FixedGraph &graph) {
    for (auto &[name, array] : made) {
        const auto known = graph.values.find(name);
        if (known == graph.values.end() || !known->second.bounded) continue;
        const auto size = made.find(known->second.bounded->size);
        if (size == made.end() || array.extents() != known->second.extents) continue;
        std::vector<int64_t> extents = array.extents();
        std::memcpy(&extents[known->second.bounded->axis], size->second.data(), sizeof(int64_t));
        const Buffer<> all = array;
        array = Buffer<>::wrap(all.type(), all.data(), extents).copy();
    }
}

} // namespace

std::string shape_text(const Buffer<> &b) {
    return fmt::format("{}[{}]", type_name(b.type()), fmt::join(b.extents(), ","));
}

void add_size_options(CLI::App &command, std::vector<std::string> &sizes, std::vector<std::string> &constants) {
    command
        .add_option("--size", sizes,
                    "a number for an open size of a model's inputs, as batch=1, or for `build` a range, as batch=1..64 "
                    "or rows=32..512:32; may be repeated")
        ->type_name("NAME=N");
    add_constant_option(command, constants);
}

void add_constant_option(CLI::App &command, std::vector<std::string> &constants) {
    command
        .add_option("--constant", constants,
                    "an input of a model that is the same in all runs, as axes=0,1 or table=FILE.npy; may be repeated")
        ->type_name("NAME=VALUES");
}

void add_rounding_option(CLI::App &command, std::string &rounding) {
    command
        .add_option("--rounding", rounding,
                    "rules for a model's graph: exact, results are equal in bits; close, values are rounded at other "
                    "places (default); fast, also Winograd's algorithm for convolutions")
        ->check(CLI::IsMember(graph::rounding_names()))
        ->type_name("exact|close|fast");
}

graph::Rounding rounding_of(const std::string &argument) {
    return argument.empty() ? graph::Rounding::Close : graph::rounding_named(argument);
}

namespace {

std::map<std::string, int64_t> numbers_of(const std::vector<std::string> &arguments, const char *option,
                                          const char *name) {
    std::map<std::string, int64_t> sizes;
    for (const std::string &argument : arguments) {
        const size_t equals = argument.rfind('=');
        const std::string number = equals == std::string::npos ? "" : argument.substr(equals + 1);
        if (equals == 0 || number.empty() || number.size() > 10 ||
            number.find_first_not_of("0123456789") != std::string::npos)
            throw UserError(fmt::format("{} {}: expected NAME=N, such as {}", option, argument, name));
        if (!sizes.emplace(argument.substr(0, equals), std::stoll(number)).second)
            throw UserError(
                fmt::format("{} {}: the {} is stated twice", option, argument, std::string(option).substr(2)));
    }
    return sizes;
}

} // namespace

bool is_range(const std::string &argument) {
    const size_t equals = argument.rfind('=');
    return equals != std::string::npos && argument.find("..", equals) != std::string::npos;
}

std::vector<graph::OpenSize> ranges_of(const std::vector<std::string> &arguments) {
    static const std::regex form("(.+)=([0-9]{1,10})\\.\\.([0-9]{1,10})(:([0-9]{1,10}))?");
    std::vector<graph::OpenSize> ranges;
    for (const std::string &argument : arguments) {
        std::smatch found;
        if (!std::regex_match(argument, found, form))
            throw UserError(
                fmt::format("--size {}: expected NAME=LO..HI or NAME=LO..HI:STEP, such as batch=1..64", argument));
        const auto known = [&](const graph::OpenSize &s) { return s.name == found[1]; };
        if (std::any_of(ranges.begin(), ranges.end(), known))
            throw UserError(fmt::format("--size {}: the size is stated twice", argument));
        ranges.push_back(
            {found[1], std::stoll(found[2]), std::stoll(found[3]), found[5].matched ? std::stoll(found[5]) : 1});
    }
    return ranges;
}

std::map<std::string, int64_t> sizes_of(const std::vector<std::string> &arguments) {
    for (const std::string &argument : arguments) {
        if (is_range(argument))
            throw UserError(fmt::format("--size {}: ranges are for `kumiko build`, which makes a library for all sizes "
                                        "of a range; legal is NAME=N, such as batch=1",
                                        argument));
    }
    return numbers_of(arguments, "--size", "batch=1");
}

void add_state_option(CLI::App &command, std::vector<std::string> &states) {
    command
        .add_option("--state", states,
                    "an input that the library keeps from one run to the next, and the output that replaces it, as "
                    "h=hn; `auto` finds such pairs by their names; may be repeated")
        ->type_name("IN=OUT");
}

void add_bound_option(CLI::App &command, std::vector<std::string> &bounds) {
    command
        .add_option("--bound", bounds,
                    "the most iterations of a loop whose number of iterations depends on data, by the name of its "
                    "node, as loop1=100; may be repeated")
        ->type_name("NODE=N");
}

graph::StatePairs states_of(const std::vector<std::string> &arguments, const graph::Model &model) {
    graph::StatePairs states;
    for (const std::string &argument : arguments) {
        if (argument == "auto") {
            const graph::StatePairs found = graph::find_states(model.graph());
            if (found.empty())
                throw UserError(fmt::format("--state auto: {} has no input and output with names of states, such "
                                            "as h and hn, and equal types and shapes; name them, as --state h=hn",
                                            model.name()));
            states.insert(states.end(), found.begin(), found.end());
            std::string chosen;
            for (const auto &[in, out] : found) chosen += fmt::format(" --state {}={}", in, out);
            std::cerr << "--state auto stands for" << chosen << "\n";
            continue;
        }
        const size_t equals = argument.find('=');
        if (equals == std::string::npos || equals == 0 || equals + 1 == argument.size())
            throw UserError(fmt::format("--state {}: expected IN=OUT, such as h=hn, or auto", argument));
        states.emplace_back(argument.substr(0, equals), argument.substr(equals + 1));
    }
    return states;
}

std::map<std::string, int64_t> bounds_of(const std::vector<std::string> &arguments) {
    return numbers_of(arguments, "--bound", "loop1=100");
}

std::map<std::string, Buffer<>> constants_of(const std::vector<std::string> &arguments, const graph::Model &model) {
    std::map<std::string, Buffer<>> constants;
    for (const std::string &argument : arguments) {
        const size_t equals = argument.find('=');
        if (equals == std::string::npos || equals == 0 || equals + 1 == argument.size())
            throw UserError(
                fmt::format("--constant {}: expected NAME=VALUES, such as axes=0,1 or table=FILE.npy", argument));
        const std::string name = argument.substr(0, equals), text = argument.substr(equals + 1);
        Buffer<> value;
        if (ends_with(text, ".npy")) {
            value = load_npy(text);
        } else if (ends_with(text, ".pb")) {
            value = graph::load_tensor(text);
        } else {
            std::vector<int64_t> numbers;
            std::stringstream all(text);
            for (std::string one; std::getline(all, one, ',');) {
                size_t used = 0;
                try {
                    numbers.push_back(std::stoll(one, &used));
                } catch (const std::exception &) {
                    used = 0;
                }
                if (used == 0 || used != one.size())
                    throw UserError(fmt::format("--constant {}: \"{}\" is no whole number; legal are int64 values "
                                                "separated by commas, or a file *.npy or *.pb",
                                                argument, one));
            }
            value = integers_as(numbers, name, model);
        }
        if (!constants.emplace(name, value).second)
            throw UserError(fmt::format("--constant {}: the input is stated twice", argument));
    }
    return constants;
}

graph::CompileProgress phases_of(Progress &progress) {
    const auto current = std::make_shared<std::string>();
    return [&progress, current](const std::string &phase, size_t done, size_t pieces) {
        if (phase != *current) progress.begin_phase(*current = phase, int64_t(pieces));
        progress.update(int64_t(done));
    };
}

bool is_model(const std::string &name) { return ends_with(name, ".onnx"); }

void show_model(const ShowModel &a) {
    graph::Model model = graph::Model::load(a.path);
    model.check();
    if (a.stage.empty()) {
        if (!a.sizes.empty() || !a.constants.empty() || !a.bounds.empty() || !a.output.empty() || !a.rounding.empty())
            throw UserError("--size, --constant, --bound, --rounding and --output are for a stage of a model; give "
                            "--stage fixed, simplified, fused or planned, or --report for a page");
    } else {
        if (a.stage == "fixed" && !a.rounding.empty())
            throw UserError("--rounding chooses rules, and the stage \"fixed\" is before them; legal is "
                            "--stage simplified");
        require_folder_of(a.output);
        graph::FixedGraph graph = graph::fix_sizes(
            model, {sizes_of(a.sizes), constants_of(a.constants, model), graph::run_by_kernels(), bounds_of(a.bounds)});
        if (a.stage != "fixed") std::cerr << graph::simplify(graph, {.rounding = rounding_of(a.rounding)}).text();
        model = a.stage == "fused"     ? graph::fused_model(graph)
                : a.stage == "planned" ? graph::planned_model(graph, {}, graph::estimated_seconds(Target::host()))
                                       : graph::to_model(graph);
        model.check();
        if (!a.output.empty()) model.save(a.output);
    }
    std::cout << model.text();
}

void report_model(const ShowModel &a, const std::string &file) {
    require_folder_of(file);
    const graph::Model model = graph::Model::load(a.path);
    model.check();
    graph::CompileModelOptions options;
    options.sizes = sizes_of(a.sizes), options.constants = constants_of(a.constants, model);
    options.bounds = bounds_of(a.bounds), options.rules->rounding = rounding_of(a.rounding);
    Progress progress(std::cerr, progress_style(2), "reading " + a.path, 0, [] { return terminal_columns(2); });
    options.progress = phases_of(progress);
    const Target target = Target::host();
    const graph::FixedGraph graph = graph::make_graph(model, options);
    graph::Program program = graph::make_model_program(graph, options, target);
    const std::vector<graph::PreparedKernel> kernels = graph::prepare_model(program, options, target);
    graph::ModelReport report =
        graph::report_model(graph, options.groups, program, graph::report_kernels(program, kernels, target));
    report.sizes = a.sizes;
    write_file_atomically(file, graph::model_page(report));
    progress.finish();
    std::cout << fmt::format("{}: {} nodes as {} step{}; `kumiko bench {} --report FILE.html` adds their times\n", file,
                             graph.nodes.size(), program.steps.size(), program.steps.size() == 1 ? "" : "s", a.path);
}

void run_model(const RunModel &a) {
    const graph::Model model = graph::Model::load(a.path);
    model.check();
    const std::vector<graph::ValueInfo> &inputs = model.graph().inputs, &outputs = model.graph().outputs;
    const std::vector<std::string> from = files_of(a.inputs, inputs, "input"),
                                   to = files_of(a.outputs, outputs, "output");
    const bool whole = a.mode == RunModel::Mode::Program;
    if (!whole && !a.rounding.empty())
        throw UserError("--rounding chooses rules for the whole model; --nodes and --interpret run its nodes as they "
                        "are");
    if (!whole && !a.bounds.empty())
        throw UserError("--bound is for the compiled model; --nodes and --interpret run loops of any length");
    const std::map<std::string, Buffer<>> constants = constants_of(a.constants, model);
    std::vector<Buffer<>> arrays;
    for (size_t n = 0; n < inputs.size(); n++) {
        const auto constant = constants.find(inputs[n].name);
        if (constant != constants.end() && !from[n].empty())
            throw UserError(
                fmt::format("input {} is given by --input and --constant; legal is one of them", inputs[n].name));
        if (constant == constants.end() && from[n].empty())
            throw UserError(
                fmt::format("input {} has no file; give --input {}=FILE.npy", inputs[n].text(), inputs[n].name));
        arrays.push_back(constant != constants.end() ? constant->second
                         : ends_with(from[n], ".pb") ? graph::load_tensor(from[n])
                                                     : load_npy(from[n]));
    }
    graph::check_inputs(model, arrays);
    kumiko_set_num_threads(a.threads);
    std::map<std::string, Buffer<>> made; // for the comparison
    std::function<void(const std::string &, const Buffer<> &)> keep;
    if (a.against == "onnxruntime")
        keep = [&](const std::string &name, const Buffer<> &value) { made[name] = value.copy(); };

    const auto begin = std::chrono::steady_clock::now();
    std::vector<Buffer<>> results;
    std::string what;
    if (a.against == "f64") {
        if (!whole)
            throw UserError("--against f64 compares the kernels of the compiled model; legal is without --nodes and "
                            "--interpret");
        results = compare_with_f64(model, options_for(model, arrays, constants, a.bounds, a.rounding), arrays);
        what = fmt::format("{} nodes", model.graph().nodes.size());
    } else if (whole) {
        const graph::CompileModelOptions options = options_for(model, arrays, constants, a.bounds, a.rounding);
        const graph::CompiledModel compiled = compile(model, options);
        std::vector<Buffer<>> open; // without constants
        for (const graph::ProgramTensor &in : compiled.program().inputs)
            open.push_back(arrays[position_of(inputs, in.name)]);
        results = compiled.run(open, keep);
        if (keep) cut_to_size(made, graph::make_graph(model, options));
        what = fmt::format("{} nodes as {} steps", model.graph().nodes.size(), compiled.program().steps.size());
    } else {
        graph::EvaluateOptions options;
        if (a.mode == RunModel::Mode::Nodes) options.run = graph::run_by_kernels();
        options.made = keep;
        results = graph::evaluate(model, arrays, options);
        what = fmt::format("{} nodes", model.graph().nodes.size());
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    for (size_t n = 0; n < results.size(); n++) {
        std::cout << fmt::format("{}: {}{}\n", outputs[n].name, shape_text(results[n]),
                                 to[n].empty() ? "" : " -> " + to[n]);
        if (to[n].empty()) continue;
        ends_with(to[n], ".pb") ? graph::save_tensor(to[n], results[n], outputs[n].name) : save_npy(to[n], results[n]);
    }
    std::cerr << fmt::format("{} in {}{}\n", what, duration_text(taken.count()),
                             a.mode == RunModel::Mode::Interpret ? "" : ", compiling included");
    if (!keep) return;
    for (size_t n = 0; n < inputs.size(); n++) made[inputs[n].name] = arrays[n];
    compare_with_onnxruntime(model, made, {a.tolerance, a.saved, whole});
}

} // namespace kumiko::cli
