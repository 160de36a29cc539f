// A schedule for any op that performs well without tuning: a library schedule (schedules/library/)
// if one matches the op, otherwise a generic one.
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
    // Name of the library schedule, "apart", "stages" or "plain".
    std::string name;
    std::function<DefaultChoice()> make; // throws if the schedule does not apply
};

// The candidates in the order in which they are tried. First the library schedules that match the
// op, the most specific first. "apart" follows "elementwise": the same rules, but without fusing
// stages into each other's loops. Then "stages", with every stage at the root and its innermost
// axis vectorized, and "plain", the loops of the formula, which applies to every op.
std::vector<DefaultCandidate> default_candidates(const Op &op, const Machine &machine);

// A candidate that was rejected in favour of a later one.
struct PassedOver {
    std::string name;
    std::string reason; // message of the error that it caused
    bool internal;      // the error is a bug in Kumiko
};

// Calls use(choice) with the schedule of each candidate until one succeeds, and returns its name.
// `passed_over` receives the earlier ones. If all fail, throws the error of the last one.
std::string use_first_candidate(const std::vector<DefaultCandidate> &candidates,
                                const std::function<void(const DefaultChoice &)> &use,
                                std::vector<PassedOver> &passed_over);

// "\"reduce\" does not apply: …"
std::string to_string(const PassedOver &other);

// The first candidate that applies to the op and can be lowered. `passed_over` receives the earlier
// ones, `name` its name. With PackedBy::Caller: a schedule with pre-packed weights; throws
// Unsupported if the library has none for the op.
Schedule default_schedule(const Op &op, const Machine &machine, PackedBy packed_by = PackedBy::Kernel,
                          std::vector<PassedOver> *passed_over = nullptr, std::string *name = nullptr);

} // namespace kumiko
