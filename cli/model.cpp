#include "cli/model.h"

#include "driver/run_kernel.h"
#include "dsl/npy.h"
#include "dsl/types.h"
#include "graph/eval/evaluate.h"
#include "runtime/kumiko_runtime.h"
#include "support/duration.h"
#include "support/error.h"
#include "support/names.h"

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>

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
            throw UserError(fmt::format("the model has {} {}s, and more files are given", values.size(), kind));
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

// Runs ops as kernels. Bodies of loops run many times: their kernels are kept.
graph::RunOp by_kernels() {
    const auto kept = std::make_shared<std::map<std::string, Kernel>>();
    return [kept](const Op &op, const std::vector<Buffer<>> &inputs) {
        const std::string hash = op.hash();
        auto found = kept->find(hash);
        if (found == kept->end()) found = kept->emplace(hash, compile(op)).first;
        return run_kernel(found->second, inputs);
    };
}

} // namespace

bool is_model(const std::string &name) { return ends_with(name, ".onnx"); }

void show_model(const std::string &path) {
    const graph::Model model = graph::Model::load(path);
    model.check();
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
    if (!a.interpret) options.run = by_kernels();
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
