// Who builds and measures candidates: this machine (autotune/local_judge.h), or others.
#pragma once

#include "autotune/build.h"

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

namespace kumiko {

// What became of one candidate.
struct Verdict {
    Candidate candidate;     // with its object, where this process built it
    Measured measured;       // its outcome is the candidate's own when it could not be built
    std::string worker = {}; // whose verdict it is; empty: of this process
};

struct JudgeFacts {
    double reference_seconds = 0; // that evaluating the formula took
    bool exact = false;           // outputs have to have equal bits
    double clock_hz = 0;          // of the unit that measures, 0: unknown
    int64_t sampled = 0;          // elements of the outputs that are checked, 0: all
};

// The least seconds that a measurement can take and be true, at the clock of the unit that measures; 0: unknown.
using LeastPossible = std::function<double(double clock_hz)>;

// Whether a measurement is good, and takes as long as it must. One that does not, as after a clock that was set back, becomes
// Impossible: nothing may be measured by it, nor called best. Where single samples take less, as where a system takes a thread's time for
// stolen, the median stands for the least.
bool accept(Measured &measured, double least_possible);

constexpr std::chrono::milliseconds look_pause(50); // of who waits, from one question whether it is over to the next

class Judge {
public:
    virtual ~Judge() = default;
    // Takes candidates to build and measure. Their outcome is Ok so far.
    virtual void submit(std::vector<Candidate> candidates) = 0;
    // Waits for the next verdict; nothing when no candidate is under way. `best`: the least seconds of a good one so far,
    // infinite when there is none: what is far slower may be timed less closely. Also nothing when it is over, as the judge was told to
    // ask.
    virtual std::optional<Verdict> next(double best) = 0;
    // Ends and forgets what was submitted and has no verdict yet. Verdicts that there are already and were not asked for.
    virtual std::vector<Verdict> cancel() = 0;
    // What becomes of each of at most 16 candidates when they are measured in turns, so that what differs is the candidates and not
    // the hour; nothing is under way meanwhile. One that fails, though it was good before, is left out, and the others are compared
    // without it; of a hang who does not end a call in its own time. Good ones have no timings where they could not be compared: `over`
    // (null: never) said so before the end, all together took far longer than `seconds`, or there was no room for them (no_room).
    virtual std::vector<Measured> compare(std::vector<Candidate> candidates, double seconds,
                                          const std::function<bool()> &over) = 0;
    // How many candidates under way keep it busy.
    virtual size_t wanted() const = 0;
    virtual JudgeFacts facts() const = 0;
};

} // namespace kumiko
