// What a list of directives amounts to: the loops of every stage, their order and kinds, where each stage is computed
// and kept. It is derived by applying the directives in turn (schedules/schedule.h) and never edited otherwise.
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

enum class LoopKind { Serial, Parallel, Vectorized, Unrolled, Bound };
const char *kind_name(LoopKind kind); // "serial", …

// What happens where a split does not divide the extent.
enum class Tail {
    Auto,  // peel where vectors or unrolled copies stand inside, else guard
    Guard, // iterations beyond the end are not run
    Mask,  // full trip count; loads of inputs and all stores are predicated
    Shift, // the last iteration moves inwards and repeats some elements
    Pad,   // full trip count on storage rounded up
};
const char *tail_name(Tail tail);
Tail tail_from_name(const std::string &name); // throws UserError listing the names

struct LoopState {
    std::string name; // "i", "i.o"
    Expr extent;      // when the stage is computed whole; over the sizes
    bool reduction = false;
    LoopKind kind = LoopKind::Serial;
    std::string unit = {}; // Bound: the unit level that its iterations are spread over
};

// How many blocks of `factor` iterations cover the extent, rounded up. Does not overflow where the
// extent is a number.
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

struct Placement {
    enum class Kind { Inline, Root, At };
    Kind kind = Kind::Root;
    std::string consumer, loop; // At: computed in the body of this loop of this stage
};

// The loops of another stage, from the outermost down to `loop`, in which this one runs.
struct SharedLoops {
    std::string stage, loop;
};

// One dimension of a storage order, outermost first: an axis, or its part above or below a block size.
struct LayoutTerm {
    enum class Part { Whole, Outer, Inner };
    std::string axis;
    Part part = Part::Whole;
    int64_t block = 0;
    std::string to_string() const; // "j", "j/32", "j%32"
};

struct Accumulate {
    std::string level, loop;
    bool join; // a later round starts from the identity, and joins the earlier partial results on leaving
};

// Partial results that a round leaves and the next one takes up, as much of them as is touched below `loop`.
struct Waiting {
    std::string level, loop;
};

// At each iteration of `loop`, the region of `tensor` that is read `distance` iterations later is fetched into a cache.
struct Prefetch {
    std::string tensor, loop;
    int64_t distance = 1;
    std::string consumer, of; // whose loop's iterations the distance counts; none: of `loop` itself
};

// The first `first` and last `last` iterations of a loop get copies of the body of their own.
struct Peel {
    std::string loop;
    int64_t first = 0, last = 0;
};

struct Tensorize {
    std::string loop, instruction;
};

// Made by region: computes the indices [first, first + count) of one axis of a tensor, in place of the stage `of`.
struct Part {
    std::string of, tensor, axis;
    int64_t first = 0, count = 0;
};

// Of a sum whose terms have a factor exp(s − max), and of that maximum: they follow each other through the blocks of a loop
// (schedules/online.h).
struct Online {
    std::string anchor, loop; // of this reduction each iteration is a block
    std::string max;
    Expr factor; // by which sums of terms that were taken from one maximum are those taken from another
};

struct StageState {
    Stage def;
    std::vector<LoopState> loops;   // every loop that ever was, by name
    std::vector<std::string> order; // the loops that stand now, outermost first
    std::vector<Relation> relations;
    Placement placement;
    bool stored = false; // by store_at: the placement says where it is kept, compute_at where it is computed
    std::optional<Placement> computed; // At, in the loops of the first stage that reads it; unset: where it is kept
    std::optional<SharedLoops> shared; // by compute_with; the loops stay its own too, and are the same
    std::string level;                 // memory level that keeps it; "" leaves the choice to lowering
    bool is_copy = false;              // made by place_in: holds a region of another tensor as it is
    std::string copied;                // the tensor that it copies, or where prepacked computes from
    std::optional<Accumulate> accumulate;
    std::optional<Waiting> waiting; // unset: between rounds, partial results wait where the stage is kept
    std::string finished_into;      // the consumer that this reduction's end computes
    std::string finished_by; // the reduction in whose end this consumer is computed; its own loops are no longer used
    std::vector<LayoutTerm> layout; // empty: the axes in order
    std::vector<Prefetch> prefetches;
    std::vector<Peel> peels;
    std::optional<Tensorize> tensorize;
    std::string scattered; // the axis of which each step visits the one element that its index names; "": every element
    std::string write_back; // results leave while the next iteration of this loop is computed; "": at once
    int buffers = 1;        // copies kept in turn: each is filled so many iterations less one before its own
    std::optional<Part> part;
    std::optional<Online> online;
    bool prepacked = false; // by prepack: a copy, or a stage, that the caller makes ahead of time
    bool streamed = false;  // an output whose stores pass the caches by

    const std::string &name() const { return def.name; }
    const Placement &computed_at() const { return computed ? *computed : placement; }
    const std::string &tensor() const { return part ? part->tensor : def.name; } // that it computes
    bool has_loop(const std::string &loop) const;                                // stands now
    const LoopState *find_loop(const std::string &loop) const;                   // ever was; null when not
    LoopState &loop(const std::string &loop);
    const LoopState &loop(const std::string &loop) const;
    size_t position(const std::string &loop) const; // in order; InternalError when absent
    // The axes from which a loop is derived.
    std::vector<std::string> axes_of(const std::string &loop) const;
    // True when `loop` is `ancestor` or was made from it by splits and fuses.
    bool derived_from(const std::string &loop, const std::string &ancestor) const;
    // The outermost reduction loop's position in order; order.size() when there is none.
    size_t first_reduction() const;
    // The position from which on loops stand inside of the steps' partial results: a consumer that
    // is finished in this reduction is computed outside of it.
    size_t end_of_steps() const;
    // A split whose tail writes beyond what the stage has; null when there is none.
    const SplitRelation *padded_split() const;
};

// What a directive relied on, proved again after each later one.
struct Obligation {
    size_t directive; // index in the schedule
    // Empty while it holds; else the reason why not.
    std::function<std::string(const struct ScheduleState &)> broken;
};

struct Assume {
    Expr condition;
    std::string text;
};

class Schedule;

// Another schedule of the op, for calls where the condition over the sizes holds.
struct Specialization {
    Expr condition;
    std::string text;
    std::shared_ptr<const Schedule> schedule;
};

struct ScheduleState {
    Op op;
    std::shared_ptr<const Machine> machine;
    std::vector<StageState> stages; // producers before consumers
    std::vector<Assume> assumptions;
    std::vector<Specialization> specializations; // tried in order
    std::vector<Obligation> obligations;
    std::shared_ptr<const InstructionSet> instructions; // those that tensorize knows

    // Without instructions: those that are built in.
    ScheduleState(const Op &op, std::shared_ptr<const Machine> machine,
                  std::shared_ptr<const InstructionSet> instructions = nullptr);

    StageState *find(const std::string &stage);
    const StageState *find(const std::string &stage) const;
    std::string stage_names() const;             // separated by commas
    StageState &stage(const std::string &stage); // throws UserError with a suggestion
    const StageState &stage(const std::string &stage) const;

    // The axes of a tensor, input or stage; throws UserError when there is no such tensor.
    const std::vector<Axis> &axes_of(const std::string &tensor) const;
    Type type_of(const std::string &tensor) const;
    bool is_input(const std::string &tensor) const { return op.find_input(tensor) != nullptr; }

    // Stages whose definition reads the tensor (any component of it), in order.
    std::vector<std::string> readers(const std::string &tensor) const;
    // The same, with inlined readers replaced by their own readers.
    std::vector<std::string> consumers(const std::string &tensor) const;
    // The stage whose component has this tensor name; null for inputs.
    const StageState *producer(const std::string &tensor) const;
};

// The stages that take the steps of a recurrence with it (dsl/recurrence.h): their names, without
// its own. Copies of its earlier elements are among them.
std::set<std::string> in_steps(const ScheduleState &state, const StageState &recurrence);

} // namespace kumiko
