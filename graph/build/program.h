// A graph as a list of kernel calls with all memory planned: what a model's library contains, and
// what runs in the process.
#pragma once

#include "graph/fuse/groups.h"
#include "graph/plan/order.h"

namespace kumiko::graph {

// The memory of an argument of a step. Tensors are numbered, because constants and buffers get
// their offsets later; SequencePointer (targets/cpu/sequence.h) is the same with offsets.
struct Location {
    enum class Kind { Input, Output, Constant, Arena } kind = Kind::Arena;
    size_t index = 0;   // of the input, output or constant; in the arena: of the buffer
    int64_t offset = 0; // bytes, in the arena
};

struct ProgramTensor {
    std::string name;
    Type type;
    Extents extents;
    int64_t bytes() const;
};

struct Step {
    enum class Kind {
        Call,  // of a kernel; arguments: inputs, then outputs of its op
        Copy,  // of bytes from arguments[0] to arguments[1]
        Check, // of indices in arguments[0], as OpScope::Check
    } kind = Kind::Call;
    // The names and operators of the group's nodes, for profiles and messages. A node without a
    // name has that of its first result.
    std::vector<std::string> nodes, operators;
    std::vector<Location> arguments;
    // The values that it computes, by their names in the graph, also as views of other shapes.
    std::vector<std::pair<ProgramTensor, Location>> made;
    int64_t workspace = -1; // Call: offset in the arena, in bytes; -1: none
    size_t kernel = 0;      // Call: position in Program::kernels
    int64_t bytes = 0;      // Copy
    int bits = 0;           // Check: of an index, 32 or 64
    int64_t count = 0;      // Check: of indices
    Extents extents;        // Check
    std::string text;       // Check: of the error
};

constexpr int64_t tensor_alignment = 64; // bytes, of constants and in the arena

struct Program {
    std::string name;
    std::vector<ProgramTensor> inputs, outputs;
    std::vector<Op> kernels; // all different
    std::vector<Buffer<>> constants;
    std::vector<Step> steps;
    std::vector<PlanTask> tasks; // of the steps
    std::vector<PlanBuffer> buffers;
    int64_t arena_bytes = 0; // multiples of 64, aligned to 64
    int64_t arena_bound = 0; // the most bytes that are live at one step, of this order
};

// Throws as group_nodes and make_group_op.
Program make_program(const FixedGraph &graph, const GroupOptions &options = {});

// Places the tensors and a workspace for each call of a kernel in the arena, in the order of the
// steps. `workspaces`: bytes for each kernel; empty: none.
void place(Program &program, const std::vector<int64_t> &workspaces = {});

} // namespace kumiko::graph
