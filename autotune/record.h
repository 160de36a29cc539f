// One candidate and what became of it: what the database keeps, and what tuning returns.
#pragma once

#include "autotune/features/features.h"
#include "autotune/measurer.h"
#include "machine/machine.h"
#include "schedules/schedule.h"
#include "support/boxed_json.h"

#include <optional>

namespace kumiko {

// What a result belongs to: a formula with its shapes and types (all in its hash), symbolic sizes as they were bound, a
// machine, and a number of threads.
struct TaskKey {
    std::string op; // its name
    std::string op_hash;
    Sizes sizes;
    std::string machine; // KeyMachine::text()
    int threads = 1;
};

// What a key says of the machine: its id, and in which way kernels were measured and called, as TuneOptions has it.
struct KeyMachine {
    std::string id;
    bool cold = false, ahead = false;

    std::string way() const; // ", caches cold, weights packed ahead", what of it holds
    std::string text() const { return id + way(); }
    static KeyMachine parse(std::string text);
    bool same_way(const KeyMachine &other) const { return cold == other.cold && ahead == other.ahead; }
};

struct Record {
    TaskKey key;
    Machine machine;
    std::string library_template; // whose parameters these are; empty: a space of the caller's own
    Boxed<Json> parameters;
    Boxed<nlohmann::json> saved_schedule;
    std::string schedule_hash;

    Outcome outcome = Outcome::Ok;
    std::string reason;
    Timing timing;                       // as measured once, during the search
    std::optional<double> final_seconds; // median of the last comparison, side by side with the best few
    double build_seconds = 0;
    uint64_t seed = 0;
    std::string
        origin; // how the search came to it: Proposal::origin, or "pool" of one that was only looked at, and rejected
    Features features;               // version 0: not known
    double estimated_seconds = 0;    // the analytical estimate, 0: not known
    std::optional<double> predicted; // the model's score before it was measured: greater is faster
    std::string created;             // UTC, "2026-11-21T09:30:00Z"

    // Whether it was built, which makes it a trial. What is not legal was not, nor what could not be lowered when it was described.
    bool tried() const { return outcome != Outcome::Illegal && (outcome != Outcome::Unbuildable || build_seconds > 0); }
    // Seconds a call: from the last comparison if it took part in it.
    double seconds() const { return final_seconds.value_or(timing.least); }
    // The order in which Database::best() takes those that are good: compared side by side before measured once, then the faster.
    bool ranks_before(const Record &other) const {
        if (final_seconds.has_value() != other.final_seconds.has_value()) return final_seconds.has_value();
        return seconds() < other.seconds();
    }
    // Throws UserError when the op is not the one that was tuned, or the schedule is of a newer version.
    Schedule schedule(const Op &op) const;
};

} // namespace kumiko
