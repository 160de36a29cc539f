// The state that passes share.
#pragma once

#include "machine/instruction.h"
#include "schedules/facts.h"
#include "targets/lower/lower.h"

namespace kumiko {

// How one buffer stores a tensor, or a region of one.
struct Storage {
    std::string tensor; // whose elements are stored
    Type type;
    Region region;                  // the part that is stored; the whole tensor if external
    std::vector<LayoutTerm> layout; // empty: the axes in order
    std::vector<std::string> axes;
    // The axis of a ring buffer: its extent in `region` is the number of planes, and indices are
    // taken modulo it.
    std::optional<size_t> ring;
    std::vector<Expr> strides; // external only, in elements
    bool external = false;
    // Loads beyond a vector's tail stay inside the storage, so they need no predicate.
    bool covers_reads = false;
    bool covers_lanes = false; // stores beyond the tail stay inside it too
    struct {
        std::vector<Expr> first, end; // per axis: the indices in [first, end)
        // If covers_reads: the elements that the stage's own loops write.
    } written;
    bool is_output = false;
    // The number of consecutive copies in the buffer. `copy` selects one; if this is a view of a
    // copy, `buffer` is the buffer that holds them.
    int copies = 1;
    Expr copy;
    std::string buffer;
};

// A block that a tensor instruction computes; keyed by the name of each of its loops.
struct TensorUse {
    std::string stage;
    Instruction instruction;
    std::set<std::string> reductions; // loops of the block that reduce
};

// A place in the nest where pads.cpp stores zeros: in the elements of a buffer that vector lanes
// read and the stage's own loops do not write.
struct Pad {
    std::string buffer; // or a view of one of several copies
    // Of a view: the loop that cycles through the copies, and its iteration that uses this one.
    std::string variable;
    Expr at;
    bool whole = false; // zero everything that the storage order rounds up, whoever reads it
};

// One schedule during lowering. A specialised schedule has its own Lowering until the bodies are
// joined.
struct Lowering {
    Facts facts;              // known facts about the sizes
    ScheduleState state;      // with the facts in place
    size_t most_accesses = 0; // most loads and stores after unrolling; 0: any number
    bool to_count = false;    // identical copies need not be made
    bool copied = false;      // the pass `unroll` made copies whose indices are not simplified yet
    // Lowers the entry that pre-packs an input: the copies that prepack made are computed.
    bool packing = false;
    Nest nest;
    std::map<std::string, Storage> storage; // by buffer name
    std::vector<Pad> pads;                  // by the marks in the body
    // Buffers with several copies, by the loop that cycles through them.
    std::map<std::string, std::string> copies_by;
    std::map<std::string, TensorUse> tensorized;
    std::set<std::string> joined; // vectorized reduction loops: their lanes are reduced
};

// What the body of a nest consists of; each form excludes more than the one before it.
enum class NestForm {
    Indexed,        // accesses by index
    Flat,           // loads and stores at offsets
    NoVectorLoops,  // and no loops over lanes
    NoUnrolledLoops // and no loops over copies
};

// A pass takes the form that the pass before it produces.
struct Pass {
    const char *name;
    void (*run)(Lowering &);
    NestForm gives; // which the verifier checks
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

// The int32 bounds in a conjunction, each a <= b or a < b.
std::vector<Expr> bounds_in(const Expr &condition); // partition.cpp
// An expression that is >= 0 exactly where the bound holds.
Expr slack(const Expr &bound);

// Rewrites exp(x - max), where max is the maximum over values that include x, to exp_nonpositive
// (the difference is not contracted to an FMA), and 1 + erf(x) to one_plus_erf.
Expr functions_in_place(const ScheduleState &state, const Expr &e); // functions.cpp

// Splits remainders of neighbouring indices: (6 x + 1) % 12 becomes (6 x) % 12 + 1.
Expr split_remainders(const Expr &index); // simplify.cpp

// Whether the copies of an unrolled loop with this body do the same, at addresses that differ by a
// constant. False if a later pass combines copies: interleaved stores, and neighbouring stores of
// less than a vector.
bool copies_alike(const Halide::Internal::For *loop, const Halide::Internal::Stmt &body,
                  int vector_bits); // copies_alike.cpp

// Throws InternalError if the body does not have the form, uses a variable without definition,
// nests two loops of one name, or provably accesses an element beyond a buffer (verify.cpp).
void verify(const Lowering &, NestForm form);

} // namespace kumiko
