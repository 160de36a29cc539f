// What the passes hand on to each other.
#pragma once

#include "schedules/frame.h"
#include "targets/lower/lower.h"

namespace kumiko {

// How one buffer stores a tensor, or a region of one.
struct Storage {
    std::string tensor; // whose elements these are
    Type type;
    Region region;                  // the part that is stored; external: the whole
    std::vector<LayoutTerm> layout; // empty: the axes in order
    std::vector<std::string> axes;
    std::vector<Expr> strides; // external only, in elements
    bool external = false;
    bool covers_lanes = false; // stores beyond a vector's tail stay inside it, so they need no predicate
    bool is_output = false;
};

struct Lowering {
    const Schedule *schedule;
    Nest nest;
    std::map<std::string, Storage> storage; // by buffer name
    // Facts about the sizes that hold when the kernel runs, and bounds that follow.
    std::vector<Expr> facts;

    const ScheduleState &state() const { return schedule->state(); }
};

struct Pass {
    const char *name;
    void (*run)(Lowering &);
    const char *needs; // the form it takes …
    const char *gives; // … and leaves
};

void build_nest(Lowering &);      // build_nest.cpp
void flatten_storage(Lowering &); // flatten.cpp
void vectorize_loops(Lowering &); // vectorize.cpp
void unroll_loops(Lowering &);    // unroll.cpp
void simplify_indices(Lowering &); // simplify.cpp
void rename_loops(Lowering &);    // rename.cpp

// Throws InternalError: a variable without definition, two nested loops of one name, a leftover vector or unrolled loop, an
// access that provably leaves its buffer.
void verify(const Lowering &); // verify.cpp

} // namespace kumiko
