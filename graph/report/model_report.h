// What a compiled model consists of, as data for its page (graph/report/page.h) and its trace
// (graph/report/run_trace.h).
#pragma once

#include "graph/build/compiled_model.h"
#include "graph/build/prepare.h"
#include "schedules/summary.h"

namespace kumiko::graph {

// A kernel, which one or several steps call.
struct ReportKernel {
    std::vector<StageSummary> stages;
    // Of its schedule: "default", "tuned"; "" if it is not known.
    std::string origin;
    // Of a call, as Work (autotune/work.h).
    double operations = 0, bytes = 0;
    // Seconds of a call: by the roofline (bound_seconds), and as the default schedule is estimated
    // to take (estimated_seconds). 0: unknown.
    double bound = 0, estimate = 0;
};

// A value that a step reads or makes.
struct ReportValue {
    std::string name, text; // "f32[1,64,56,56]"
    int64_t bytes = 0;
    bool channels_last = false;
    std::string place; // "arena 4096", "input x"
};

struct ReportStep {
    std::string title; // "Conv Relu"
    std::vector<std::string> nodes, operators;
    size_t kernel = SIZE_MAX; // of a call, else SIZE_MAX
    std::vector<ReportValue> made;
    int64_t constant_bytes = 0; // of the weights that it reads
    int64_t moved_bytes = 0;    // by a copy
    std::string remark;         // of a step that is no call: "copies 4096 bytes"
};

// A line of a list's drawing. Boxes are numbered: first the list's steps, then `ends`.
struct ReportLine {
    size_t from = 0, to = 0;
    ReportValue value;
    // Why the two steps are no single kernel; "" if that is no question, as for copies.
    std::string reason;
};

// "Conv Relu", "(copy)", "(check of indices)".
std::string step_title(const Step &step);

// Steps that run one after another.
struct ReportList {
    std::string title;             // "" for the model's
    size_t around = SIZE_MAX;      // the step that has the list; SIZE_MAX for the model's
    std::vector<size_t> steps;     // positions in ModelReport::steps
    std::vector<ReportValue> ends; // inputs and outputs of the list
    std::vector<ReportLine> lines;
};

// A buffer of the arena: bytes from `offset` on, during steps of the model's list.
struct ReportBuffer {
    std::string name;
    int64_t offset = 0, bytes = 0;
    size_t first = 0, last = 0; // positions in the model's list, both inclusive
};

struct ModelReport {
    std::string name;
    std::vector<std::string> sizes; // "batch=1"
    size_t nodes = 0;               // of the graph, after the rules
    int64_t constant_bytes = 0, arena_bytes = 0, arena_bound = 0, state_bytes = 0;
    std::vector<ReportKernel> kernels;
    std::vector<ReportStep> steps; // all, in the order of for_each_step()
    std::vector<ReportList> lists; // the model's first, then those of its steps
    std::vector<ReportBuffer> buffers;
    std::vector<int64_t> live; // bytes, by step of the model's list
};

// `graph`: of which the program was made, with these groups. `kernels`: those of the program.
ModelReport report_model(const FixedGraph &graph, const GroupOptions &groups, const Program &program,
                         std::vector<ReportKernel> kernels);

// Kernels of a model that was compiled. `clock_hz`: for the roofline on the host; 0: unknown.
std::vector<ReportKernel> report_kernels(const CompiledModel &model, int threads, double clock_hz);
// Kernels of a model that was only prepared, with estimates instead of the roofline. Lowers each.
std::vector<ReportKernel> report_kernels(const Program &program, const std::vector<PreparedKernel> &kernels,
                                         const Target &target);

// The buffers of the arena that the program's own steps use, by their first step. A buffer that
// contains others is listed without them.
std::vector<ReportBuffer> arena_buffers_of(const Program &program);

} // namespace kumiko::graph
