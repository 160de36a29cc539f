// A model in a library: a C function that calls the library's kernels one after another.
#pragma once

#include "dsl/buffers.h"
#include "targets/cpu/sequence.h"

#include <functional>
#include <string>
#include <vector>

namespace kumiko {

// An input or output of a model.
struct LibraryTensor {
    std::string name;   // in C
    std::string origin; // in the model
    Type type;
    std::vector<int64_t> extents; // dense, row-major
};

// As SequenceStep.
struct LibraryStep {
    std::optional<size_t> kernel = {}; // position in LibraryDescription::kernels
    std::optional<SequenceCheck> check = {};
    std::vector<SequencePointer> arguments = {};
    int64_t bytes = 0;                   // of a copy
    std::vector<std::string> nodes = {}; // of the model, for the manifest
};

// The C function int <name>_run(const <name>_io *io, void *arena).
struct LibraryModel {
    std::string name;   // a C identifier
    std::string origin; // the model's file
    // In this order in <name>_io, and numbered so in SequencePointer::tensor.
    std::vector<LibraryTensor> inputs, outputs;
    std::vector<LibraryStep> steps;
    std::string data;        // read-only bytes: weights
    int64_t arena_bytes = 0; // aligned to 64
    int64_t arena_bound = 0; // the most bytes that are live at once
    // For the self-test: the outputs for these inputs, computed in another way.
    std::function<std::vector<Buffer<>>(const std::vector<Buffer<>> &inputs)> reference = nullptr;
};

} // namespace kumiko
