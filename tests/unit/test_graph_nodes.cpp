// ONNX's own tests of single operators. tests/data/onnx_nodes.json lists those that fail, with the
// reason; a test that passes must not be listed, so the list only shrinks. Compiled programs have
// fixed shapes: inputs that decide them are constants (tests/data/onnx_shape_inputs.json).
// Links: graph/build
// Levels: no
// Sanitized: no
// Cost: 60
#include "dsl/buffer_elements.h"
#include "dsl/types.h"
#include "graph/build/compiled_model.h"
#include "support/error.h"
#include "support/json.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <set>

using namespace kumiko;
namespace fs = std::filesystem;

namespace {

const fs::path tests_folder = fs::path(KUMIKO_SOURCE_DIR) / ".deps/onnx-tests";

Json failing() {
    std::ifstream in(KUMIKO_SOURCE_DIR "/tests/data/onnx_nodes.json");
    return Json::parse(in);
}

std::vector<fs::path> cases() {
    std::vector<fs::path> all;
    if (!fs::exists(tests_folder / ".made")) return all;
    for (const auto &entry : fs::directory_iterator(tests_folder)) {
        if (entry.is_directory()) all.push_back(entry.path());
    }
    std::sort(all.begin(), all.end());
    return all;
}

std::vector<double> numbers(const Buffer<> &b) {
    std::vector<double> all;
    for_each_element(b.raw_buffer(),
                     [&](const std::vector<int64_t> &, uint8_t *p) { all.push_back(read_element(b.type(), p)); });
    return all;
}

// "" if the values agree within upstream's tolerance.
std::string compared(const Buffer<> &made, const Buffer<> &expected) {
    if (Type(made.type()) != Type(expected.type()))
        return "the type " + type_name(made.type()) + " instead of " + type_name(expected.type());
    if (made.extents() != expected.extents()) return "another shape";
    // A bf16 has 8 bits: neighbours are up to 0.8 % apart.
    const double relative = Type(expected.type()) == bf16 ? 1e-2 : 1e-3, absolute = 1e-7;
    const std::vector<double> a = numbers(made), b = numbers(expected);
    for (size_t n = 0; n < a.size(); n++) {
        if (a[n] == b[n] || (std::isnan(a[n]) && std::isnan(b[n]))) continue;
        if (!(std::abs(a[n] - b[n]) <= absolute + relative * std::abs(b[n])))
            return fmt::format("element {} is {} instead of {}", n, a[n], b[n]);
    }
    return "";
}

// Computes a model's outputs.
using RunModel = std::function<std::vector<Buffer<>>(const graph::Model &, const std::vector<Buffer<>> &inputs)>;

RunModel node_by_node(const graph::RunOp &run) {
    return [run](const graph::Model &model, const std::vector<Buffer<>> &inputs) {
        graph::EvaluateOptions options;
        options.run = run;
        return graph::evaluate(model, inputs, options);
    };
}

// Whether a node of an operator reads the value by an input that decides shapes.
bool decides_shapes(const graph::Graph &graph, const std::string &value) {
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

std::vector<Buffer<>> as_program(const graph::Model &model, const std::vector<Buffer<>> &inputs) {
    graph::CompileModelOptions options;
    std::vector<Buffer<>> open;
    const std::vector<graph::ValueInfo> &infos = model.graph().inputs;
    for (size_t n = 0; n < inputs.size(); n++) {
        if (decides_shapes(model.graph(), infos[n].name)) {
            options.constants[infos[n].name] = inputs[n];
            continue;
        }
        open.push_back(inputs[n]);
        for (size_t d = 0; infos[n].shape && d < infos[n].shape->size() && d < inputs[n].rank(); d++) {
            const graph::Dimension &want = (*infos[n].shape)[d];
            if (!want.number)
                options.sizes[want.symbol.empty() ? fmt::format("{}:{}", infos[n].name, d) : want.symbol] =
                    inputs[n].extent(d);
        }
    }
    return graph::CompiledModel::compile(model, options).run(open);
}

// "" if the test passes, else why not.
std::string outcome(const fs::path &folder, const RunModel &run) {
    try {
        const graph::Model model = graph::Model::load((folder / "model.onnx").string());
        std::vector<Buffer<>> inputs;
        for (size_t n = 0; n < model.graph().inputs.size(); n++)
            inputs.push_back(graph::load_tensor((folder / fmt::format("input_{}.pb", n)).string()));
        const std::vector<Buffer<>> results = run(model, inputs);
        for (size_t n = 0; n < results.size(); n++) {
            const fs::path file = folder / fmt::format("output_{}.pb", n);
            if (!fs::exists(file)) return "the expected value is no tensor";
            const std::string difference = compared(results[n], graph::load_tensor(file.string()));
            if (!difference.empty()) return difference;
        }
        return "";
    } catch (const UserError &e) {
        return e.what();
    } catch (const Unsupported &e) {
        return e.what();
    }
}

// Runs each `step`-th test. `also`: a further list of tests that fail.
void check_cases(const RunModel &run, size_t step, const std::string &kind, const std::string &also = "") {
    const std::vector<fs::path> all = cases();
    if (all.empty()) {
        MESSAGE("skipped: ./run setup makes ONNX's tests");
        return;
    }
    const Json listed = failing();
    size_t passed = 0, tried = 0;
    for (size_t n = 0; n < all.size(); n += step) {
        const std::string name = all[n].filename().string(), why = outcome(all[n], run);
        tried++;
        passed += why.empty();
        CAPTURE(name);
        if (listed.at("fails").contains(name) || (!also.empty() && listed.at(also).contains(name)))
            CHECK_MESSAGE(!why.empty(), "it passes now; take it from tests/data/onnx_nodes.json");
        else
            CHECK_EQ(why, "");
    }
    MESSAGE(kind << ": " << passed << " of " << tried);
}

} // namespace

TEST_CASE("ONNX's tests of operators, evaluated by the formulas") {
    check_cases(node_by_node(nullptr), 1, "evaluated");
}

TEST_CASE("every fifth of ONNX's tests of operators, as compiled kernels") {
    check_cases(node_by_node(graph::run_by_kernels()), 5, "compiled");
}

TEST_CASE("every fifth of ONNX's tests of operators, as programs") {
    check_cases(as_program, 5, "programs", "fails_as_program");
}
