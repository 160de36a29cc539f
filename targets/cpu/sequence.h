// A C function that calls kernels one after another: the driver of a model's library. It allocates
// nothing and keeps no state, so any number of threads may call it at once.
//
// Its numbers may follow from sizes that the caller passes. They are polynomials whose variables
// are the sizes divided by their steps, rounded down.
#pragma once

#include "support/polynomial.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kumiko {

struct CpuTarget;
struct ObjectFile;

// The memory of an argument of a step.
struct SequencePointer {
    enum class Base {
        Tensor, // an array that the caller passes
        Data,   // read-only bytes of the library, or of the file of weights
        Arena,  // memory that the caller passes
    } base = Base::Arena;
    size_t tensor = 0;     // Base::Tensor: its number
    Polynomial offset = 0; // bytes
    // Bytes from one iteration of a loop to the next. The loop is named by the number of loops
    // around it; -1: none.
    Polynomial stride = 0;
    int loop = -1;
    // Base::Arena: the offset is from the begin of this block of SequenceSizes::blocks; -1: of the
    // arena.
    int block = -1;
};

// Indices that must be in range: kumiko_check_indices (runtime/kumiko_runtime.h).
struct SequenceCheck {
    int bits = 64; // of an index, 32 or 64
    Polynomial count = 0;
    std::vector<Polynomial> extents;
    std::string text;
};

// A tensor that a step computes, for hooks (runtime/kumiko_context.h).
struct SequenceTensor {
    std::string name, type; // in the model; of the elements: "f32"
    std::vector<Polynomial> extents;
    SequencePointer place; // not Base::Data
};

// The function kumiko_select_<function> of the runtime (runtime/kumiko_runtime.h).
struct SequenceSelection {
    std::string function;
    std::vector<Polynomial> parameters;
};

// What ends a loop. Missing pointers: not a condition.
struct SequenceLoop {
    int depth = 0;         // number of loops around it
    Polynomial trips = -1; // iterations at most; -1: `count` or the conditions decide
    int64_t most = 0;      // more are the error KUMIKO_BAD_COUNT with this text
    std::string text;
    std::optional<SequencePointer> count;     // i64, iterations at most
    std::optional<SequencePointer> condition; // bool, of the first iteration
    std::optional<SequencePointer> again;     // bool, of a further iteration
    std::optional<SequencePointer> size;      // i64, receives the number of iterations
    std::optional<SequencePointer> number;    // i64, receives the number of each iteration
};

// A call of a function int SYMBOL(void *, …, int64_t, …, void *workspace, const kumiko_context *),
// a check of the indices in arguments[0], a copy of bytes from arguments[0] to arguments[1], a
// selection, a branch or a loop. A branch runs lists[0] if the bool in arguments[0] is not 0, else
// lists[1]. A loop runs lists[0] once, then lists[1] for each iteration.
struct SequenceStep {
    std::string symbol; // of the function; "": another kind of step
    std::vector<SequencePointer> arguments;
    std::vector<size_t> sizes = {};                // of a call: numbers of SequenceSizes::all
    std::optional<SequencePointer> workspace = {}; // of a call; unset: a null pointer is passed
    Polynomial bytes = 0;                          // of a copy
    std::optional<SequenceCheck> check = {};
    // Of the model, for hooks: names and operators of the step's nodes.
    std::vector<std::string> nodes = {}, operators = {};
    std::vector<SequenceTensor> made = {};
    std::optional<SequenceSelection> selection = {};
    std::vector<std::vector<SequenceStep>> lists = {}; // of a branch or loop
    std::optional<SequenceLoop> loop = {};             // unset: a step with lists is a branch
};

// Weights in a file, which the caller passes as a tensor (runtime/kumiko_runtime.h).
struct SequenceWeights {
    size_t tensor = 0;
    // int CHECK(const void *file, size_t bytes), which checks all of the file; "": another
    // sequence of the model has it
    std::string check;
    std::string model;            // for messages
    uint64_t bytes = 0, hash = 0; // of the file, of its data
};

// A size that the caller passes: least, least + step, …, at most `most`.
struct SequenceSize {
    std::string name; // for messages
    int64_t least = 0, most = 0, step = 1;
};

// The sizes, in an array of int64_t that the caller passes as a tensor, and the arena's blocks,
// which follow from them. A block begins where all blocks below it have ended, at a multiple of 64
// bytes.
struct SequenceSizes {
    struct Block {
        Polynomial bytes;
        std::vector<size_t> below;
    };
    size_t tensor = 0;
    std::vector<SequenceSize> all;
    std::vector<Block> blocks;
    // int64_t NAME(const int64_t *sizes): the bytes of the arena; -1, with a text, if a size is not
    // legal.
    std::string arena_bytes;
};

// A function void NAME(void *memory) that sets bytes to zero.
struct SequenceReset {
    std::string name;
    int64_t bytes = 0;
};

// A function that runs steps in order.
struct Sequence {
    // int NAME(void *const *tensors, void *arena, const kumiko_context *context)
    std::string name;
    std::string target;                          // the function is NAME.TARGET, hidden; "": NAME
    std::vector<std::string> tensors;            // names, for messages
    std::string data;                            // symbol of the read-only bytes; "" for none
    std::optional<SequenceWeights> weights = {}; // in place of `data`
    std::optional<SequenceReset> reset = {};
    std::optional<SequenceSizes> sizes = {};
    bool arena = false; // whether the steps use it
    std::vector<SequenceStep> steps;
};

// One object with the function, and with those that reset states and check weights. The function
// returns 0, or the code of the first step that failed; KUMIKO_NULL_POINTER with a text if a
// pointer is null. Undefined symbols are those of the steps, `data`, memcpy, memset, and functions
// of the runtime. With weights in a file it refuses another file's first bytes.
ObjectFile compile_sequence(const Sequence &sequence, const CpuTarget &target, const std::string &runtime_prefix);

// One object with a hidden symbol of read-only bytes, aligned to 64.
ObjectFile compile_data(const std::string &symbol, const std::string &bytes, const CpuTarget &target);

} // namespace kumiko
