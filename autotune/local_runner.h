// Builds candidates on one core of this machine and times them on another.
#pragma once

#include "autotune/runner.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace kumiko {

struct LocalRunnerOptions {
    MeasurerOptions measurer;
    double trial_seconds = 0.1; // timing of one candidate
    // Time limit of one call, until a good candidate is known; then 100 times its time, at least 1.
    double timeout = 10;
    double build_timeout = 60; // for compiling one candidate
    // Time limit for evaluating the op, in seconds; beyond it a sample is checked
    // (autotune/arrays.h).
    double longest_reference = kumiko::longest_reference;
    LeastPossible least_possible = nullptr; // null: unknown
    std::function<bool()> over = nullptr;   // when true, next() returns early; called in its thread
};

// Each candidate is timed in alternation with the anchor, an earlier good candidate. Their ratio is
// independent of the host's load; reported times are the ratio times the anchor's first measured
// time.
//
// Results come in submission order. While a single-threaded kernel is timed, the next ones are
// built and the caller can search; kernels that use more than half of the cores are timed with
// nothing else running.
class LocalRunner : public CandidateRunner {
public:
    // Space and target must outlive the runner. Throws as MeasureTask and Measurer do.
    LocalRunner(const Space &space, const CpuTarget &target, const Sizes &sizes, const LocalRunnerOptions &options);
    ~LocalRunner() override;

    void submit(std::vector<Candidate> candidates) override;
    std::optional<MeasureResult> next(double best) override;
    std::vector<MeasureResult> cancel() override;
    std::vector<Measured> compare(std::vector<Candidate> candidates, double seconds,
                                  const std::function<bool()> &over) override;
    size_t wanted() const override { return 4; }
    // From now on, candidates are timed against this anchor, on the scale of `timing`, which
    // another runner measured. No effect if it cannot be built. No other thread may submit
    // meanwhile.
    void use_anchor(Candidate anchor, const Timing &timing);
    // How often an anchor failed and was replaced by another candidate, which starts a new time
    // scale.
    int lost_anchors() const { return lost_anchors_; }
    RunnerFacts facts() const override;

private:
    static constexpr size_t ahead = 3; // candidates built ahead of measuring

    // Compiles one candidate, times it against the anchor, compares several.
    void build(Candidate &candidate, const std::function<bool()> &over) const;
    Measured measure(const Candidate &candidate, double best);
    std::vector<Measured> compare_now(std::vector<Candidate> &candidates, double seconds,
                                      const std::function<bool()> &over);
    double timeout(double best) const;
    double least_possible() const;
    // Whether the anchor is loaded, after an attempt to load it.
    bool anchor_ready(double best);
    void set_anchor(Candidate anchor, const Timing &timing);
    bool over() const { return options_.over && options_.over(); }
    void end_measuring_when_over();
    // The threads that build submitted candidates, and time built ones, until the runner ends.
    void build_all();
    void measure_all();

    const Space &space_;
    const CpuTarget &target_;
    const Sizes sizes_;
    LocalRunnerOptions options_;
    std::unique_ptr<MeasureTask> task_;
    std::unique_ptr<Measurer> measurer_;

    Candidate anchor_; // without an object: none yet
    Timing anchor_timing_;
    int anchor_process_ = 0; // the process in which it is loaded
    std::atomic<int> lost_anchors_ = 0;

    std::deque<Candidate> waiting_, built_;
    std::deque<MeasureResult> done_;
    bool building_ = false, measuring_ = false, stopping_ = false;
    std::atomic<bool> ending_ = false; // the running measurement is cancelled
    size_t generation_ = 0;            // incremented by cancel(): older results are dropped
    double best_;
    std::exception_ptr failed_; // of the measuring itself, not of a candidate
    std::mutex mutex_;
    std::condition_variable changed_;
    const bool beside_; // whether builds and search run in parallel with timing
    std::thread builder_, timer_;
};

} // namespace kumiko
