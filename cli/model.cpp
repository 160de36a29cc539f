#include "cli/model.h"

#include "cli/common.h"
#include "dsl/npy.h"
#include "dsl/types.h"
#include "graph/build/compiled_model.h"
#include "graph/build/stages.h"
#include "runtime/kumiko_runtime.h"
#include "support/duration.h"
#include "support/error.h"
#include "support/names.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <map>
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

std::string shape_text(const Buffer<> &b) {
    std::string text = type_name(b.type()) + "[";
    for (size_t d = 0; d < b.rank(); d++) text += (d ? "," : "") + std::to_string(b.extent(d));
    return text + "]";
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

} // namespace

void add_size_options(CLI::App &command, std::vector<std::string> &sizes, std::vector<std::string> &constants) {
    command.add_option("--size", sizes, "a number for an open size of a model's inputs, as batch=1; may be repeated")
        ->type_name("NAME=N");
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

std::map<std::string, int64_t> sizes_of(const std::vector<std::string> &arguments) {
    std::map<std::string, int64_t> sizes;
    for (const std::string &argument : arguments) {
        const size_t equals = argument.rfind('=');
        const std::string number = equals == std::string::npos ? "" : argument.substr(equals + 1);
        if (equals == 0 || number.empty() || number.size() > 10 ||
            number.find_first_not_of("0123456789") != std::string::npos)
            throw UserError(fmt::format("--size {}: expected NAME=N, such as batch=1", argument));
        if (!sizes.emplace(argument.substr(0, equals), std::stoll(number)).second)
            throw UserError(fmt::format("--size {}: the size is stated twice", argument));
    }
    return sizes;
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

bool is_model(const std::string &name) { return ends_with(name, ".onnx"); }

void show_model(const ShowModel &a) {
    graph::Model model = graph::Model::load(a.path);
    model.check();
    if (a.stage.empty()) {
        if (!a.sizes.empty() || !a.constants.empty() || !a.output.empty() || !a.rounding.empty())
            throw UserError(
                "--size, --constant, --rounding and --output are for a stage of a model; give --stage fixed, "
                "simplified, fused or planned");
    } else {
        if (a.stage == "fixed" && !a.rounding.empty())
            throw UserError("--rounding chooses rules, and the stage \"fixed\" is before them; legal is "
                            "--stage simplified");
        require_folder_of(a.output);
        graph::FixedGraph graph =
            graph::fix_sizes(model, {sizes_of(a.sizes), constants_of(a.constants, model), graph::run_by_kernels()});
        if (a.stage != "fixed") std::cerr << graph::simplify(graph, {.rounding = rounding_of(a.rounding)}).text();
        model = a.stage == "fused"     ? graph::fused_model(graph)
                : a.stage == "planned" ? graph::planned_model(graph)
                                       : graph::to_model(graph);
        model.check();
        if (!a.output.empty()) model.save(a.output);
    }
    std::cout << model.text();
}

void run_model(const RunModel &a) {
    const graph::Model model = graph::Model::load(a.path);
    model.check();
    const std::vector<graph::ValueInfo> &inputs = model.graph().inputs, &outputs = model.graph().outputs;
    const std::vector<std::string> from = files_of(a.inputs, inputs, "input"),
                                   to = files_of(a.outputs, outputs, "output");
    std::vector<Buffer<>> arrays;
    for (size_t n = 0; n < inputs.size(); n++) {
        if (from[n].empty())
            throw UserError(
                fmt::format("input {} has no file; give --input {}=FILE.npy", inputs[n].text(), inputs[n].name));
        arrays.push_back(ends_with(from[n], ".pb") ? graph::load_tensor(from[n]) : load_npy(from[n]));
    }
    kumiko_set_num_threads(a.threads);
    const auto begin = std::chrono::steady_clock::now();
    graph::EvaluateOptions options;
    if (!a.interpret) options.run = graph::run_by_kernels();
    const std::vector<Buffer<>> results = graph::evaluate(model, arrays, options);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    for (size_t n = 0; n < results.size(); n++) {
        std::cout << fmt::format("{}: {}{}\n", outputs[n].name, shape_text(results[n]),
                                 to[n].empty() ? "" : " -> " + to[n]);
        if (to[n].empty()) continue;
        ends_with(to[n], ".pb") ? graph::save_tensor(to[n], results[n], outputs[n].name) : save_npy(to[n], results[n]);
    }
    std::cerr << fmt::format("{} nodes in {}, compiling included\n", model.graph().nodes.size(),
                             duration_text(taken.count()));
}

} // namespace kumiko::cli
