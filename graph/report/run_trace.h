// A recorded run of a model: when each step ran, and on which threads its loops.
#pragma once

#include "graph/build/compiled_model.h"

namespace kumiko::graph {

struct RunSlice {
    size_t step = 0; // position in the order of for_each_step()
    // 0: the thread that runs the steps; its slices of one step contain those of the step's lists.
    int thread = 0;
    double begin = 0, end = 0; // seconds from the begin of the run
    int64_t iterations = 0;    // of a parallel loop, by this thread; 0: the step itself
};

struct RunTrace {
    std::vector<RunSlice> slices; // by thread, then by begin
    double seconds = 0;           // of the whole run
};

// The arrays of a run, as of CompiledModel::run_raw().
struct RunArrays {
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    void *arena = nullptr, *state = nullptr;
};

// Runs the model once. `loops`: also records the parallel loops of its kernels; no other thread may
// run kernels meanwhile. Throws UserError if a kernel fails. Cost: some 100 ns for each step and
// for each iteration of a parallel loop.
RunTrace record_run(const CompiledModel &model, const RunArrays &arrays, bool loops);

// The trace for ui.perfetto.dev, in microseconds: a track for each thread. Loops of the thread that
// runs the steps are shown only if other threads took part in them.
std::string trace_text(const RunTrace &trace, const Program &program);

// Seconds and number of runs of each step in one run, in the order of for_each_step().
struct StepSeconds {
    double seconds = 0, runs = 0;
};
std::vector<StepSeconds> seconds_of_steps(const RunTrace &trace, size_t steps);

} // namespace kumiko::graph
