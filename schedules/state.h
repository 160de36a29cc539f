// The result of applying a list of directives: the loops of every stage, their order and kinds, and
// where each stage is computed and stored. It is only modified by applying directives
// (schedules/schedule.h).
#pragma once

#include "dsl/op.h"
#include "dsl/reach.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <variant>

namespace kumiko {

struct Machine;
class InstructionSet; // machine/instruction.h

// How the iterations of a loop are executed.
enum class LoopKind { Serial, Parallel, Vectorized, Unrolled, Bound };
const char *kind_name(LoopKind kind); // "serial", …

// Treatment of the tail if a split does not divide the extent.
enum class Tail {
    Auto,  // peel if vectorized or unrolled loops are inside, otherwise guard
    Guard, // iterations past the end are skipped
    Mask,  // full trip count; loads of inputs and all stores are masked
    Shift, // the last block is shifted inwards and recomputes some elements
    Pad,   // full trip count; storage is rounded up
};
const char *tail_name(Tail tail);
Tail tail_from_name(const std::string &name); // throws UserError with the list of names

// One loop of a stage: its extent, and how its iterations are executed.
struct LoopState {
    std::string name; // "i", "i.o"
    Expr extent;      // for the whole stage; over the sizes
    bool reduction = false;
    LoopKind kind = LoopKind::Serial;
    std::string unit = {}; // Bound: the machine level over whose units iterations are distributed
};

// The extent divided by `factor`, rounded up. Does not overflow for a constant extent.
Expr count_blocks(const Expr &extent, int64_t factor);

// loop(parent) = loop(outer) * factor + loop(inner)
struct SplitRelation {
    std::string parent, outer, inner;
    int64_t factor = 1;
    Tail tail = Tail::Auto;
};

// loop(fused) = loop(outer) * extent(inner) + loop(inner)
struct FuseRelation {
    std::string outer, inner, fused;
};

using Relation = std::variant<SplitRelation, FuseRelation>;

// Where a stage is computed: inlined, at the root, or at a loop of its consumer.
struct Placement {
    enum class Kind { Inline, Root, At };
    Kind kind = Kind::Root;
    std::string consumer, loop; // At: computed in the body of this loop of this stage
};

// The loops of another stage, from the outermost down to `loop`, that this stage shares.
struct SharedLoops {
    std::string stage, loop;
};

// One dimension of a storage order: an axis, or its outer or inner part for a block size.
struct LayoutTerm {
    enum class Part { Whole, Outer, Inner };
    std::string axis;
    Part part = Part::Whole;
    int64_t block = 0;
    std::string to_string() const; // "j", "j/32", "j%32"
};

// Partial results of a reduction stay in a memory level below `loop`.
struct Accumulate {
    std::string level, loop;
    // Later rounds start from the identity and add the earlier partial results when stored.
    bool join;
};

// Spilled partial results between rounds, as much as is touched below `loop`.
struct Waiting {
    std::string level, loop;
};

// Each iteration of `loop` prefetches the region of `tensor` that is read `distance` iterations
// later.
struct Prefetch {
    std::string tensor, loop;
    int64_t distance = 1;
    std::string consumer, of; // loop whose iterations the distance counts; empty: `loop` itself
};

// Peels the first `first` and last `last` iterations of a loop into separate copies of the body.
struct Peel {
    std::string loop;
    int64_t first = 0, last = 0;
};

// The loops from `loop` inwards are one instruction.
struct Tensorize {
    std::string loop, instruction;
};

// A stage made by region: computes indices [first, first + count) of one axis of a tensor in place
// of stage `of`.
struct Part {
    std::string of, tensor, axis;
    int64_t first = 0, count = 0;
};

// For a sum whose terms have a factor exp(s − max), and for that maximum: both are updated block by
// block in a loop (schedules/online.h).
struct Online {
    std::string anchor, loop; // each iteration of this loop of this reduction is a block
    std::string max;
    Expr factor; // rescales a partial sum from one running maximum to another
};

// One stage with its loops, its placement and the data of its traits. A field that names a Trait
// holds what that trait needs beyond its presence (schedules/traits.h).
struct StageState {
    // ---- loops
    Stage def;
    std::vector<LoopState> loops;   // all loops, including those split or fused away
    std::vector<std::string> order; // the live loops, outermost first
    std::vector<Relation> relations;

    // ---- where it is computed and stored
    Placement placement;
    // Trait::Stored: store_at was applied. `placement` is where it is stored, `computed` where it
    // is computed.
    bool stored = false;
    // Trait::KeptApart: At, in the loops of the first stage that reads it; unset: same as
    // `placement`.
    std::optional<Placement> computed;
    // Trait::SharesLoops: compute_with was applied; `loops` then equal those of that stage.
    std::optional<SharedLoops> shared;
    std::string finished_into; // Trait::FinishedInto: the consumer fused into its epilogue
    // Trait::FinishedBy: the reduction whose epilogue computes this stage; its own loops are
    // unused.
    std::string finished_by;
    std::optional<Part> part;     // Trait::Part
    std::optional<Online> online; // Trait::Online

    // ---- memory
    // Trait::InLevel, InRegisters: the memory level that stores it; "": chosen by lowering.
    std::string level;
    bool is_copy = false; // Trait::Copy: made by place_in, copies a region of another tensor
    std::string copied;   // the tensor that it copies; if pre-packed: the input it is computed from
    // Trait::Prepacked: a copy or a stage that the caller computes ahead of time.
    bool prepacked = false;
    std::vector<LayoutTerm> layout; // Trait::Laid; empty: axes in order
    // Trait::Buffered: number of buffers in the ring; iteration i's buffer is filled at iteration
    // i − (buffers − 1).
    int buffers = 1;
    std::optional<Accumulate> accumulate; // Trait::Accumulating
    // Trait::Waiting; unset: partial results are spilled to the stage's own storage between rounds.
    std::optional<Waiting> waiting;
    std::vector<Prefetch> prefetches; // Trait::Prefetching
    bool streamed = false;            // Trait::Streamed: an output written with non-temporal stores

    // ---- execution of its loops
    // Trait::Scattered: the axis of a scatter, each step of which visits only the selected element;
    // "": all elements.
    std::string scattered;
    std::optional<Tensorize> tensorize; // Trait::Tensorized
    std::vector<Peel> peels;            // Trait::Peeled
    // Trait::WritesBack: the loop whose next iteration overlaps the store of the results; "": none.
    std::string write_back;

    const std::string &name() const { return def.name; }
    const Placement &computed_at() const { return computed ? *computed : placement; }
    // The tensor that it computes.
    const std::string &tensor() const { return part ? part->tensor : def.name; }
    bool has_loop(const std::string &loop) const; // whether the loop is live
    // Live or not; null if there never was one.
    const LoopState *find_loop(const std::string &loop) const;
    LoopState &loop(const std::string &loop);
    const LoopState &loop(const std::string &loop) const;
    size_t position(const std::string &loop) const; // in `order`; throws InternalError if absent
    // The axes that a loop is derived from.
    std::vector<std::string> axes_of(const std::string &loop) const;
    // Whether `loop` is `ancestor` or was derived from it by splits and fuses.
    bool derived_from(const std::string &loop, const std::string &ancestor) const;
    // Position in `order` of the outermost reduction loop; order.size() if there is none.
    size_t first_reduction() const;
    // The position from which loops are inside the partial results of the steps; a consumer that is
    // finished in this reduction is computed outside of it.
    size_t end_of_steps() const;
    // A split whose tail stores past the end of the stage; null if there is none.
    const SplitRelation *padded_split() const;
};

// A precondition of a directive that is checked again after each later directive.
struct Obligation {
    size_t directive; // index of the directive
    // Returns "" while it holds; otherwise why it does not.
    std::function<std::string(const struct ScheduleState &)> broken;
};

// A condition over the sizes that holds in every call.
struct Assume {
    Expr condition;
    std::string text;
};

class Schedule;

// Another schedule of the op, for calls in which the condition over the sizes holds.
struct Specialization {
    Expr condition;
    std::string text;
    std::shared_ptr<const Schedule> schedule;
};

// All stages of a schedule, with assumptions, specializations and obligations.
struct ScheduleState {
    Op op;
    std::shared_ptr<const Machine> machine;
    std::vector<StageState> stages; // producers before consumers
    std::vector<Assume> assumptions;
    std::vector<Specialization> specializations; // tried in order
    std::vector<Obligation> obligations;
    std::shared_ptr<const InstructionSet> instructions; // available to tensorize

    // With null `instructions`: the built-in ones.
    ScheduleState(const Op &op, std::shared_ptr<const Machine> machine,
                  std::shared_ptr<const InstructionSet> instructions = nullptr);

    StageState *find(const std::string &stage);
    const StageState *find(const std::string &stage) const;
    std::string stage_names() const;             // comma-separated
    StageState &stage(const std::string &stage); // throws UserError with a suggestion
    const StageState &stage(const std::string &stage) const;

    // The axes of an input or stage; throws UserError if there is no such tensor.
    const std::vector<Axis> &axes_of(const std::string &tensor) const;
    Type type_of(const std::string &tensor) const;
    bool is_input(const std::string &tensor) const { return op.find_input(tensor) != nullptr; }

    // Stages whose definition reads the tensor or another component of it, in order.
    std::vector<std::string> readers(const std::string &tensor) const;
    // The same, with inlined readers replaced by their own readers.
    std::vector<std::string> consumers(const std::string &tensor) const;
    // The stage that computes this tensor; null for inputs.
    const StageState *producer(const std::string &tensor) const;
};

// The names of the stages that take steps together with a recurrence (dsl/recurrence.h), without
// the recurrence. Includes copies of its earlier elements.
std::set<std::string> in_steps(const ScheduleState &state, const StageState &recurrence);

// Whether the lanes of a vector of results can be reduced to one; on the chip also index/value
// pairs.
bool joins_lanes(const Stage &stage, const Machine &machine);

} // namespace kumiko
