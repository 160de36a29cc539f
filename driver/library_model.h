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
    std::vector<Polynomial> extents; // dense, row-major
    // An axis whose extent depends on data: `extents` has the largest one, the output with this C
    // name the actual one, in which the elements are dense. -1: none.
    int sized_axis = -1;
    std::string size = {};

    // `variables`: variables_of the model's sizes.
    std::vector<int64_t> extents_at(const std::vector<int64_t> &variables) const;
    int64_t elements(const std::vector<int64_t> &variables = {}) const;
    int64_t bytes(const std::vector<int64_t> &variables = {}) const { return elements(variables) * type.bytes(); }
};

// A size that the caller passes, in <name>_sizes.
struct LibrarySize : SequenceSize {
    std::string field;  // its name in C
    std::string symbol; // the name that kernels have for its variable: the size divided by its step
    int64_t tested = 0; // the value in the self-test
};

// A step whose symbol follows from the kernel that it calls.
struct LibraryStep : SequenceStep {
    // Position in LibraryDescription::kernels; unset: no call.
    std::optional<size_t> kernel = {};
    std::vector<std::vector<LibraryStep>> lists = {}; // as SequenceStep::lists, which is empty
};

// What a run does.
struct LibraryProgram {
    std::string target; // CpuTarget::name; "": any
    std::vector<LibraryStep> steps;
    std::vector<SequenceSizes::Block> blocks = {}; // if the model has sizes
};

// An array that each run replaces by the next one, in the memory of <name>_io::state.
struct LibraryState {
    std::string origin, next; // names of the input and the output in the model
    Type type;
    std::vector<int64_t> extents;
    int64_t offset = 0; // bytes from the begin of the memory
};

// The C function int <name>_run(const <name>_io *io, void *arena, const kumiko_context *context).
struct LibraryModel {
    std::string name;   // a C identifier
    std::string origin; // the model's file
    // In this order in <name>_io, and numbered so in SequencePointer::tensor. The memory of states
    // follows, then the weights, then the sizes.
    std::vector<LibraryTensor> inputs, outputs;
    // If there are any, extents are polynomials in their variables, and the arena's bytes follow
    // from them.
    std::vector<LibrarySize> sizes;
    // One for all targets, or one for each target, which calls kernels of this target only. The
    // function runs that of the best target that the processor supports.
    std::vector<LibraryProgram> programs;
    std::vector<LibraryState> states;
    int64_t state_bytes = 0; // aligned to 64; 0: the model has no state
    // The most threads that run a loop whose iterations have workspaces.
    int threads = 1;
    // Places the arena's offsets when the bytes of each kernel's workspaces are known, which depend
    // on its schedules. Null: the offsets are given.
    std::function<void(LibraryModel &model, const std::vector<int64_t> &workspaces)> place = nullptr;
    std::string data; // read-only bytes: weights, of all programs
    // They are the file <name>.weights instead of a part of the archive. The caller passes its
    // contents as <name>_io::weights.
    bool weights_file = false;
    int64_t arena_bytes = 0; // aligned to 64
    int64_t arena_bound = 0; // the most bytes that are live at once
    int64_t stack_bytes = 0; // of one thread; build_library() fills it in
    // For the self-test: the outputs for these inputs, computed in another way.
    std::function<std::vector<Buffer<>>(const std::vector<Buffer<>> &inputs)> reference = nullptr;
};

// The variables of these sizes.
std::vector<int64_t> variables_of(const LibraryModel &model, const std::vector<int64_t> &sizes);
// The bytes of the arena that a program needs: SequenceSizes::blocks.
int64_t arena_bytes_of(const LibraryProgram &program, const std::vector<int64_t> &variables);

// Bytes: the alignment of the memory of states. Each begins at a multiple of 64 bytes in it, so
// that the elements decide.
int state_alignment(const LibraryModel &model);

} // namespace kumiko
