// Times several pieces of work against each other. On a shared machine the clock and the other load
// change from one second to the next, so measurements alternate: a round times each piece once, and
// all see the same load.
#pragma once

#include <concepts>
#include <functional>
#include <utility>
#include <vector>

namespace kumiko::bench {

struct TimerOptions {
    double sample_seconds = 0.004; // work is repeated until one sample takes this long
    double budget_seconds = 0.3;   // for the slowest piece, all its samples together
    int min_rounds = 11;           // even when that exceeds the budget
    int max_rounds = 101;
    // Pause before each sample: idle threads of the previous piece may spin for some milliseconds
    // (OpenMP's do). Set it to about 0.005 if pieces with their own threads are compared.
    double pause_seconds = 0;
};

// Seconds of one run. p10 and p90 are the tenth and ninetieth percentile.
struct Timing {
    double median = 0, min = 0, p10 = 0, p90 = 0;
    int repeats = 0;
    std::vector<double> samples; // one per round, in order

    // The spread of the samples relative to the median.
    double spread() const { return median > 0 ? (p90 - p10) / median : 0; }
};

// A piece of work: `run` does it once. Work in another process measures itself, since the
// communication must not count: `timed(n)` does it once untimed and n times more, and returns the
// total seconds of these n.
struct TimedWork {
    std::function<void()> run;
    std::function<double(int)> timed; // empty: timed from outside

    TimedWork() = default;
    template<std::invocable F>
    TimedWork(F f) : run(std::move(f)) {}
    explicit TimedWork(std::function<double(int)> self_timed)
        : run([self_timed] { self_timed(1); }), timed(std::move(self_timed)) {}
};

// How many times faster `ours` is than `theirs`: the median over rounds of the ratio within a
// round, which changes of the clock and of other load disturb less than the ratio of two medians.
// Both must come from one time_interleaved().
double speedup(const Timing &ours, const Timing &theirs);

// The statistics of samples, in seconds. Requires at least one.
Timing summarize(std::vector<double> samples);

// Runs each piece to warm up, derives repeats from its speed, then times all pieces alternately,
// each after one untimed run that loads its data into the caches. The order is reversed in every
// second round, so that no piece always follows the same other one. The result has the order of
// `work`. An exception of a piece ends the timing and is rethrown.
std::vector<Timing> time_interleaved(const std::vector<TimedWork> &work, const TimerOptions &options = {});

inline Timing time_one(const TimedWork &work, const TimerOptions &options = {}) {
    return time_interleaved(std::vector<TimedWork>{work}, options).front();
}

} // namespace kumiko::bench
