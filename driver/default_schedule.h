// A schedule for any op, good without tuning: a library schedule (schedules/library/) where one fits the op, else a generic
// one.
#pragma once

#include "machine/machine.h"
#include "schedules/library/packed_by.h"
#include "schedules/library/space.h"
#include "schedules/schedule.h"

#include <functional>
#include <string>
#include <vector>

namespace kumiko {

// A default schedule, and the alternatives that were compared before it was chosen.
struct DefaultChoice {
    Schedule schedule;
    std::vector<ComparedPoint> compared = {};
};

// A schedule that compile(op) tries.
struct DefaultCandidate {
    std::string name;                    // of the library's schedule, "apart" or "plain"
    std::function<DefaultChoice()> make; // may throw, when the schedule does not apply
};

// In the order in which they are tried: the library's schedules that match the op, the most special
// first. "apart" follows "elementwise": the same rules, but no stage is in the loops of another.
// Then come "stages", in which every stage is at the root with its innermost axis in vectors, and
// "plain", the loops of the formula, which applies to every op.
std::vector<DefaultCandidate> default_candidates(const Op &op, const Machine &machine);

// A candidate that was left for the next one.
struct PassedOver {
    std::string name;
    std::string reason; // of the error that it caused
    bool internal;      // that error is a bug of Kumiko
};

// Calls use(choice) with each candidate's schedule until one causes no error. Returns the name of
// that one; `passed_over` receives those before it. Throws the error of the last candidate when all
// cause one.
std::string use_first_candidate(const std::vector<DefaultCandidate> &candidates,
                                const std::function<void(const DefaultChoice &)> &use,
                                std::vector<PassedOver> &passed_over);

// "\"reduce\" does not apply: …"
std::string to_string(const PassedOver &other);

// The first candidate that applies to the op and lowers; `passed_over` receives those before it,
// and `name` its name. With PackedBy::Caller the schedule for callers that pack weights; throws
// Unsupported where the library has none for the op.
Schedule default_schedule(const Op &op, const Machine &machine, PackedBy packed_by = PackedBy::Kernel,
                          std::vector<PassedOver> *passed_over = nullptr, std::string *name = nullptr);

} // namespace kumiko
