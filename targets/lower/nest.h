// What every target receives: flat Halide IR with the tables that describe it.
//
// The body uses one-dimensional loads and stores whose indices count elements; loops are serial or parallel only (vectors
// and unrolled copies are already expanded); allocations carry one of MemoryType::Register and Stack (constant size, on
// the stack) or Heap (workspace). Variables that nothing in the body defines are the symbolic sizes and the tensors.
#pragma once

#include "dsl/halide.h"
#include "machine/instruction.h"

#include <string>
#include <vector>

namespace kumiko {

// Calls in the body: exp_f32 of what is at most 60, and 1 + erf_f32(x).
inline constexpr const char *exp_nonpositive = "exp_nonpositive_f32", *one_plus_erf = "one_plus_erf_f32";

// One array that the caller passes. Dimensions are row-major, outermost first; extents and strides (in elements) are
// expressions over the symbolic sizes.
struct TensorArgument {
    std::string name;
    Type type;
    bool output = false;
    std::vector<Expr> extents;
    std::vector<Expr> strides;
    // Prepacked: the input in another storage order, made by the entry of `packs`. It has one dimension, all its elements.
    std::string packed_from = {};
    bool inout = false;    // an output whose elements are read before they are written
    bool streamed = false; // an output whose stores pass the caches by, where it begins at a multiple of a cache line
};

// A condition that the caller promises, checked at the door.
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

struct Nest {
    std::string name;                    // the kernel's symbol
    std::vector<TensorArgument> tensors; // inputs, then outputs: the order of the C parameters
    std::vector<std::string> sizes; // symbolic sizes, Int(32) variables in the body: the C parameters after the tensors
    std::vector<Assumption> assumptions;
    Halide::Internal::Stmt body;
    std::vector<LoopRow> loops;
    std::vector<BufferRow> buffers;
    // One kernel "<name>_pack_<input>" for each prepacked input: it takes the input and writes the packed array, whose number
    // of elements is tensors[1].extents[0].
    std::vector<Nest> packs = {};
    // What the body's "kumiko.inst.<name>" calls may mean; null: the built-in ones.
    std::shared_ptr<const InstructionSet> instructions = nullptr;
};

// The kernel and its packs, in that order: what is compiled together.
inline std::vector<Nest> with_packs(const Nest &kernel) {
    std::vector<Nest> all = {kernel};
    all.insert(all.end(), kernel.packs.begin(), kernel.packs.end());
    return all;
}

} // namespace kumiko
