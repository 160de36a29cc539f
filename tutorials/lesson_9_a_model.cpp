// Lesson 9: compile a model of ONNX.
//
// A model is a graph of operators, each of which is a formula. With fixed sizes it becomes a list
// of kernel calls, one for each group of fused nodes, whose tensors are in one arena
// (docs/models.md). On the command line:
//
//   kumiko bench model.onnx --size batch=4
//   kumiko build model.onnx --size batch=4 -o out
#include "driver/kumiko.h"
#include "graph/build/model_library.h"

#include <iostream>

using namespace kumiko;

int main() {
    // Model::load reads a file. This model is in ONNX's text format.
    const graph::Model model =
        graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                                 "layers (float[batch, 3] x) => (float[batch, 2] y)\n"
                                 "<float[3, 3] w = {1, 0, 2, 0, 1, 0, -1, 0, 1}, float[3, 2] v = {1, 2, 3, 4, 5, 6}>\n"
                                 "{ a = MatMul(x, w) s = Sigmoid(a) b = Mul(a, s) y = MatMul(b, v) }",
                                 "layers");
    std::cout << model.text();

    // Rules change the graph first. `rules->rounding` says how far their results may differ: by
    // default values are only rounded at other places; Rounding::Fast also allows Winograd's
    // algorithm for convolutions (docs/models.md). Each node is one of ONNX before and after.
    //
    // MatMul, Sigmoid and Mul are one group: all paths from the product meet again in b.
    const graph::CompiledModel compiled = graph::CompiledModel::compile(model, {.sizes = {{"batch", 4}}});
    for (const graph::Step &step : compiled.program().steps) {
        for (const std::string &op : step.operators) std::cout << op << " ";
        std::cout << "\n" << compiled.kernel(step.kernel).op().to_string();
    }
    if (compiled.program().steps.size() != 2) throw InternalError("two kernels are enough");
    std::cout << "arena: " << compiled.program().arena_bytes << " bytes\n";

    const Buffer<> x = random_buffer(f32, {4, 3}, 1);
    const Buffer<float> y(compiled.run({x})[0]), expected(graph::evaluate(model, {x})[0]);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 2; j++) {
            if (std::abs(y(i, j) - expected(i, j)) > 1e-5f) throw InternalError("the program computes another value");
        }
    }

    // For repeated runs the arrays are bound once, and used in place. They may be those of other
    // libraries: from_dlpack and to_dlpack (dsl/dlpack.h) pass them without copies.
    const Buffer<float> results({4, 2});
    const graph::CompiledModel::Binding bound = compiled.bind({x}, {results});
    for (int run = 0; run < 3; run++) bound.run();
    if (!equal_bits(results, y)) throw InternalError("a bound run computes another value");

    try {
        graph::CompiledModel::compile(model); // no size for the batch
    } catch (const UserError &e) {
        std::cout << e.what() << "\n";
    }

    // The same program as a C function, which allocates nothing:
    //
    //   int layers_run(const layers_io *io, void *arena, const kumiko_context *context);
    //
    // The context may have hooks for threads, profiles and values (runtime/kumiko_context.h).
    // layers.weights is apart from the archive, so that a program can map it. With
    // LibraryOptions::shared there is also a shared library, which Python calls through TVM FFI
    // (docs/libraries.md).
    graph::ModelLibraryOptions options;
    options.name = "layers";
    options.model.sizes = {{"batch", 4}};
    options.weights_file = true;
    const LibraryReport report = build_library(graph::describe_library(model, options), "lesson_9_library");
    for (const auto &[name, purpose] : report.files) std::cout << name << ": " << purpose << "\n";
}
