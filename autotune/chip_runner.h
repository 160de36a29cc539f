// Measures candidates for the chip: several at a time are compiled, simulated and compared with the
// formula. The time is the simulator's cycle count, so it is reproducible.
#pragma once

#include "autotune/arrays.h"
#include "autotune/runner.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace kumiko {

struct ChipRunnerOptions {
    int jobs = 0; // parallel simulations; 0: one per core of this machine
    // Time limit for evaluating the op, in seconds; beyond it a sample is checked
    // (autotune/arrays.h).
    double longest_reference = kumiko::longest_reference;
    std::function<bool()> over = nullptr; // when true, next() returns early; called in its thread
};

class ChipRunner : public CandidateRunner {
public:
    // The space's machine must be a chip, and the space must outlive the runner. Throws UserError
    // if the op cannot be evaluated.
    explicit ChipRunner(const Space &space, const ChipRunnerOptions &options = {});
    ~ChipRunner() override;

    void submit(std::vector<Candidate> candidates) override;
    // Results come in submission order, so that a search does not depend on which simulation
    // finishes first.
    std::optional<MeasureResult> next(double best) override;
    std::vector<MeasureResult> cancel() override;
    std::vector<Measured> compare(std::vector<Candidate> candidates, double seconds,
                                  const std::function<bool()> &over) override;
    // Independent of the host, so that a seed gives the same proposals.
    size_t wanted() const override { return 8; }
    RunnerFacts facts() const override { return {reference_seconds_, arrays_.exact, 0, arrays_.sampled}; }
    // The number of candidates simulated to the end with correct results, including those cancelled
    // by then.
    int finished() const { return finished_; }

private:
    Measured measure(Candidate &candidate, double best) const;
    void work();
    void submit(std::vector<Candidate> candidates, double best);
    std::optional<MeasureResult> take(const std::function<bool()> &over);

    const Space &space_;
    const ChipRunnerOptions options_;
    MeasuredArrays arrays_;
    double reference_seconds_ = 0;

    struct Job {
        size_t number;
        // The best time at submission, so that the cut-off does not depend on which simulation ends
        // first.
        double best;
        Candidate candidate;
    };
    std::deque<Job> waiting_;
    std::map<size_t, MeasureResult> done_;
    size_t submitted_ = 0, returned_ = 0;
    int busy_ = 0;
    bool stopping_ = false;
    std::atomic<bool> ending_ = false; // the running simulations are cancelled
    std::atomic<int> finished_ = 0;    // simulations that ran to the end
    size_t generation_ = 0;            // incremented by cancel(): older results are dropped
    double best_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::thread> workers_;
};

} // namespace kumiko
