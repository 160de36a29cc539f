// ONNX's own tests of single operators, made by ./run setup: folders with a model, its inputs and
// its outputs. tests/data/onnx_nodes.json lists those that fail. Compiled programs have fixed
// shapes: inputs that decide them are constants (tests/data/onnx_shape_inputs.json).
#pragma once

#include "graph/build/compiled_model.h"
#include "support/error.h"
#include "support/json.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

namespace kumiko::onnx_nodes {

namespace fs = std::filesystem;

inline const fs::path tests_folder = fs::path(KUMIKO_SOURCE_DIR) / ".deps/onnx-tests";

inline Json failing() {
    std::ifstream in(KUMIKO_SOURCE_DIR "/tests/data/onnx_nodes.json");
    return Json::parse(in);
}

inline std::vector<fs::path> cases() {
    std::vector<fs::path> all;
    if (!fs::exists(tests_folder / ".made")) return all;
    for (const auto &entry : fs::directory_iterator(tests_folder)) {
        if (entry.is_directory()) all.push_back(entry.path());
    }
    std::sort(all.begin(), all.end());
    return all;
}

// Whether a node of an operator reads the value by an input that decides shapes.
inline bool decides_shapes(const graph::Graph &graph, const std::string &value) {
    static const Json table = [] {
        std::ifstream in(KUMIKO_SOURCE_DIR "/tests/data/onnx_shape_inputs.json");
        return Json::parse(in);
    }();
    for (const graph::Node &node : graph.nodes) {
        if (!table.contains(node.op)) continue;
        for (const Json &input : table.at(node.op)) {
            const auto n = input.get<size_t>();
            if (n < node.inputs.size() && node.inputs[n] == value) return true;
        }
    }
    return false;
}

// A test as a program of fixed sizes.
struct NodeProgram {
    graph::CompileModelOptions options;
    std::vector<Buffer<>> inputs; // those that are not constants
};

inline NodeProgram node_program(const graph::Model &model, const std::vector<Buffer<>> &inputs) {
    NodeProgram made;
    made.options.bound = 64; // more iterations than any of the tests has
    const std::vector<graph::ValueInfo> &infos = model.graph().inputs;
    for (size_t n = 0; n < inputs.size(); n++) {
        if (decides_shapes(model.graph(), infos[n].name)) {
            made.options.constants[infos[n].name] = inputs[n];
            continue;
        }
        made.inputs.push_back(inputs[n]);
        for (size_t d = 0; infos[n].shape && d < infos[n].shape->size() && d < inputs[n].rank(); d++) {
            const graph::Dimension &want = (*infos[n].shape)[d];
            if (!want.number)
                made.options.sizes[want.symbol.empty() ? fmt::format("{}:{}", infos[n].name, d) : want.symbol] =
                    inputs[n].extent(d);
        }
    }
    return made;
}

inline graph::Model node_model(const fs::path &folder) { return graph::Model::load((folder / "model.onnx").string()); }

inline std::vector<graph::Value> node_values(const graph::Model &model, const fs::path &folder) {
    std::vector<graph::Value> inputs;
    for (size_t n = 0; n < model.graph().inputs.size(); n++)
        inputs.push_back(
            graph::load_value((folder / fmt::format("input_{}.pb", n)).string(), model.graph().inputs[n].kind));
    return inputs;
}

// The inputs of a program, which are tensors.
inline std::vector<Buffer<>> tensors_of(const std::vector<graph::Value> &values) {
    std::vector<Buffer<>> all;
    for (const graph::Value &v : values) {
        if (!v.tensor()) throw Unsupported(fmt::format("an argument is {}", v.kind()));
        all.push_back(*v.tensor());
    }
    return all;
}

} // namespace kumiko::onnx_nodes
