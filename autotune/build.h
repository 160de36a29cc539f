// Compiles a point of a space to an object file that the measurer can link.
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
    nlohmann::json schedule;   // saved form
    std::string schedule_hash; // of its directives
    Outcome outcome = Outcome::Ok;
    std::string reason;
    std::string object; // ELF object with the function `symbol`
    std::string symbol;
    std::vector<PackedInput> packs; // inputs that the schedule pre-packs
    double build_seconds = 0;

    std::string origin;               // as in Record
    Features features;                // version 0: not computed
    double estimated_seconds = 0;     // the analytical estimate; 0: not computed
    std::optional<double> predicted;  // the model's score: higher is predicted faster
    std::optional<Schedule> made;     // between description and build
    std::shared_ptr<const Nest> nest; // a nest supplied by the space, until it is built
};

// Does not throw for a bad candidate: outcome and reason describe the error.
Candidate make_candidate(const Space &space, const Point &point);
// The same, with the schedule if it is legal.
std::pair<Candidate, std::optional<Schedule>> make_with_schedule(const Space &space, const Point &point);
// Whether the point has a schedule whose nest can be lowered without excessive unrolling.
bool can_be_lowered(const Space &space, const Point &point);
// Computes the features and the estimate of a legal candidate for `threads` cores, from a nest
// lowered as far as counting needs. For the chip, whose schedules are compiled without nests, the
// operations of its program are counted.
void describe(Candidate &candidate, const Schedule &schedule, const Space &space, int threads, const Sizes &sizes);
// The verifier's error for the candidate's nest; "" if there is none.
std::string fault_of(const Space &space, const Candidate &candidate);
// Lowers the candidate, unless it has a nest, and compiles it. The nest is not verified here:
// fault_of does that before a candidate is called best.
//
// A compiler may hang. Lowering and compiling therefore run in a separate thread. It is abandoned
// if `give_up`, called periodically with the elapsed seconds, returns true (docs/decisions/0045).
// An abandoned thread runs at idle priority until the process ends. It holds a copy of everything
// it uses, except what the emitters of user-defined instructions reference. The lowering in
// describe() and fault_of() involves no emitters and has no such guard.
void build_candidate(const Space &space, const CpuTarget &target, const Sizes &sizes, Candidate &candidate,
                     const std::function<bool(double seconds)> &give_up);

// The number of threads abandoned by this process; some may have ended since.
int abandoned_compilers();

// A hash of the directives only, so that equal schedules of one op have equal hashes.
std::string hash_of_schedule(const nlohmann::json &saved);

} // namespace kumiko
