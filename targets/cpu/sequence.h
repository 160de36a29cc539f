// A C function that calls kernels one after another: the driver of a model's library. It allocates
// nothing and keeps no state, so any number of threads may call it at once.
#pragma once

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
    size_t tensor = 0;  // Base::Tensor: its number
    int64_t offset = 0; // bytes, otherwise
};

// Indices that must be in range: kumiko_check_indices (runtime/kumiko_runtime.h).
struct SequenceCheck {
    int bits = 64; // of an index, 32 or 64
    int64_t count = 0;
    std::vector<int64_t> extents;
    std::string text;
};

// A tensor that a step computes, for hooks (runtime/kumiko_context.h).
struct SequenceTensor {
    std::string name, type; // in the model; of the elements: "f32"
    std::vector<int64_t> extents;
    SequencePointer place; // not Base::Data
};

// A call of a function int SYMBOL(void *, …, void *workspace, const kumiko_context *), a check of
// the indices in arguments[0], or a copy of bytes from arguments[0] to arguments[1].
struct SequenceStep {
    std::string symbol; // of the function; "": a check or a copy
    std::vector<SequencePointer> arguments;
    int64_t workspace = -1; // of a call: bytes from the arena's begin; -1: a null pointer is passed
    int64_t bytes = 0;      // of a copy
    std::optional<SequenceCheck> check = {};
    // Of the model, for hooks: names and operators of the step's nodes.
    std::vector<std::string> nodes = {}, operators = {};
    std::vector<SequenceTensor> made = {};
};

// Weights in a file, which the caller passes as a tensor (runtime/kumiko_runtime.h).
struct SequenceWeights {
    size_t tensor = 0;
    // int CHECK(const void *file, size_t bytes), which checks all of the file
    std::string check;
    std::string model;            // for messages
    uint64_t bytes = 0, hash = 0; // of the file, of its data
};

// A function that runs steps in order.
struct Sequence {
    // int NAME(void *const *tensors, void *arena, const kumiko_context *context)
    std::string name;
    std::vector<std::string> tensors;            // names, for messages
    std::string data;                            // symbol of the read-only bytes; "" for none
    std::optional<SequenceWeights> weights = {}; // in place of `data`
    bool arena = false;                          // whether the steps use it
    std::vector<SequenceStep> steps;
};

// One object with the function. It returns 0, or the code of the first step that failed;
// KUMIKO_NULL_POINTER with a text if a pointer is null. Undefined symbols are those of the steps,
// `data`, memcpy, and functions of the runtime. With weights in a file it refuses another file's
// first bytes.
ObjectFile compile_sequence(const Sequence &sequence, const CpuTarget &target, const std::string &runtime_prefix);

// One object with a hidden symbol of read-only bytes, aligned to 64.
ObjectFile compile_data(const std::string &symbol, const std::string &bytes, const CpuTarget &target);

} // namespace kumiko
