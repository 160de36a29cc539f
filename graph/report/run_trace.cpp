#include "graph/report/run_trace.h"

#include "graph/report/model_report.h"
#include "runtime/kumiko_runtime.h"
#include "support/duration.h"
#include "support/error.h"
#include "support/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace kumiko::graph {

namespace {

// Records one run. The runtime's hook has no argument of the program's, so only one run at a time
// records loops.
class Recorder {
public:
    explicit Recorder(const Program &program) {
        for_each_step(program.steps, [&](const Step &step) { number_.emplace(&step, number_.size()); });
        threads_[std::this_thread::get_id()] = 0;
    }

    void step(const Step &step, bool after) {
        if (!after) {
            open_.push_back(trace_.slices.size());
            trace_.slices.push_back({number_.at(&step), 0, 0, 0, 0});
            trace_.slices.back().begin = watch_.seconds(); // after an allocation
            return;
        }
        trace_.slices[open_.back()].end = watch_.seconds();
        open_.pop_back();
    }

    int loop(kumiko_task task, void *closure, int64_t begin, int64_t count) {
        Loop loop{this, task, closure, {}, {}};
        const int status = kumiko_default_parallel_for(run_iteration, &loop, begin, count);
        for (auto &[thread, slice] : loop.by_thread) {
            slice.step = trace_.slices.at(open_.back()).step;
            trace_.slices.push_back(slice);
        }
        return status;
    }

    RunTrace finish() {
        trace_.seconds = watch_.seconds();
        std::stable_sort(trace_.slices.begin(), trace_.slices.end(), [](const RunSlice &a, const RunSlice &b) {
            return std::pair(a.thread, a.begin) < std::pair(b.thread, b.begin);
        });
        return std::move(trace_);
    }

    static Recorder *current;

private:
    // A parallel loop: of each thread, one slice from its first iteration to its last one.
    struct Loop {
        Recorder *recorder;
        kumiko_task task;
        void *closure;
        std::mutex mutex;
        std::map<int, RunSlice> by_thread;
    };

    static int run_iteration(void *argument, int64_t index) {
        Loop &loop = *static_cast<Loop *>(argument);
        const double begin = loop.recorder->watch_.seconds();
        const int status = loop.task(loop.closure, index);
        const double end = loop.recorder->watch_.seconds();
        const std::lock_guard lock(loop.mutex);
        std::map<std::thread::id, int> &threads = loop.recorder->threads_;
        const int thread = threads.emplace(std::this_thread::get_id(), int(threads.size())).first->second;
        const auto [slice, fresh] = loop.by_thread.emplace(thread, RunSlice{0, thread, begin, end, 0});
        slice->second.end = end;
        slice->second.iterations++;
        return status;
    }

    std::map<const Step *, size_t> number_;
    std::map<std::thread::id, int> threads_;
    std::vector<size_t> open_; // slices of the steps that run
    RunTrace trace_;
    Stopwatch watch_;
};

Recorder *Recorder::current = nullptr;

int record_loop(kumiko_task task, void *closure, int64_t begin, int64_t count) {
    return Recorder::current->loop(task, closure, begin, count);
}

} // namespace

RunTrace record_run(const CompiledModel &model, const RunArrays &arrays, bool loops) {
    Recorder recorder(model.program());
    Recorder::current = &recorder;
    const kumiko_parallel_for_hook before = loops ? kumiko_set_parallel_for(record_loop) : nullptr;
    const int status = model.run_raw(arrays.inputs.data(), arrays.outputs.data(), arrays.arena, arrays.state,
                                     [&](const Step &step, bool after) { recorder.step(step, after); });
    if (loops) kumiko_set_parallel_for(before);
    Recorder::current = nullptr;
    if (status)
        throw UserError(
            fmt::format("{}: a kernel failed with code {}: {}", model.program().name, status, kumiko_error()));
    return recorder.finish();
}

std::vector<StepSeconds> seconds_of_steps(const RunTrace &trace, size_t steps) {
    std::vector<StepSeconds> all(steps);
    for (const RunSlice &s : trace.slices) {
        if (s.iterations > 0) continue;
        all.at(s.step).seconds += s.end - s.begin, all.at(s.step).runs++;
    }
    return all;
}

std::string trace_text(const RunTrace &trace, const Program &program) {
    std::vector<const Step *> steps;
    for_each_step(program.steps, [&](const Step &step) { steps.push_back(&step); });
    std::set<int> threads;
    std::set<size_t> shared; // steps with loops that other threads take part in
    for (const RunSlice &s : trace.slices) {
        threads.insert(s.thread);
        if (s.thread > 0) shared.insert(s.step);
    }
    TraceEvents out(1e6);
    const std::string name_of_model = std::filesystem::path(program.name).filename().string();
    out.process(1, name_of_model);
    for (const int t : threads) out.track(1, t + 1, t == 0 ? "steps" : fmt::format("thread {}", t));
    for (const RunSlice &s : trace.slices) {
        const Step &step = *steps.at(s.step);
        if (s.iterations > 0 && s.thread == 0 && !shared.count(s.step)) continue;
        std::string name = step_title(step);
        std::string arguments = fmt::format("\"step\":{},\"nodes\":{}", s.step,
                                            json_quoted(fmt::format("{}", fmt::join(step.nodes, ", "))));
        if (step.kind == Step::Kind::Call) arguments += fmt::format(",\"kernel\":{}", step.kernel);
        if (s.iterations > 0) {
            name = "iterations of " + name;
            arguments += fmt::format(",\"iterations\":{}", s.iterations);
        }
        out.slice(1, s.thread + 1, s.begin, s.end, json_quoted(name), arguments);
    }
    return out.finish(name_of_model, fmt::format("{} steps", steps.size()));
}

} // namespace kumiko::graph
