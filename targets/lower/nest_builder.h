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

inline Expr all_of(const Expr &a, const Expr &b) { return !a.defined() ? b : a && b; }

class NestBuilder {
public:
    using Stmt = Halide::Internal::Stmt;
    using ForType = Halide::Internal::ForType;

    explicit NestBuilder(Lowering &l)
        : l_(l), state_(l.state), bounds_(l.facts.bounds()),
          leaves_out_(std::any_of(state_.stages.begin(), state_.stages.end(),
                                  [this](const StageState &s) { return leaves_out_terms(s); })) {}
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

    bool is_argument(const std::string &tensor) const;
    const StageState *finisher_of(const std::string &stage) const;
    Stmt root(size_t i);
    Region domain(const StageState &s);
    bool covers_reads(const StageState &s) const;
    Stmt stage(const StageState &s, const Region &region, const std::string &prefix);
    Region clipped(const StageState &s, Region region);
    Stmt pointwise(Frame &f);
    Stmt store(Frame &f, const std::vector<Expr> &values);
    Stmt extern_stage(const StageState &s); // nest_extern.cpp
    Region part_of(const Region &kept, Region part) const;
    void check_whole(const StageState &p, const Region &kept, const Frame &f, size_t depth);
    Stmt with_children(Frame &f, size_t depth, const Walk &w, size_t from);

    // ---- nest_shared.cpp

    // A stage whose values are stored, and the region that is computed of it.
    struct Run {
        const StageState *stage;
        Region region;
    };
    const StageState &loops_of(const StageState &s) const;
    bool starts_nest(const StageState &s) const;
    std::vector<const StageState *> in_nest_of(const StageState &s) const;
    std::string prefix_of(const StageState &s);
    Stmt nest(const std::vector<Run> &runs);
    std::optional<Frame> frame_beside(const StageState &s, const Frame &f, size_t depth);
    void remember_buffers(const StageState &p, const Frame &f, size_t depth);
    Stmt with_shared_buffers(Frame &f, size_t depth, const std::function<Stmt()> &body);
    Stmt with_storage(const std::vector<Run> &runs, const std::function<Stmt()> &body);

    // ---- nest_storage.cpp

    std::string fresh_instance(const std::string &name);
    Region rounded_up(const StageState &s, const Region &region) const;
    void set_written(Storage &storage, const StageState &s, const Region &region);
    Stmt with_storage(const StageState &s, const Region &region, const std::function<Stmt()> &body, int copies = 1);
    Stmt with_components(const Stage &def, size_t c, const std::vector<std::string> &axes, const Region &region,
                         const std::vector<LayoutTerm> &layout, const std::string &level, const std::string &suffix,
                         bool covers_lanes, const Region &computed, const std::function<Stmt()> &body, int copies = 1);

    // ---- nest_reads.cpp

    Expr inlined(const Expr &e);
    Expr inlined_value(const StageState &s);
    Expr joined(const Frame &f, const Expr &e) const;
    Expr at(const Frame &f, const Expr &e);
    std::map<std::string, std::string>::const_iterator buffer_of(const std::string &tensor) const;
    Expr in_buffers(const Expr &e, const Frame *at = nullptr);
    std::vector<Expr> indices(const Frame &f);
    std::vector<Expr> place(const Frame &f, const std::string &buffer);
    std::vector<Expr> expressions_of(const StageState &s);
    bool read_beyond(const StageState &s, size_t d) const;
    Region anywhere(const StageState &s) const;
    Expr kept_near(const StageState &reader, const Expr &e) const;
    Bounds scope_of(const Frame &f, size_t depth) const;
    void bound_steps(const StageState &s, Bounds &scope) const;
    bool leaves_out_terms(const StageState &s) const;
    std::optional<Frame> with_bounded_steps(const Frame &f, size_t depth) const;
    void with_elements_before(const StageState &p, Region &region) const;
    Region existing(const StageState &p, Region region) const;
    Region from_whole_blocks(const StageState &p, Region region);
    std::optional<Region> needed(const StageState &p, const Frame &f, size_t depth);
    std::optional<Region> needed(const StageState &p, const Frame &f, size_t depth,
                                 std::map<std::string, std::optional<Region>> &known);
    static std::vector<std::string> names_of(const StageState &p);
    Region touched(const Frame &f, size_t depth);

    // ---- nest_loops.cpp

    bool copies_inside(const StageState &s, const std::string &loop) const;
    bool must_unroll(const StageState &s, size_t position) const;
    ForType for_type(const Frame &f, size_t position, bool pure) const;
    Stmt walk(Frame &f, size_t depth, const Walk &w);
    Stmt walk_loop(Frame &f, size_t depth, const Walk &w);
    Expr blocks_of(const StageState &s, const std::string &loop, const Expr &extent) const;
    Stmt one_loop(Frame &f, size_t depth, const Walk &w, const Expr &min, const Expr &extent);
    Stmt named_element(Frame &f, size_t depth, const Walk &w);
    void note_tensorized(const Frame &f, const std::string &variable);
    void record(const StageState &s, const Frame &f, size_t depth, ForType type, const Expr &extent);
    Stmt inside(Frame &f, size_t depth, const Walk &w);

    // ---- nest_tails.cpp

    Expr padded(const Frame &f, const Expr &value, const Expr &beyond);
    std::vector<Guard> guards(const Frame &f, size_t depth, bool skip_reductions);
    std::set<std::string> loops_of_whole_blocks(const Frame &f, const Expr &value, const Expr &limit,
                                                const std::string &loop) const;
    std::optional<size_t> relation_to_clip(const Frame &f, size_t relation) const;
    bool left_to_clip(const Frame &f, size_t depth, size_t relation) const;
    bool cancels(const Expr &e) const;
    Stmt peel_rest(Frame &f, size_t depth, const Walk &w, size_t relation, const SplitRelation &split);
    Expr rest_of(const Frame &f, const SplitRelation &split) const;
    Stmt peel_ends(Frame &f, size_t depth, const Walk &w, const Peel &p);
    Expr clip(Frame &f, size_t depth, const Walk &w, const Expr &min, const Expr &extent);
    static std::optional<int64_t> step_of(const Expr &value, const std::string &variable);

    // ---- nest_ahead.cpp

    Stmt with_staged(Frame &f, size_t depth, const std::vector<const StageState *> &staged, size_t k, const Expr &min,
                     const Expr &extent, std::vector<Stmt> &fills, const std::function<Stmt()> &loop);
    Stmt fetch_ahead(const Frame &f, size_t depth, const Prefetch &p);
    Expr has_turn(const Frame &f, size_t depth, const std::string &of, const Region &region);
    int line_bytes() const;

    // ---- nest_reduction.cpp

    std::vector<Expr> read(Frame &f, const std::map<std::string, std::string> &from);
    static std::vector<Expr> combined(const Stage &def, const std::vector<Expr> &before,
                                      const std::vector<Expr> &terms);
    Stmt step(Frame &f);
    Stmt begin(Frame &f, size_t depth);
    Stmt pure_walk(Frame &f, size_t depth, const std::function<Stmt(Frame &)> &leaf);
    Stmt finish(Frame &f, size_t depth);
    Stmt reduction(Frame &f);
    static std::optional<std::set<std::string>> reduction_roots(const StageState &s);
    bool rounds_in_order(const Frame &f, size_t depth) const;
    // Allocates partial results for the loops from a depth on, indexed by axes or by loops.
    Stmt with_partial_results(Frame &f, size_t depth, const std::string &level, const std::string &suffix,
                              const std::function<Stmt()> &body);
    Stmt between_rounds(Frame &f, const Walk &rounds);
    Stmt accumulate(Frame &f, size_t depth, bool rounds, bool late);

    // ---- nest_rolling.cpp

    void plan_rolling(const Frame &f, size_t depth);
    Region newest(const Rolling &r, Region needed) const;
    Stmt warm_up(const Frame &f, size_t depth);

    // ---- nest_online.cpp

    Region rows_of(const StageState &p, const Frame &f, size_t depth);
    Expr blocks_run(const Frame &f, size_t depth);
    Frame follower_frame(const StageState &p, const Frame &f, size_t depth);
    Stmt online_begin(const Frame &f, size_t depth);
    Stmt online_block(const StageState &p, const Frame &f, size_t depth, const std::function<Stmt()> &rest);
    Stmt maximum_of_block(Frame &f, const std::string &home);
    Expr online_factor(const Frame &f, Type t);
    bool rescaled_on_reload(const StageState &s) const;
    Stmt rescale(Frame &f, size_t depth);
    Stmt with_late_children(const Frame &f, size_t depth, size_t from, const std::function<Stmt()> &body);
};

} // namespace kumiko
