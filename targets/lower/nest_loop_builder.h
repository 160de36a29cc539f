// The middle layer of the pass "build" (nest_builder.h): the loops of one stage.
#pragma once

#include "targets/lower/nest_reads.h"

namespace kumiko {

// Loops with their tails, the copies that they fill ahead and the planes that they compute ahead.
class NestLoopBuilder : protected NestReads {
protected:
    using ForType = Halide::Internal::ForType;
    using NestReads::NestReads;
    ~NestLoopBuilder() = default;

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

    // A stage whose values are stored, and the region that is computed of it.
    struct Run {
        const StageState *stage;
        Region region;
    };

    // ---- what loops contain: made by NestBuilder

    // The stages placed at the loop at `depth`, from number `from` on, followed by the next loop.
    virtual Stmt with_children(Frame &f, size_t depth, const Walk &w, size_t from) = 0;
    // Sets the followers to their identities.
    virtual Stmt online_begin(const Frame &f, size_t depth) = 0;
    // The number of blocks that have terms; undefined if all of them run.
    virtual Expr blocks_run(const Frame &f, size_t depth) = 0;
    // The body with the buffers of the stages that share the loop in scope.
    virtual Stmt with_shared_buffers(Frame &f, size_t depth, const std::function<Stmt()> &body) = 0;
    // The merged nests of stages that share loops.
    virtual Stmt nest(const std::vector<Run> &runs) = 0;

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

    // ---- nest_rolling.cpp

    // Finds the circular buffers of the stages stored at the loop at `depth`.
    void plan_rolling(const Frame &f, size_t depth);
    // The iterations before the first one, which compute planes only.
    Stmt warm_up(const Frame &f, size_t depth);
};

} // namespace kumiko
