#include "autotune/chip_runner.h"

#include "autotune/failure.h"
#include "support/duration.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kumiko {

namespace {

constexpr double patience = 8; // cancels a simulation after this multiple of the best one's steps

} // namespace

ChipRunner::ChipRunner(const Space &space, const ChipRunnerOptions &options)
    : space_(space), options_(options), best_(std::numeric_limits<double>::infinity()) {
    const Stopwatch watch;
    arrays_ = make_measured_arrays(space.op(), {}, 1, options.longest_reference);
    reference_seconds_ = watch.seconds();
    int jobs = options.jobs;
    if (jobs <= 0) jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    for (int n = 0; n < jobs; n++) workers_.emplace_back([this] { work(); });
}

ChipRunner::~ChipRunner() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = ending_ = true;
    }
    changed_.notify_all();
    for (std::thread &t : workers_) t.join();
}

void ChipRunner::submit(std::vector<Candidate> candidates) { submit(std::move(candidates), best_); }

void ChipRunner::submit(std::vector<Candidate> candidates, double best) {
    {
        const std::lock_guard lock(mutex_);
        for (Candidate &c : candidates) waiting_.push_back({submitted_++, best, std::move(c)});
    }
    changed_.notify_all();
}

void ChipRunner::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
        if (stopping_) return;
        auto [number, best, candidate] = std::move(waiting_.front());
        waiting_.pop_front();
        busy_++;
        const size_t generation = generation_;
        lock.unlock();
        MeasureResult measure_result{std::move(candidate), {}};
        measure_result.measured = measure(measure_result.candidate, best);
        finished_ += measure_result.measured.outcome == Outcome::Ok;
        lock.lock();
        busy_--;
        if (generation == generation_) done_.emplace(number, std::move(measure_result));
        changed_.notify_all();
    }
}

std::optional<MeasureResult> ChipRunner::next(double best) {
    best_ = std::min(best_, best);
    return take(options_.over);
}

std::optional<MeasureResult> ChipRunner::take(const std::function<bool()> &over) {
    std::unique_lock lock(mutex_);
    if (returned_ == submitted_) return std::nullopt;
    while (!changed_.wait_for(lock, polling_interval, [&] { return done_.count(returned_) != 0; })) {
        if (over && over()) return std::nullopt;
    }
    MeasureResult measure_result = std::move(done_.at(returned_));
    done_.erase(returned_++);
    return measure_result;
}

std::vector<MeasureResult> ChipRunner::cancel() {
    std::unique_lock lock(mutex_);
    generation_++;
    waiting_.clear();
    std::vector<MeasureResult> done;
    for (auto &[number, measure_result] : done_) done.push_back(std::move(measure_result));
    done_.clear();
    ending_ = true;
    changed_.wait(lock, [&] { return busy_ == 0; });
    ending_ = false;
    returned_ = submitted_;
    return done;
}

Measured ChipRunner::measure(Candidate &candidate, double best) const {
    if (candidate.outcome != Outcome::Ok) return {candidate.outcome, candidate.reason, {}, 0};
    Measured measured;
    const auto attempt_on_chip = [&](Outcome outcome, const std::function<void()> &f) {
        auto reason = failure_of(f);
        if (reason) measured.outcome = outcome, measured.reason = std::move(*reason);
        return !reason;
    };
    const Stopwatch watch;
    std::optional<ChipProgram> program;
    const bool built = attempt_on_chip(Outcome::Unbuildable, [&] {
        program = compile_chip(candidate.made ? *candidate.made : space_.schedule(candidate.point), &ending_);
    });
    candidate.made.reset();
    candidate.build_seconds = watch.seconds();
    if (!built) return measured;

    std::vector<Buffer<>> arrays = arrays_.inputs, outputs;
    for (const std::string &o : space_.op().outputs()) {
        outputs.push_back(make_output(space_.op(), o, {}));
        fill_unwritten(outputs.back());
        arrays.push_back(outputs.back());
    }
    sim::SimulateOptions options;
    options.stop = &ending_;
    if (std::isfinite(best)) {
        const double cycles = best * program->config().clock_ghz * 1e9;
        options.max_steps = 1000 + static_cast<uint64_t>(patience * cycles / sim::cycles_per_step);
    }
    const bool ran = attempt_on_chip(Outcome::Failed, [&] {
        const sim::Run run = program->run(arrays, options);
        Timing t;
        t.least = t.median = run.seconds();
        t.samples = 1;
        measured.timings = {t};
    });
    if (!ran) return measured;
    for (size_t o = 0; o < outputs.size(); o++) {
        const bool right = attempt_on_chip(Outcome::Wrong, [&] {
            if (const std::string what = arrays_.fault_of(o, outputs[o]); !what.empty()) throw UserError(what);
        });
        if (!right) return {Outcome::Wrong, measured.reason, {}, 0};
    }
    return measured;
}

std::vector<Measured> ChipRunner::compare(std::vector<Candidate> candidates, double,
                                          const std::function<bool()> &over) {
    cancel();
    std::vector<Measured> results(candidates.size());
    submit(std::move(candidates), std::numeric_limits<double>::infinity()); // run all to the end
    for (Measured &result : results) {
        std::optional<MeasureResult> measure_result = take(over);
        if (!measure_result) break;
        result = std::move(measure_result->measured);
    }
    cancel();
    return results;
}

} // namespace kumiko
