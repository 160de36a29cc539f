// Runs a model in this process: one kernel per group of nodes, all memory planned.
//
//   const auto model = CompiledModel::compile(Model::load("net.onnx"), {.sizes = {{"batch", 1}}});
//   std::vector<Buffer<>> outputs = model.run({image});
#pragma once

#include "driver/kernel.h"
#include "graph/build/prepare.h"
#include "graph/rules/rules.h"

#include <functional>
#include <memory>

namespace kumiko::graph {

// Reports a phase of the work, "choosing schedules", and how many of its pieces are done; `pieces`
// is 0 if their number is not known.
using CompileProgress = std::function<void(const std::string &phase, size_t done, size_t pieces)>;

struct CompileModelOptions {
    std::map<std::string, int64_t> sizes;      // as FixOptions::sizes
    std::map<std::string, Buffer<>> constants; // as FixOptions::constants
    std::map<std::string, int64_t> bounds;     // as FixOptions::bounds
    int64_t bound = 0;                         // as FixOptions::bound
    // Inputs and outputs that are states, as of make_program.
    StatePairs states;
    // Rules on the graph; nullopt: none.
    std::optional<SimplifyOptions> rules = SimplifyOptions();
    GroupOptions groups;
    bool layouts = true;             // choose the order of axes of values; else all are row-major
    bool pack = true;                // as PrepareOptions::pack
    ScheduleSource source = nullptr; // as PrepareOptions::source
    CompileProgress progress = nullptr;
};

// What a model with states keeps from one run to the next.
class ModelState {
public:
    explicit ModelState(const Program &program);
    void reset(); // to zeros
    void *data() { return data_.get(); }
    // A copy of the state with this name, of the input or the output.
    Buffer<> value(const std::string &name) const;

private:
    std::vector<ProgramState> states_;
    size_t bytes_;
    std::unique_ptr<void, void (*)(void *)> data_;
};

class CompiledModel {
public:
    // Throws as fix_sizes, make_program and compile.
    static CompiledModel compile(const Model &model, const CompileModelOptions &options = {});
    // `options`: pack and source.
    static CompiledModel compile(Program program, const CompileModelOptions &options = {});

    const Program &program() const;
    // Called with each tensor that a step stores, by its name in the model. Values inside of a
    // group of nodes are not stored. The array is overwritten later.
    using Made = std::function<void(const std::string &name, const Buffer<> &value)>;
    // Called after each call of a kernel, with its arguments, which are those of its op except for
    // packed constants.
    using Called = std::function<void(const Step &step, void *const *tensors)>;
    // Computes the outputs, which it allocates. `inputs`: in the order of the program's, without
    // states. Throws UserError, naming the input, if their number, types or shapes are not the
    // program's, and if the model has states.
    std::vector<Buffer<>> run(const std::vector<Buffer<>> &inputs, const Made &made = nullptr,
                              const Called &called = nullptr) const;
    // The same for a model with states, which the run replaces by the next ones.
    std::vector<Buffer<>> run(const std::vector<Buffer<>> &inputs, ModelState &state, const Made &made = nullptr,
                              const Called &called = nullptr) const;
    // The states before the first run: zeros.
    ModelState new_state() const;
    // Arrays for repeated runs, which are used in place, and states, which are zeros at first.
    // Throws UserError, naming the array, if their number, types or shapes are not the program's,
    // or if one is not dense.
    class Binding {
    public:
        // Reads the inputs and writes the outputs. Throws UserError if a kernel fails. Only one
        // thread at a time may run a binding.
        void run() const;
        void reset() const; // states to zeros

    private:
        friend class CompiledModel;
        struct Contents;
        std::shared_ptr<Contents> contents_;
    };
    Binding bind(const std::vector<Buffer<>> &inputs, const std::vector<Buffer<>> &outputs) const;
    // The same into arrays of the caller, without checks: addresses of all inputs, outputs, an
    // arena of program().arena_bytes and states of program().state_bytes, both aligned to 64 bytes.
    // Returns 0 or a code of kumiko_status.
    int run_raw(const void *const *inputs, void *const *outputs, void *arena, void *state = nullptr) const;
    // The same, and calls the hook before and after each step, those in lists of others included.
    using StepHook = std::function<void(const Step &step, bool after)>;
    int run_raw(const void *const *inputs, void *const *outputs, void *arena, void *state, const StepHook &hook) const;
    // The kernel of program().kernels with this number.
    const Kernel &kernel(size_t n) const;

private:
    struct Contents;
    std::shared_ptr<const Contents> contents_;
};

// A function that compiles an op for this machine and runs it. It keeps the kernels of all ops that
// it has run: bodies of loops run often.
RunOp run_by_kernels();
// What graphs of several sizes are made and compared by.
struct GraphSample {
    std::shared_ptr<std::map<std::string, bool>> folded; // FixOptions::folded
    std::map<std::string, Extents> extents;              // of all values, before the rules
};
// The graph from which a program is made: with fixed sizes, after the rules. Throws as fix_sizes.
FixedGraph make_graph(const Model &model, const CompileModelOptions &options, GraphSample *sample = nullptr);
// Estimates for make_program; null if layouts are not chosen. Calls options.progress for each.
OpSeconds layout_seconds(const CompileModelOptions &options, const Target &target);
// The program of that graph for a target. Throws as make_program.
Program make_model_program(const FixedGraph &graph, const CompileModelOptions &options, const Target &target);
// Its schedules and packed constants. Throws as prepare.
std::vector<PreparedKernel> prepare_model(Program &program, const CompileModelOptions &options, const Target &target);

} // namespace kumiko::graph
