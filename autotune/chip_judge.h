// Judges candidates for the chip: each is compiled, simulated and compared with the formula, several at a time; its time is that of the
// cycles that the simulator counts, so it is the same whenever it is asked for.
#pragma once

#include "autotune/arrays.h"
#include "autotune/judge.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace kumiko {

struct ChipJudgeOptions {
    int jobs = 0;                                         // simulations at a time, 0: one per core of this machine
    double longest_reference = kumiko::longest_reference; // of make_judged_arrays (autotune/arrays.h)
    std::function<bool()> over = nullptr;                 // when true, next() waits no longer; asked in its thread
};

class ChipJudge : public Judge {
public:
    // The space's machine is a chip; it must outlive the judge. Throws UserError when the op cannot be evaluated.
    explicit ChipJudge(const Space &space, const ChipJudgeOptions &options = {});
    ~ChipJudge() override;

    void submit(std::vector<Candidate> candidates) override;
    // In the order of submission, so that a search does not depend on which simulation ends first.
    std::optional<Verdict> next(double best) override;
    std::vector<Verdict> cancel() override;
    std::vector<Measured> compare(std::vector<Candidate> candidates, double seconds,
                                  const std::function<bool()> &over) override;
    size_t wanted() const override { return 8; } // on every host, so that a seed proposes the same
    JudgeFacts facts() const override { return {reference_seconds_, arrays_.exact, 0, arrays_.sampled}; }
    // How many candidates were simulated to their ends and were right, those counted that had been cancelled by then.
    int finished() const { return finished_; }

private:
    Measured measure(Candidate &candidate, double best) const;
    void work();
    void submit(std::vector<Candidate> candidates, double best);
    std::optional<Verdict> take(const std::function<bool()> &over);

    const Space &space_;
    const ChipJudgeOptions options_;
    JudgedArrays arrays_;
    double reference_seconds_ = 0;

    struct Job {
        size_t number;
        double best; // when it was submitted: what is waited for does not depend on which simulation ends first
        Candidate candidate;
    };
    std::deque<Job> waiting_;
    std::map<size_t, Verdict> done_;
    size_t submitted_ = 0, returned_ = 0;
    int busy_ = 0;
    bool stopping_ = false;
    std::atomic<bool> ending_ = false; // what is being simulated is wanted no more
    std::atomic<int> finished_ = 0;    // simulated to their ends
    size_t generation_ = 0;            // of cancel(): what began before is dropped
    double best_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::thread> workers_;
};

} // namespace kumiko
