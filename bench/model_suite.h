// Models of ONNX beside ONNX Runtime: the suite `models`, and `kumiko bench model.onnx`.
#pragma once

#include "bench/suite.h"
#include "graph/build/compiled_model.h"

namespace kumiko::bench {

// A model and its open sizes.
struct ModelCase {
    std::string name, file;
    graph::CompileModelOptions options;
};

// The models of bench/models.json whose files `./run models` has fetched.
std::vector<ModelCase> model_cases();

struct ModelBenchRow {
    std::string name;
    size_t nodes = 0, kernels = 0;
    double compile_seconds = 0;
    // Medians of one run, in seconds; ONNX Runtime's is 0 if it was not measured.
    double seconds = 0, onnxruntime = 0;
    double to_onnxruntime = 0; // how many times faster: the median over rounds (bench/timer.h)
    double spread = 0;         // of ours: (p90 − p10) / median
    int64_t arena_bytes = 0, weights_bytes = 0;
    int64_t arena_bound = 0;    // as Program::arena_bound
    std::string no_onnxruntime; // why it was not measured
    std::string failure;        // why the model was not measured
    // The steps of the program, in order, each with the median of its seconds in whole runs.
    struct StepTime {
        std::string operators; // "Conv Relu"
        std::string node;      // name of the last node
        double seconds = 0;
    };
    std::vector<StepTime> steps;
    Json json() const;
};

// Times a model on inputs of random numbers, in alternation with ONNX Runtime if options.peers, and
// compares the results. Throws UserError if they differ by more than 1 % of the largest element,
// and what CompiledModel::compile throws.
ModelBenchRow bench_model(const ModelCase &model, int threads, const BenchOptions &options);
// `steps`: with a table of each model's slowest steps.
std::string model_suite_text(const std::vector<ModelBenchRow> &rows, bool steps);

} // namespace kumiko::bench
