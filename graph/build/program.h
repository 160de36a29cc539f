// A graph as a list of kernel calls with all memory planned: what a model's library contains, and
// what runs in the process.
#pragma once

#include "graph/build/layouts.h"
#include "graph/build/states.h"
#include "graph/plan/order.h"

#include <functional>
#include <optional>

namespace kumiko::graph {

// The memory of an argument of a step. Tensors are numbered, because constants and buffers get
// their offsets later; SequencePointer (targets/cpu/sequence.h) is the same with offsets.
struct Location {
    enum class Kind { Input, Output, Constant, Arena, State } kind = Kind::Arena;
    size_t index = 0;   // of the input, output or constant; in the arena: of the buffer
    int64_t offset = 0; // bytes, of the buffer in the arena
    int64_t within = 0; // bytes from the begin of the array, buffer or memory of states
    // Bytes from one iteration of the loop with this depth to the next.
    int64_t stride = 0;
    int loop = -1;
    // Bytes from the begin of its memory, in the first iteration.
    int64_t start() const { return offset + within; }
};

struct ProgramTensor {
    std::string name;
    Type type;
    Extents extents;
    bool channels_last = false; // stored and listed with the axis of channels as the last
    int64_t bytes() const;
};

struct Step;

// Steps in the order in which they run.
struct StepList {
    std::vector<Step> steps;
    std::vector<PlanTask> tasks; // of the steps
};

// What ends a loop. Missing locations: not a condition.
struct LoopControl {
    int depth = 0;                     // number of loops around it
    int64_t trips = -1;                // iterations at most; -1: `count` or the conditions decide
    int64_t most = INT32_MAX;          // more are an error with Step::text
    std::optional<Location> count;     // i64, iterations at most
    std::optional<Location> condition; // bool, of the first iteration
    std::optional<Location> again;     // bool, of a further iteration
    std::optional<Location> size;      // i64, receives the number of iterations
    std::optional<Location> number;    // i64, receives the number of each iteration
};

struct Step {
    enum class Kind {
        Call,   // of a kernel; arguments: inputs, then outputs of its op
        Copy,   // of bytes from arguments[0] to arguments[1]
        Check,  // of indices in arguments[0], as OpScope::Check
        Branch, // lists[0] if the bool in arguments[0] is not 0, else lists[1]
        Loop,   // lists[0] once, then lists[1] for each iteration
        Select, // the function kumiko_select_<text> of the arguments: inputs, outputs, size
    } kind = Kind::Call;
    // The names and operators of the group's nodes, for profiles and messages. A node without a
    // name has that of its first result.
    std::vector<std::string> nodes, operators;
    std::vector<Location> arguments;
    // The values that it computes, by their names in the graph, also as views of other shapes.
    std::vector<std::pair<ProgramTensor, Location>> made;
    int64_t workspace = -1; // Call: offset in the arena, in bytes; -1: none
    size_t kernel = 0;      // Call: position in Program::kernels
    // Call: position in group_nodes() of the list's graph; no_group: changes an order of axes.
    size_t group = 0;
    int64_t bytes = 0;               // Copy; Select: of the workspace
    std::vector<int64_t> parameters; // Select
    int bits = 0;                    // Check: of an index, 32 or 64
    int64_t count = 0;               // Check: of indices
    Extents extents;                 // Check
    std::string text;                // Check, Loop: of the error
    std::vector<StepList> lists;     // Branch, Loop
    LoopControl loop;                // Loop
    // Branch, Loop: buffers that only its lists use are those from own_begin to own_end − 1.
    int own_begin = 0, own_end = 0;
};

// An array that a run reads and then replaces by the next one.
struct ProgramState {
    ProgramTensor tensor; // the input
    std::string next;     // the output
    int64_t offset = 0;   // bytes, in the memory of states
};

constexpr size_t no_group = SIZE_MAX;
constexpr int64_t tensor_alignment = 64; // bytes, of constants and in the arena

struct Program {
    std::string name;
    std::vector<ProgramTensor> inputs, outputs;
    // Outputs whose extent along an axis depends on data. Those after the first `model_outputs` are
    // such extents.
    std::vector<SizedOutput> sized;
    size_t model_outputs = 0;
    std::vector<Op> kernels; // all different
    std::vector<Buffer<>> constants;
    std::vector<Step> steps;
    std::vector<PlanTask> tasks;     // of the steps
    std::vector<PlanBuffer> buffers; // of the steps and of all inside of them
    // Arrays that keep their elements from one run to the next, in one memory of the caller.
    std::vector<ProgramState> states;
    int64_t state_bytes = 0; // aligned to 64
    int64_t arena_bytes = 0; // multiples of 64, aligned to 64
    int64_t arena_bound = 0; // the most bytes that are live at one step, of this order
};

// What make_program chooses by the sizes of values. Programs that take the choices of another one
// have its steps, if their graphs have the same nodes.
struct ProgramChoices {
    struct List {
        std::vector<Group> groups;
        std::vector<int> order; // of steps
    };
    Layouts layouts;
    bool share = false;      // parts are computed in place of copies
    std::vector<List> lists; // the model's, then those of control flow, in the order of their nodes
};

// Throws as group_nodes and make_group_op.
// `states`: names of inputs and outputs that are states. They are none of the program's inputs and
// outputs. Throws as check_states.
//
// The inputs of a Concat are computed in their places in its result, and results of Split and Slice
// are read in their input, if they are contiguous parts (graph/build/parts.h) and the arena does
// not become larger. `seconds` chooses the order of axes of values; null: all are row-major. Lists
// of control flow, states, and values whose size depends on data are row-major and share no parts.
Program make_program(const FixedGraph &graph, const GroupOptions &options = {}, const StatePairs &states = {},
                     const OpSeconds &seconds = nullptr);
// The same, and its choices. Equal kernels are listed once for each call.
Program make_program(const FixedGraph &graph, const GroupOptions &options, const StatePairs &states,
                     const OpSeconds &seconds, ProgramChoices &chosen);
// The same with these choices.
Program make_program(const FixedGraph &graph, const GroupOptions &options, const StatePairs &states,
                     const ProgramChoices &choices);

// Calls f with each step, those in lists of others included, in their order.
void for_each_step(std::vector<Step> &steps, const std::function<void(Step &step)> &f);
void for_each_step(const std::vector<Step> &steps, const std::function<void(const Step &step)> &f);
// Calls f with each location of a step, without those of its lists.
void for_each_location(Step &step, const std::function<void(Location &location)> &f);

// The blocks of an arena: those of Program::buffers, in their order, then workspaces.
struct ProgramArena {
    std::vector<ArenaBuffer> buffers;
    ArenaPlan plan;
    std::map<const Step *, size_t> workspaces;
};

// Places the tensors and a workspace for each call of a kernel in the arena, in the order of the
// steps. The lists of a step follow one another. A tensor that a loop uses and that is not its own
// is live during the whole loop. `workspaces`: bytes for each kernel; empty: none.
ProgramArena place(Program &program, const std::vector<int64_t> &workspaces = {});

} // namespace kumiko::graph
