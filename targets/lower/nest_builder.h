// The pass "build" as one object (build_nest.cpp describes it and lists the files). It has three
// layers. Each derives from the one that it uses:
//   NestBuilder      stages: pointwise ones, reductions, and nests that several share
//   NestLoopBuilder  the loops of one stage
//   NestReads        what loops read, and where it is stored
#pragma once

#include "targets/lower/nest_loop_builder.h"

namespace kumiko {

// Builds the loops of all stages of a schedule.
class NestBuilder final : private NestLoopBuilder {
public:
    explicit NestBuilder(Lowering &l) : NestLoopBuilder(l) {}
    // The body of the kernel.
    Stmt run();

private:
    using NestReads::with_storage;

    // ---- build_nest.cpp

    // The nests of the stages at the root from number i on.
    Stmt root(size_t i);
    // The loops that compute a region of a stage.
    Stmt stage(const StageState &s, const Region &region, const std::string &prefix);
    // The loops of a stage that is not a reduction.
    Stmt pointwise(Frame &f);
    // Stores one value per component at the indices of the frame.
    Stmt store(Frame &f, const std::vector<Expr> &values);
    // The call of a C function that computes the stage (nest_extern.cpp).
    Stmt extern_stage(const StageState &s);
    // Throws Unsupported unless the readers' loops compute all that is stored of p.
    void check_whole(const StageState &p, const Region &kept, const Frame &f, size_t depth);
    // The stages placed at the loop at `depth`, from number `from` on, followed by the next loop.
    Stmt with_children(Frame &f, size_t depth, const Walk &w, size_t from) override;

    // ---- nest_shared.cpp

    // The prefix of the variables of s in the current copy of the nest.
    std::string prefix_of(const StageState &s);
    // The merged nests of stages that share loops.
    Stmt nest(const std::vector<Run> &runs) override;
    // Records the buffers of p for stages that share the loop at `depth`.
    void remember_buffers(const StageState &p, const Frame &f, size_t depth);
    // The body with the buffers of the stages that share the loop in scope.
    Stmt with_shared_buffers(Frame &f, size_t depth, const std::function<Stmt()> &body) override;
    // The body inside the allocations of these stages.
    Stmt with_storage(const std::vector<Run> &runs, const std::function<Stmt()> &body);

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

    // ---- nest_online.cpp

    // The number of blocks that have terms; undefined if all of them run.
    Expr blocks_run(const Frame &f, size_t depth) override;
    // The frame of a follower in the loops of its anchor.
    Frame follower_frame(const StageState &p, const Frame &f, size_t depth);
    // Sets the followers to their identities.
    Stmt online_begin(const Frame &f, size_t depth) override;
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
