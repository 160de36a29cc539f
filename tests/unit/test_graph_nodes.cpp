// ONNX's own tests of single operators. tests/data/onnx_nodes.json lists those that fail, with the
// reason; a test that passes must not be listed, so the list only shrinks.
// Links: graph/build
// Levels: no
// Sanitized: no
// Cost: 60
#include "dsl/buffer_elements.h"
#include "dsl/types.h"
#include "support/error.h"
#include "tests/unit/onnx_nodes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace kumiko;
using namespace kumiko::onnx_nodes;

namespace {

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

std::string compared(const graph::Value &made, const graph::Value &expected) {
    if (std::string(made.kind()) != expected.kind())
        return fmt::format("{} instead of {}", made.kind(), expected.kind());
    if (made.tensor()) return compared(*made.tensor(), *expected.tensor());
    if (made.is_none()) return "";
    const graph::Value::Sequence &a = *made.sequence(), &b = *expected.sequence();
    if (a.size() != b.size()) return fmt::format("{} elements instead of {}", a.size(), b.size());
    for (size_t n = 0; n < a.size(); n++) {
        const std::string difference = compared(a[n], b[n]);
        if (!difference.empty()) return fmt::format("element {}: {}", n, difference);
    }
    return "";
}

// Computes a model's outputs.
using RunModel =
    std::function<std::vector<graph::Value>(const graph::Model &, const std::vector<graph::Value> &inputs)>;

RunModel node_by_node(const graph::RunOp &run) {
    return [run](const graph::Model &model, const std::vector<graph::Value> &inputs) {
        graph::EvaluateOptions options;
        options.run = run;
        return graph::evaluate_values(model, inputs, options);
    };
}

std::vector<graph::Value> as_program(const graph::Model &model, const std::vector<graph::Value> &inputs) {
    const NodeProgram program = node_program(model, tensors_of(inputs));
    const std::vector<Buffer<>> results = graph::CompiledModel::compile(model, program.options).run(program.inputs);
    return {results.begin(), results.end()};
}

// "" if the test passes, else why not.
std::string outcome(const fs::path &folder, const RunModel &run) {
    try {
        const graph::Model model = node_model(folder);
        const std::vector<graph::Value> results = run(model, node_values(model, folder));
        for (size_t n = 0; n < results.size(); n++) {
            const fs::path file = folder / fmt::format("output_{}.pb", n);
            const graph::ValueInfo::Kind kind = model.graph().outputs[n].kind;
            const std::string difference = compared(results[n], graph::load_value(file.string(), kind));
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
