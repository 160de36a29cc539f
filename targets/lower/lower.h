// From a schedule to a nest that every target takes (targets/lower/nest.h).
//
// The road is one table of passes; each can be printed and timed, and a verifier may run between them:
//   build      stages become loops over regions, with their tails; reads and writes still by index
//   pads       what lanes beyond the end of a buffer's elements load becomes zero
//   flatten    indices become offsets into storage
//   tensorize  blocks that are a tensor instruction become a call of it
//   partition  loops are split into border and interior, where padding is not tested
//   vectorize  vector loops become vectors, conditions on lanes become predicates
//   unroll     unrolled loops become copies
//   simplify   index arithmetic, conditions and extents are simplified; values never are
//   rename     loops and temporaries get unique, stable names
// Values are never simplified because that would change floating-point results.
#pragma once

#include "schedules/schedule.h"
#include "targets/lower/nest.h"
#include "targets/lower/pass_report.h"

#include <functional>

namespace kumiko {

struct LowerOptions {
    std::string kernel_name;  // the symbol; the op's name when empty
    bool verify = true;       // after the last pass; throws InternalError
    bool verify_each = false; // after every pass that leaves flat code
    size_t most_accesses = 0; // loads and stores that unrolled loops may become, or UserError; 0: any number
    // For who only counts what the nest does: unrolled loops whose copies are alike stay loops, of ForType::Unrolled, and there are
    // no `packs`. Such a nest is not verified, and not for a target, which may not see what it lacks.
    bool to_count = false;
    std::function<void(const std::string &pass, const Halide::Internal::Stmt &)> print; // called after each pass
    std::vector<PassReport> *timings = nullptr;
};

// Throws UserError when a schedule cannot be realised (names the directive's stage and loop), Unsupported when it could.
Nest lower(const Schedule &schedule, const LowerOptions &options = {});

// Names of the passes, in order.
std::vector<std::string> pass_names();

} // namespace kumiko
