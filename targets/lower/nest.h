// What every target receives: flat Halide IR and the tables that describe it.
//
// The body uses one-dimensional loads and stores whose indices count elements. Loops are serial or
// parallel only (vectors and unrolled copies are already expanded). Allocations have
// MemoryType::Register or Stack (constant size, on the stack) or Heap (workspace). Variables that
// the body does not define are the symbolic sizes and the tensors.
#pragma once

#include "dsl/halide.h"
#include "machine/instruction.h"

#include <string>
#include <vector>

namespace kumiko {

// Calls in the body: exp_f32(x) for x <= 60, and 1 + erf_f32(x).
inline constexpr const char *exp_nonpositive = "exp_nonpositive_f32", *one_plus_erf = "one_plus_erf_f32";

// One array that the caller passes. Dimensions are row-major, outermost first; extents and strides
// (in elements) are expressions over the symbolic sizes.
struct TensorArgument {
    std::string name;
    Type type;
    bool output = false;
    std::vector<Expr> extents;
    std::vector<Expr> strides;
    // The input that this argument is a pre-packed form of, written by the entry in `packs`. Such
    // an argument has one dimension that counts all its elements.
    std::string packed_from = {};
    bool inout = false; // an output whose elements are read before they are written
    // An output written by non-temporal stores if it is aligned to a cache line.
    bool streamed = false;
};

// A condition that the caller guarantees; checked on entry.
struct Assumption {
    Expr condition;   // over the symbolic sizes
    std::string text; // as the user wrote it
};

// One loop of the nest, before vectors and unrolled copies are expanded; outermost first.
struct LoopRow {
    std::string name;  // "C.i.o"
    std::string stage; // "C"
    std::string kind;  // "serial", "parallel", "vectorized", "unrolled"
    Expr extent;
    int depth = 0;
};

// One allocation made inside the kernel.
struct BufferRow {
    std::string name;
    Type type;
    std::string level; // a memory level of the machine table
    std::vector<Expr> extents;
};

// A lowered kernel: its arguments, assumptions, body, loops and buffers.
struct Nest {
    std::string name;                    // the kernel's symbol
    std::vector<TensorArgument> tensors; // inputs, then outputs: the order of the C parameters
    // Symbolic sizes, Int(32) variables in the body: the C parameters after the tensors.
    std::vector<std::string> sizes;
    std::vector<Assumption> assumptions;
    Halide::Internal::Stmt body;
    std::vector<LoopRow> loops;
    std::vector<BufferRow> buffers;
    // One kernel "<name>_pack_<input>" for each pre-packed input: it takes the input and writes the
    // packed array, whose number of elements is tensors[1].extents[0].
    std::vector<Nest> packs = {};
    // Defines the instructions that the body's "kumiko.inst.<name>" calls name; null: the built-in
    // ones.
    std::shared_ptr<const InstructionSet> instructions = nullptr;
};

// The kernel and its packs, in that order, which are compiled together.
inline std::vector<Nest> with_packs(const Nest &kernel) {
    std::vector<Nest> all = {kernel};
    all.insert(all.end(), kernel.packs.begin(), kernel.packs.end());
    return all;
}

} // namespace kumiko
