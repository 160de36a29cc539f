// Timing of several pieces of work against each other. On a shared machine the clock and the neighbours change from one
// second to the next, so the pieces take turns: a round times each once, and every piece sees the same weather.
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
    // Before each sample: idle threads of the piece before may spin for some milliseconds (OpenMP's do). Set it to about
    // 0.005 when pieces with threads of their own are compared.
    double pause_seconds = 0;
};

// Seconds of one run. p10 and p90 are the tenth and ninetieth percentile.
struct Timing {
    double median = 0, min = 0, p10 = 0, p90 = 0;
    int repeats = 0;
    std::vector<double> samples; // one of each round, in order

    // How far apart the usual samples are, relative to the median.
    double spread() const { return median > 0 ? (p90 - p10) / median : 0; }
};

// A piece of work: `run` does it once. What runs in another process measures itself, since the way there must not count:
// `timed(n)` does it once untimed and n times more, and returns the seconds of these n together.
struct TimedWork {
    std::function<void()> run;
    std::function<double(int)> timed; // none: timed from outside

    TimedWork() = default;
    template<std::invocable F>
    TimedWork(F f) : run(std::move(f)) {}
    explicit TimedWork(std::function<double(int)> self_timed)
        : run([self_timed] { self_timed(1); }), timed(std::move(self_timed)) {}
};

// How many times faster `ours` is than `theirs`: the median over rounds of the ratio within a round, which changes of the
// clock and of the neighbours' load disturb less than the ratio of two medians. Both come from one time_interleaved().
double speedup(const Timing &ours, const Timing &theirs);

// The statistics of samples, in seconds. Requires at least one.
Timing summarize(std::vector<double> samples);

// Runs each piece to warm up, chooses repeats by its pace, then times all in turn, each after one untimed run that brings
// its own data into the caches. The order is reversed in every second round, so that nobody always follows the same
// neighbour. Same order and count as `work`. A piece that throws ends the timing with its exception.
std::vector<Timing> time_interleaved(const std::vector<TimedWork> &work, const TimerOptions &options = {});

inline Timing time_one(const TimedWork &work, const TimerOptions &options = {}) {
    return time_interleaved(std::vector<TimedWork>{work}, options).front();
}

} // namespace kumiko::bench
