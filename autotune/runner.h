// Interface for building and measuring candidates, on this machine (autotune/local_runner.h) or on
// others.
#pragma once

#include "autotune/build.h"

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

namespace kumiko {

// The result for one candidate.
struct MeasureResult {
    Candidate candidate;     // with its object, if this process built it
    Measured measured;       // if it could not be built: the candidate's outcome
    std::string worker = {}; // the worker that measured it; "" for this process
};

struct RunnerFacts {
    double reference_seconds = 0; // time to evaluate the formula
    bool exact = false;           // outputs are compared bit for bit
    double clock_hz = 0;          // of the measuring unit; 0: unknown
    int64_t sampled = 0;          // number of output elements that are checked; 0: all
};

// The shortest possible time of a measurement in seconds, at the measuring unit's clock; 0:
// unknown.
using LeastPossible = std::function<double(double clock_hz)>;

// Whether a measurement is good and not impossibly fast. An impossibly fast one, for example after
// the clock was set back, becomes Impossible: it is neither a reference nor called best. If only
// single samples are too fast, as when the system counts a thread's time as stolen, the median
// replaces the minimum.
bool accept(Measured &measured, double least_possible);

constexpr std::chrono::milliseconds polling_interval(50); // polling interval for cancellation

class CandidateRunner {
public:
    virtual ~CandidateRunner() = default;
    // Takes candidates to build and measure. Their outcome must be Ok.
    virtual void submit(std::vector<Candidate> candidates) = 0;
    // Waits for the next result; nullopt if no candidate is under way, or if the runner's `over`
    // callback ended it. `best`: the shortest good time so far, or infinity. Far slower candidates
    // may be timed less precisely.
    virtual std::optional<MeasureResult> next(double best) = 0;
    // Cancels all candidates without a result. Returns finished results that next() has not
    // returned yet.
    virtual std::vector<MeasureResult> cancel() = 0;
    // Measures at most 16 candidates in alternation, so that all see the same machine load; nothing
    // else may be under way. A candidate that fails, though it was good before, is dropped, and the
    // others are compared without it; a hang counts for the one whose call does not end in its own
    // time limit. Good candidates have no timings if they could not be compared: `over` (may be
    // null) became true, all together took far longer than `seconds`, or memory was insufficient
    // (no_room).
    virtual std::vector<Measured> compare(std::vector<Candidate> candidates, double seconds,
                                          const std::function<bool()> &over) = 0;
    // The number of candidates under way that keeps the runner busy.
    virtual size_t wanted() const = 0;
    virtual RunnerFacts facts() const = 0;
};

} // namespace kumiko
