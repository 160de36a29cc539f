// Models of ONNX beside ONNX Runtime and OpenVINO: the suite `models`, and `kumiko bench
// model.onnx`.
#pragma once

#include "bench/suite.h"
#include "graph/report/page.h"
#include "graph/report/run_trace.h"

namespace kumiko::bench {

// A model and its open sizes.
struct ModelCase {
    std::string name, file;
    graph::CompileModelOptions options;
};

// The models of bench/models.json whose files `./run models` has fetched.
std::vector<ModelCase> model_cases();

// What a peer did with a model.
struct ModelPeerTime {
    std::string name; // "ONNX Runtime", "OpenVINO"
    double seconds = 0;
    double ratio = 0;         // how many times faster ours is: the median over rounds
    std::string not_measured; // why; "" if it was
};

struct ModelBenchRow {
    std::string name;
    size_t nodes = 0, kernels = 0;
    double compile_seconds = 0;
    double seconds = 0; // of one run: the median
    double spread = 0;  // of ours: (p90 − p10) / median
    int64_t arena_bytes = 0, weights_bytes = 0;
    int64_t arena_bound = 0; // as Program::arena_bound
    std::vector<ModelPeerTime> peers;
    std::string failure; // why the model was not measured
    // The steps of the program, in order, each with the median of its seconds in whole runs.
    struct StepTime {
        std::string operators; // "Conv Relu"
        std::string node;      // name of the last node
        double seconds = 0;
        std::vector<double> peers; // seconds of the same nodes; empty: not measured
    };
    std::vector<StepTime> steps;
    // Seconds in the peers that belong to no step, such as the reordering of data.
    std::vector<double> other;

    double best_ratio() const; // to the fastest peer; 0: no peer was measured
    Json json() const;
};

// What a page about a model (graph/report/page.h) and a trace need.
struct ModelProfile {
    std::optional<graph::CompiledModel> model;
    graph::ModelTimes times;
    graph::RunTrace trace; // of a run after those that were timed
    double clock_hz = 0;   // at which the peak of multiply-adds was reached
};

// Times a model on inputs of random numbers, in alternation with the peers if options.peers, and
// compares the results. `layers`: the peers' times of each step too, from their profiles. Throws
// UserError if results differ by more than 1 % of the largest element, and what
// CompiledModel::compile throws.
// `profile`: filled in if it is not null.
ModelBenchRow bench_model(const ModelCase &model, int threads, const BenchOptions &options, bool layers = false,
                          ModelProfile *profile = nullptr);
// `steps`: with a table of each model's slowest steps.
std::string model_suite_text(const std::vector<ModelBenchRow> &rows, bool steps);

} // namespace kumiko::bench
