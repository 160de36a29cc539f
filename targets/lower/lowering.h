// What the passes hand on to each other.
#pragma once

#include "machine/instruction.h"
#include "schedules/facts.h"
#include "targets/lower/lower.h"

namespace kumiko {

// How one buffer stores a tensor, or a region of one.
struct Storage {
    std::string tensor; // whose elements these are
    Type type;
    Region region;                  // the part that is stored; external: the whole
    std::vector<LayoutTerm> layout; // empty: the axes in order
    std::vector<std::string> axes;
    // The axis of a ring: its extent in `region` is the number of planes, and indices are taken modulo it.
    std::optional<size_t> ring;
    std::vector<Expr> strides; // external only, in elements
    bool external = false;
    bool covers_reads = false; // loads beyond a vector's tail stay inside it, so they need no predicate
    bool covers_lanes = false; // and so do stores beyond it
    struct {
        std::vector<Expr> first, end; // of each axis: the indices in [first, end)
    } written;                        // with covers_reads: the elements that the stage's own loops write
    bool is_output = false;
    // Several copies behind each other: which one is meant here, and, when this is a view of it, the buffer that holds them.
    int copies = 1;
    Expr copy;
    std::string buffer;
};

// A block that an instruction computes, by the name of each of its loops.
struct TensorUse {
    std::string stage;
    Instruction instruction;
    std::set<std::string> reductions; // loops of the block that reduce
};

// A place in the nest where pads.cpp stores zeros: in the elements of a buffer that lanes read and
// that the stage's own loops do not write.
struct Pad {
    std::string buffer;   // or a view of one of several copies,
    std::string variable; // which is the copy of another iteration of this loop,
    Expr at;              // this one
    bool whole = false;   // all that the storage order rounds up, whoever reads it
};

// One schedule on its way; a specialised one has a Lowering of its own until the bodies are joined.
struct Lowering {
    Facts facts;              // what holds of the sizes
    ScheduleState state;      // with the facts in place
    size_t most_accesses = 0; // loads and stores that unrolled loops may become; 0: any number
    bool to_count = false;    // copies that are alike need not be made
    bool copied = false;      // by unroll: there are copies whose indices are not simplified yet
    bool packing = false;     // of the entry that packs an input: the copies that prepack made are computed
    Nest nest;
    std::map<std::string, Storage> storage;       // by buffer name
    std::vector<Pad> pads;                        // by the marks in the body
    std::map<std::string, std::string> copies_by; // buffers of several copies, by the loop that takes them in turn
    std::map<std::string, TensorUse> tensorized;
    std::set<std::string> joined; // vectorized loops that reduce: their lanes are joined
};

struct Pass {
    const char *name;
    void (*run)(Lowering &);
    const char *needs; // the form it takes …
    const char *gives; // … and leaves
};

void build_nest(Lowering &);        // build_nest.cpp
void fill_pads(Lowering &);         // pads.cpp
void flatten_storage(Lowering &);   // flatten.cpp
void tensorize_blocks(Lowering &);  // tensorize.cpp
void partition_loops(Lowering &);   // partition.cpp
void vectorize_loops(Lowering &);   // vectorize.cpp
void unroll_loops(Lowering &);      // unroll.cpp
void interleave_stores(Lowering &); // interleave.cpp
void simplify_indices(Lowering &);  // simplify.cpp
void group_stores(Lowering &);      // interleave.cpp
void join_stores(Lowering &);       // interleave.cpp
void hoist_allocations(Lowering &); // hoist.cpp
void rename_loops(Lowering &);      // rename.cpp

// A mark in the body for `fill_pads`.
Halide::Internal::Stmt pad_mark(Lowering &l, const Pad &pad); // pads.cpp

// The bounds in a conjunction: a <= b or a < b, of int32. And where one holds, as something that is to be at least zero.
std::vector<Expr> bounds_in(const Expr &condition); // partition.cpp
Expr slack(const Expr &bound);

// With exp(x - max), where max is the maximum of what x is one of, made a call of exp_nonpositive of a difference that is not contracted, and 1 + erf(x) of one_plus_erf.
Expr functions_in_place(const ScheduleState &state, const Expr &e); // functions.cpp

// Remainders of neighbours as neighbours: (6 x + 1) % 12 as (6 x) % 12 + 1.
Expr split_remainders(const Expr &index); // simplify.cpp

// Whether the copies of an unrolled loop do the same, each at places that differ by a constant.
// `body` is the loop's. False where a later pass combines copies: stores that interleave, and
// neighbouring stores of less than a vector.
bool copies_alike(const Halide::Internal::For *loop, const Halide::Internal::Stmt &body,
                  int vector_bits); // copies_alike.cpp

// Throws InternalError: a variable without definition, two nested loops of one name, a leftover vector or unrolled loop, an
// access that provably leaves its buffer.
void verify(const Lowering &); // verify.cpp

} // namespace kumiko
