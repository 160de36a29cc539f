// The pass "build" as one object that its parts share (build_nest.cpp describes it and lists the
// files).
#pragma once

#include "targets/lower/lowering.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kumiko {

// a && b, where an undefined `a` is true.
inline Expr conjunction(const Expr &a, const Expr &b) { return !a.defined() ? b : a && b; }

// Builds the loops of all stages of a schedule. It has more than 40 methods, because the parts of a
// nest share its bounds, frames and names; they are grouped by the file that defines them.
class NestBuilder {
public:
    using Stmt = Halide::Internal::Stmt;
    using ForType = Halide::Internal::ForType;

    explicit NestBuilder(Lowering &l)
        : l_(l), state_(l.state), bounds_(l.facts.bounds()),
          leaves_out_(std::any_of(state_.stages.begin(), state_.stages.end(),
                                  [this](const StageState &s) { return leaves_out_terms(s); })) {}
    // The body of the kernel.
    Stmt run();

private:
    Lowering &l_;
    const ScheduleState &state_;
    Bounds bounds_;   // of the enclosing loops
    bool leaves_out_; // some reduction skips terms
    // Tensor → the buffer that holds it in the current scope.
    std::map<std::string, std::string> buffers_;
    std::map<std::string, int> instances_;
    std::map<std::string, Expr> inlined_;
    std::map<std::string, const Frame *> around_; // stages whose loops enclose the current position
    // Stored regions of stages that are computed in the loops of a reader.
    std::map<std::string, Region> kept_;
    // A stage stored in a ring buffer: the axis along which iterations need different planes.
    struct Rolling {
        size_t axis = 0;
        int64_t step = 0;   // planes that an iteration computes
        int64_t planes = 0; // number of planes in the ring
        int64_t ahead = 0;  // warm-up iterations that compute planes
        Expr first;         // the first plane that is computed
    };
    std::map<std::string, Rolling> rolling_; // by the stage, inside the loop that keeps it
    // The stage whose loop is in its warm-up, before the first iteration.
    const StageState *warming_up_ = nullptr;
    // For these stages `needed` counts only what their newest planes read; null: for none.
    const std::set<std::string> *newest_of_ = nullptr;
    // Stages whose copies the enclosing loop fills ahead.
    std::set<std::string> ahead_;
    // Buffers indexed by loops of the stage instead of its axes.
    std::map<std::string, std::vector<std::string>> by_loops_;
    // For each stage, the prefixes of its loop variables, one for each copy of its nest.
    std::map<std::string, std::vector<std::string>> prefixes_;
    std::set<std::string> shared_; // variables of loops that several stages share
    // The region that the current nest computes of each stage, by the stage whose loops compute it.
    std::map<std::string, Region> shared_regions_;
    // The buffers of stages in shared loops, by stage, copy of the loop and tensor. How many copies
    // of the loop the walk over a sharing stage has visited.
    std::map<std::string, std::vector<std::map<std::string, std::string>>> shared_buffers_;
    std::map<std::string, size_t> copies_visited_;
    Expr blocks_run_; // the enclosing block loop runs only this many iterations; undefined: all
    int64_t stack_used_ = 0;

    // One walk over the loops of a stage from some depth inwards.
    struct Walk {
        bool skip_reductions = false; // walk the loops of a reduction's begin or end
        bool children = true;         // also compute the stages placed in these loops
        // The depth at which `leaf` takes over; by default the innermost.
        size_t stop = SIZE_MAX;
        std::function<Stmt(Frame &)> leaf;
    };

    struct Guard {
        Expr condition;       // over the loops' variables
        std::string value_of; // the loop whose value is bounded
        Expr value, limit;    // value < limit
        size_t position;      // of the innermost loop it depends on
    };

    // ---- build_nest.cpp

    // Whether the caller passes the tensor, as an input, an output, or an array updated in place.
    bool is_argument(const std::string &tensor) const;
    // The stage that is fused into `stage` as its epilogue, or null.
    const StageState *finisher_of(const std::string &stage) const;
    // The nests of the stages at the root from number i on.
    Stmt root(size_t i);
    // The region computed of a stage at the root.
    Region domain(const StageState &s);
    // Whether all readers, including lanes beyond a tail, stay inside the stored region.
    bool covers_reads(const StageState &s) const;
    // The loops that compute a region of a stage.
    Stmt stage(const StageState &s, const Region &region, const std::string &prefix);
    // The region without indices beyond the domain, which a rounded-up last block of a reader
    // added.
    Region clipped(const StageState &s, Region region);
    // The loops of a stage that is not a reduction.
    Stmt pointwise(Frame &f);
    // Stores one value per component at the indices of the frame.
    Stmt store(Frame &f, const std::vector<Expr> &values);
    // The call of a C function that computes the stage (nest_extern.cpp).
    Stmt extern_stage(const StageState &s);
    // The part of a stored region that one iteration of a reader needs.
    Region part_of(const Region &kept, Region part) const;
    // Throws Unsupported unless the readers' loops compute all that is stored of p.
    void check_whole(const StageState &p, const Region &kept, const Frame &f, size_t depth);
    // The stages placed at the loop at `depth`, from number `from` on, followed by the next loop.
    Stmt with_children(Frame &f, size_t depth, const Walk &w, size_t from);

    // ---- nest_shared.cpp

    // A stage whose values are stored, and the region that is computed of it.
    struct Run {
        const StageState *stage;
        Region region;
    };
    // The stage whose loops compute s: s, or the reduction that it is fused into.
    const StageState &loops_of(const StageState &s) const;
    // Whether s is the first stage of its nest.
    bool starts_nest(const StageState &s) const;
    // The stages that are stored by other loops in the nest of s.
    std::vector<const StageState *> in_nest_of(const StageState &s) const;
    // The prefix of the variables of s in the current copy of the nest.
    std::string prefix_of(const StageState &s);
    // The merged nests of stages that share loops.
    Stmt nest(const std::vector<Run> &runs);
    // The frame of s at the values of the loops that it shares with f; nullopt if it does not share
    // all.
    std::optional<Frame> frame_beside(const StageState &s, const Frame &f, size_t depth);
    // Records the buffers of p for stages that share the loop at `depth`.
    void remember_buffers(const StageState &p, const Frame &f, size_t depth);
    // The body with the buffers of the stages that share the loop in scope.
    Stmt with_shared_buffers(Frame &f, size_t depth, const std::function<Stmt()> &body);
    // The body inside the allocations of these stages.
    Stmt with_storage(const std::vector<Run> &runs, const std::function<Stmt()> &body);

    // ---- nest_storage.cpp

    // The name, with a suffix if it was returned before.
    std::string fresh_instance(const std::string &name);
    // The region with padded tails and the lanes beyond it that are read.
    Region rounded_up(const StageState &s, const Region &region) const;
    // Records the elements that the loops of the stage write.
    void set_written(Storage &storage, const StageState &s, const Region &region);
    // The body inside the allocation of `copies` buffers for a region of the stage.
    Stmt with_storage(const StageState &s, const Region &region, const std::function<Stmt()> &body, int copies = 1);
    // The body inside the allocations of the stage's components from c on.
    Stmt with_components(const Stage &def, size_t c, const std::vector<std::string> &axes, const Region &region,
                         const std::vector<LayoutTerm> &layout, const std::string &level, const std::string &suffix,
                         bool covers_lanes, const Region &computed, const std::function<Stmt()> &body, int copies = 1);

    // ---- nest_reads.cpp

    // The expression with reads of inlined stages replaced by their formulas.
    Expr inlined(const Expr &e);
    // The formula of an inlined stage, without reads of inlined stages.
    Expr inlined_value(const StageState &s);
    // The expression with sums of axes replaced by the loop that fuses them.
    Expr joined(const Frame &f, const Expr &e) const;
    // An expression of the stage at the indices of the frame, reading the buffers in scope.
    Expr at(const Frame &f, const Expr &e);
    // The buffer of a tensor in the current scope.
    std::map<std::string, std::string>::const_iterator buffer_of(const std::string &tensor) const;
    // The expression with reads of tensors replaced by reads of their buffers.
    Expr in_buffers(const Expr &e, const Frame *at = nullptr);
    // The index of each axis of the stage at the frame.
    std::vector<Expr> indices(const Frame &f);
    // The position in `buffer` of the element that the frame computes.
    std::vector<Expr> place(const Frame &f, const std::string &buffer);
    // The expressions that the loops of the stage evaluate, including a fused epilogue.
    std::vector<Expr> expressions_of(const StageState &s);
    // Whether axis d may be read out of bounds.
    bool read_beyond(const StageState &s, size_t d) const;
    // The region stored of a stage that is read at unknown indices.
    Region anywhere(const StageState &s) const;
    // The expression with unbounded reads of stored padding clamped to the region of anywhere().
    Expr kept_near(const StageState &reader, const Expr &e) const;
    // The ranges of the axes below `depth`.
    Bounds scope_of(const Frame &f, size_t depth) const;
    // Restricts the ranges of reduction axes to steps at which a term may exist.
    void bound_steps(const StageState &s, Bounds &scope) const;
    // Whether loops of the reduction skip terms.
    bool leaves_out_terms(const StageState &s) const;
    // The frame whose reduction loops run over these steps only; nullopt if all steps run.
    std::optional<Frame> with_bounded_steps(const Frame &f, size_t depth) const;
    // Extends the region of a recurrence by all elements that it depends on.
    void with_elements_before(const StageState &p, Region &region) const;
    // The region without elements that the stage does not have.
    Region existing(const StageState &p, Region region) const;
    // The region extended to the beginning of its first block.
    Region from_whole_blocks(const StageState &p, Region region);
    // The region of p that is needed below `depth`; nullopt if nothing reads p.
    std::optional<Region> needed(const StageState &p, const Frame &f, size_t depth);
    // The same; `known` has the regions found so far, by stage.
    std::optional<Region> needed(const StageState &p, const Frame &f, size_t depth,
                                 std::map<std::string, std::optional<Region>> &known);
    // The tensors that the stage computes.
    static std::vector<std::string> names_of(const StageState &p);
    // The region of the stage that the loops from `depth` on compute.
    Region touched(const Frame &f, size_t depth);

    // ---- nest_loops.cpp

    // Whether loops derived from `loop` become vectors or unrolled copies.
    bool copies_inside(const StageState &s, const std::string &loop) const;
    // Whether the loop steps through registers.
    bool must_unroll(const StageState &s, size_t position) const;
    // The kind of a loop; `pure`: in the begin or end of a reduction.
    ForType for_type(const Frame &f, size_t position, bool pure) const;
    // The loops of the stage from `depth` inwards.
    Stmt walk(Frame &f, size_t depth, const Walk &w);
    // The loop at `depth`, with its partial block and its ends.
    Stmt walk_loop(Frame &f, size_t depth, const Walk &w);
    // The number of iterations of a loop, fewer if not all of its blocks run.
    Expr blocks_of(const StageState &s, const std::string &loop, const Expr &extent) const;
    // One For statement, or its body alone if it has one iteration.
    Stmt one_loop(Frame &f, size_t depth, const Walk &w, const Expr &min, const Expr &extent);
    // The one iteration of a scatter that the index selects.
    Stmt named_element(Frame &f, size_t depth, const Walk &w);
    // Records the block that an instruction computes, for the pass `tensorize`.
    void note_tensorized(const Frame &f, const std::string &variable);
    // Adds a row to Nest::loops.
    void record(const StageState &s, const Frame &f, size_t depth, ForType type, const Expr &extent);
    // The body of the loop at `depth`: its guards, the stages placed there, the next loop.
    Stmt inside(Frame &f, size_t depth, const Walk &w);

    // ---- nest_tails.cpp

    // The value, or `beyond` where a padded tail leaves the region.
    Expr padded(const Frame &f, const Expr &value, const Expr &beyond);
    // The guards to test in the loop at `depth`.
    std::vector<Guard> guards(const Frame &f, size_t depth, bool skip_reductions);
    // The loops inside of which value < limit holds for all iterations or for none.
    std::set<std::string> loops_of_whole_blocks(const Frame &f, const Expr &value, const Expr &limit,
                                                const std::string &loop) const;
    // The split that should end at the extent instead of this one, if any.
    std::optional<size_t> relation_to_clip(const Frame &f, size_t relation) const;
    // Whether a split further inside handles the partial block.
    bool left_to_clip(const Frame &f, size_t depth, size_t relation) const;
    // Whether the simplifier reduces e - e to 0.
    bool cancels(const Expr &e) const;
    // The whole blocks of a split, followed by a copy of the body for the remainder.
    Stmt peel_rest(Frame &f, size_t depth, const Walk &w, size_t relation, const SplitRelation &split);
    // The number of iterations in the remainder.
    Expr rest_of(const Frame &f, const SplitRelation &split) const;
    // A loop whose first and last iterations have copies of the body.
    Stmt peel_ends(Frame &f, size_t depth, const Walk &w, const Peel &p);
    // The extent at which guards end the loop, so that they need no test.
    Expr clip(Frame &f, size_t depth, const Walk &w, const Expr &min, const Expr &extent);

    // ---- nest_ahead.cpp

    // The loop with multi-buffered copies, each filled some iterations ahead.
    Stmt with_staged(Frame &f, size_t depth, const std::vector<const StageState *> &staged, size_t k, const Expr &min,
                     const Expr &extent, std::vector<Stmt> &fills, const std::function<Stmt()> &loop);
    // Prefetches of the lines that a later iteration reads.
    Stmt fetch_ahead(const Frame &f, size_t depth, const Prefetch &p);
    // The condition under which this iteration makes a prefetch that several could make.
    Expr has_turn(const Frame &f, size_t depth, const std::string &of, const Region &region);
    // The size of a cache line of the machine.
    int line_bytes() const;

    // ---- nest_reduction.cpp

    // The values of the components in these buffers, at the frame.
    std::vector<Expr> read(Frame &f, const std::map<std::string, std::string> &from);
    // The components after a term is folded in.
    static std::vector<Expr> combined(const Stage &def, const std::vector<Expr> &before,
                                      const std::vector<Expr> &terms);
    // Folds one term into the accumulators.
    Stmt step(Frame &f);
    // Stores the identities.
    Stmt begin(Frame &f, size_t depth);
    // The loops from `depth` inwards without reduction loops and placed stages.
    Stmt pure_walk(Frame &f, size_t depth, const std::function<Stmt(Frame &)> &leaf);
    // The fused epilogue, at the indices of the stage.
    Stmt finish(Frame &f, size_t depth);
    // The loops of a reduction: begin, steps, end.
    Stmt reduction(Frame &f);
    // Allocates partial results for the loops from a depth on, indexed by axes or by loops.
    Stmt with_partial_results(Frame &f, size_t depth, const std::string &level, const std::string &suffix,
                              const std::function<Stmt()> &body);
    // All rounds, with partial results spilled between them.
    Stmt between_rounds(Frame &f, const Walk &rounds);
    // The accumulators, from begin to end, inside the loops above `depth`.
    Stmt accumulate(Frame &f, size_t depth, bool rounds, bool late);

    // ---- nest_rolling.cpp

    // Finds the circular buffers of the stages stored at the loop at `depth`.
    void plan_rolling(const Frame &f, size_t depth);
    // The planes that one iteration needs and no earlier one has computed.
    Region newest(const Rolling &r, Region needed) const;
    // The iterations before the first one, which compute planes only.
    Stmt warm_up(const Frame &f, size_t depth);

    // ---- nest_online.cpp

    // The region of a follower for the elements that the loops from `depth` on compute.
    Region rows_of(const StageState &p, const Frame &f, size_t depth);
    // The number of blocks that have terms; undefined if all of them run.
    Expr blocks_run(const Frame &f, size_t depth);
    // The frame of a follower in the loops of its anchor.
    Frame follower_frame(const StageState &p, const Frame &f, size_t depth);
    // Sets the followers to their identities.
    Stmt online_begin(const Frame &f, size_t depth);
    // Updates a follower for one block, around `rest`.
    Stmt online_block(const StageState &p, const Frame &f, size_t depth, const std::function<Stmt()> &rest);
    // Updates the running maximum, and stores its change.
    Stmt maximum_of_block(Frame &f, const std::string &home);
    // The factor that rescales sums to the new maximum.
    Expr online_factor(const Frame &f, Type t);
    // Whether partial results are rescaled when a round reloads them.
    bool rescaled_on_reload(const StageState &s) const;
    // Rescales partial results in place.
    Stmt rescale(Frame &f, size_t depth);
    // The stages that need the final maximum and sums, around the end of the anchor.
    Stmt with_late_children(const Frame &f, size_t depth, size_t from, const std::function<Stmt()> &body);
};

} // namespace kumiko
