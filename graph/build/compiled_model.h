// Runs a model in this process: one kernel per group of nodes, all memory planned.
//
//   const auto model = CompiledModel::compile(Model::load("net.onnx"), {.sizes = {{"batch", 1}}});
//   std::vector<Buffer<>> outputs = model.run({image});
#pragma once

#include "driver/kernel.h"
#include "graph/build/prepare.h"
#include "graph/rules/rules.h"

namespace kumiko::graph {

struct CompileModelOptions {
    std::map<std::string, int64_t> sizes;      // as FixOptions::sizes
    std::map<std::string, Buffer<>> constants; // as FixOptions::constants
    // Rules on the graph; nullopt: none.
    std::optional<SimplifyOptions> rules = SimplifyOptions();
    GroupOptions groups;
    bool pack = true;                // as PrepareOptions::pack
    ScheduleSource source = nullptr; // as PrepareOptions::source
};

class CompiledModel {
public:
    // Throws as fix_sizes, make_program and compile.
    static CompiledModel compile(const Model &model, const CompileModelOptions &options = {});

    const Program &program() const;
    // Computes the outputs, which it allocates. `inputs`: in the order of the model's. Throws
    // UserError, naming the input, if their number, types or shapes are not the program's.
    std::vector<Buffer<>> run(const std::vector<Buffer<>> &inputs) const;
    // The same into arrays of the caller, without checks: addresses of all inputs, outputs, and an
    // arena of program().arena_bytes, aligned to 64 bytes. Returns 0 or a code of kumiko_status.
    int run_raw(const void *const *inputs, void *const *outputs, void *arena) const;
    // Runs one step. All steps of program(), in their order, are a run.
    int run_step(size_t step, const void *const *inputs, void *const *outputs, void *arena) const;
    // The kernel of program().kernels with this number.
    const Kernel &kernel(size_t n) const;

private:
    struct Contents;
    std::shared_ptr<const Contents> contents_;
};

// A function that compiles an op for this machine and runs it. It keeps the kernels of all ops that
// it has run: bodies of loops run often.
RunOp run_by_kernels();
// The graph from which a program is made: with fixed sizes, after the rules. Throws as fix_sizes.
FixedGraph make_graph(const Model &model, const CompileModelOptions &options);

} // namespace kumiko::graph
