// From a point of a space to an object file that the measurer can link.
#pragma once

#include "autotune/features/features.h"
#include "autotune/measurer.h"
#include "schedules/library/space.h"
#include "targets/cpu/cpu_target.h"
#include "targets/lower/nest.h"

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace kumiko {

struct Candidate {
    Point point;
    nlohmann::json schedule;   // the saved form
    std::string schedule_hash; // of its directives
    Outcome outcome = Outcome::Ok;
    std::string reason;
    std::string object; // ELF, with the function `symbol`
    std::string symbol;
    std::vector<PackedInput> packs; // inputs that its schedule packs ahead of time
    double build_seconds = 0;

    std::string origin;               // as in a record
    Features features;                // version 0: not asked for
    double estimated_seconds = 0;     // the analytical estimate, 0: not asked for
    std::optional<double> predicted;  // the model's score: greater is faster
    std::optional<Schedule> made;     // when it was described, until it is built
    std::shared_ptr<const Nest> nest; // of one that brings it, until it is built
};

// Never throws for what is wrong with the candidate: outcome and reason say so.
Candidate make_candidate(const Space &space, const Point &point);
// The same, with the schedule where it is legal.
std::pair<Candidate, std::optional<Schedule>> make_with_schedule(const Space &space, const Point &point);
// Whether there is a schedule at the point, and a nest of it that is not unrolled without measure.
bool can_be_lowered(const Space &space, const Point &point);
// The features and the estimate of a candidate that is legal, for `threads` cores, from a nest that is lowered as far as counting needs.
// Of the chip, whose schedules are compiled without nests, the operations of its program are counted.
void describe(Candidate &candidate, const Schedule &schedule, const Space &space, int threads, const Sizes &sizes);
// What the verifier says against the candidate's nest; empty: nothing.
std::string fault_of(const Space &space, const Candidate &candidate);
// Lowers what brings no nest, and compiles it. The nest is not verified: fault_of does that before one is called best.
//
// A compiler may hang. This lowering and compiling are done in a thread of their own, which is left behind when `give_up`, asked now and
// then with the seconds that have passed, says so (docs/decisions/0045): it goes on until the process ends, where no one else wants a
// processor, and holds a copy of all that it uses, but for what the emitters of a user's instructions refer to. The lowering of describe()
// and fault_of(), which no instruction's emitter takes part in, has no such guard.
void build_candidate(const Space &space, const CpuTarget &target, const Sizes &sizes, Candidate &candidate,
                     const std::function<bool(double seconds)> &give_up);

// How many such threads this process has left behind so far; they may have ended since.
int compilers_left_behind();

// Of the directives alone, so that equal schedules of one op have equal hashes.
std::string hash_of_schedule(const nlohmann::json &saved);

} // namespace kumiko
