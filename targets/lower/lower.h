// Lowers a schedule to a nest, the form that every target accepts (targets/lower/nest.h).
//
// Lowering is one table of passes. Each can be printed and timed, and the verifier may run between
// them:
//   build      stages become loops over regions, with their tails; reads and writes still by index
//   pads       elements beyond the end of a buffer that vector lanes load become zero
//   flatten    indices become offsets into storage
//   tensorize  blocks that are a tensor instruction become a call of it
//   partition  loops are split into border and interior, where padding is not tested
//   vectorize  vector loops become vectors, conditions on lanes become predicates
//   unroll     unrolled loops become copies
//   interleave strided stores that fill each other's gaps become one dense store
//   simplify   index arithmetic, conditions and extents are simplified; values never are
//   group      consecutive stores are sorted by array
//   join       two neighbouring stores of less than a vector become one
//   hoist      workspaces are allocated outside serial loops
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
    bool verify = true;       // run the verifier after the last pass; throws InternalError
    bool verify_each = false; // also after every pass that produces flat code
    // The limit on loads and stores after unrolling, beyond which UserError is thrown; 0: none.
    size_t most_accesses = 0;
    // For callers that only count what the nest does: unrolled loops whose copies are alike stay
    // loops of ForType::Unrolled, and there are no `packs`. Such a nest is not verified and must
    // not be compiled; it may contain what the target lacks.
    bool to_count = false;
    // Called after each pass.
    std::function<void(const std::string &pass, const Halide::Internal::Stmt &)> print;
    std::vector<PassReport> *timings = nullptr;
};

// Throws UserError if a schedule cannot be realised (names the directive's stage and loop), and
// Unsupported if lowering does not implement it.
Nest lower(const Schedule &schedule, const LowerOptions &options = {});

// Names of the passes, in order.
std::vector<std::string> pass_names();

} // namespace kumiko
