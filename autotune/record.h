// One candidate and its result: stored in the database, returned by tuning.
#pragma once

#include "autotune/features/features.h"
#include "autotune/measurer.h"
#include "machine/machine.h"
#include "schedules/schedule.h"
#include "support/boxed_json.h"

#include <optional>

namespace kumiko {

// The task that a result belongs to: a formula with shapes and types (in the hash), the values of
// symbolic sizes, a machine, and a number of threads.
struct TaskKey {
    std::string op; // the op's name
    std::string op_hash;
    Sizes sizes;
    std::string machine; // KeyMachine::text()
    int threads = 1;
};

// The machine part of a key: its id, and the measuring conditions, as in TuneOptions.
struct KeyMachine {
    std::string id;
    bool cold = false, ahead = false;

    std::string conditions() const; // ", caches cold, weights packed ahead": those that apply
    std::string text() const { return id + conditions(); }
    static KeyMachine parse(std::string text);
    bool same_conditions(const KeyMachine &other) const { return cold == other.cold && ahead == other.ahead; }
};

// One candidate: its task, schedule, outcome and times.
struct Record {
    TaskKey key;
    Machine machine;
    std::string library_template; // the library template of these parameters; "" for a user's space
    Boxed<Json> parameters;
    Boxed<nlohmann::json> saved_schedule;
    std::string schedule_hash;

    Outcome outcome = Outcome::Ok;
    std::string reason;
    Timing timing; // single measurement during the search
    // Median of the last comparison, side by side with the other finalists.
    std::optional<double> final_seconds;
    double build_seconds = 0;
    uint64_t seed = 0;
    // How the search proposed it: Proposal::origin, or "pool" for one that was only examined and
    // rejected.
    std::string origin;
    Features features;            // version 0: unknown
    double estimated_seconds = 0; // the analytical estimate; 0: unknown
    // The model's score before the measurement: higher is predicted faster.
    std::optional<double> predicted;
    std::string created; // UTC, "2026-11-21T09:30:00Z"

    // Whether it was built, which makes it a trial. Illegal candidates, and those that could not be
    // lowered when described, were not.
    bool tried() const { return outcome != Outcome::Illegal && (outcome != Outcome::Unbuildable || build_seconds > 0); }
    // Seconds per call: from the last comparison, if it took part.
    double seconds() const { return final_seconds.value_or(timing.least); }
    // The order of Database::best() for good records: compared before measured once, then by time.
    bool ranks_before(const Record &other) const {
        if (final_seconds.has_value() != other.final_seconds.has_value()) return final_seconds.has_value();
        return seconds() < other.seconds();
    }
    // Throws UserError if the op is not the tuned one, or the schedule has a newer version.
    Schedule schedule(const Op &op) const;
};

} // namespace kumiko
