// The lowest layer of the pass "build" (nest_builder.h): what the loops of stages read, and where
// it is stored.
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

// The regions that loops need of the tensors that they read, the buffers that hold them, and the
// expressions that read these buffers. It has more than 40 methods, because regions, buffers and
// expressions refer to one another; they are grouped by the file that defines them.
class NestReads {
protected:
    using Stmt = Halide::Internal::Stmt;

    explicit NestReads(Lowering &l)
        : l_(l), state_(l.state), bounds_(l.facts.bounds()),
          leaves_out_(std::any_of(state_.stages.begin(), state_.stages.end(),
                                  [this](const StageState &s) { return leaves_out_terms(s); })) {}
    ~NestReads() = default;

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

    // ---- stages

    // Whether the caller passes the tensor, as an input, an output, or an array updated in place.
    bool is_argument(const std::string &tensor) const;
    // The stage that is fused into `stage` as its epilogue, or null.
    const StageState *finisher_of(const std::string &stage) const;
    // The region computed of a stage at the root.
    Region domain(const StageState &s);
    // The part of a stored region that one iteration of a reader needs.
    Region part_of(const Region &kept, Region part) const;
    // The region without indices beyond the domain, which a rounded-up last block of a reader
    // added.
    Region clipped(const StageState &s, Region region);
    // The stage whose loops compute s: s, or the reduction that it is fused into.
    const StageState &loops_of(const StageState &s) const;
    // Whether all readers, including lanes beyond a tail, stay inside the stored region.
    bool covers_reads(const StageState &s) const;
    // The stages that are stored by other loops in the nest of s.
    std::vector<const StageState *> in_nest_of(const StageState &s) const;
    // The frame of s at the values of the loops that it shares with f; nullopt if it does not share
    // all.
    std::optional<Frame> frame_beside(const StageState &s, const Frame &f, size_t depth);
    // The planes that one iteration needs and no earlier one has computed.
    Region newest(const Rolling &r, Region needed) const;
    // The region of a follower for the elements that the loops from `depth` on compute.
    Region rows_of(const StageState &p, const Frame &f, size_t depth);
    // Whether s is the first stage of its nest.
    bool starts_nest(const StageState &s) const;

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
};

} // namespace kumiko
