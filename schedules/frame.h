// Loop extents and index values of one stage over one region, and the ranges of its axes below a
// loop.
//
// The extent of every loop follows from the region and the stage's splits and fuses. The value of a
// live loop is a variable "<prefix><loop>"; the value of a loop that was split or fused is an
// expression of such variables.
#pragma once

#include "dsl/halide_passes.h"
#include "schedules/index_arithmetic.h"
#include "schedules/state.h"

namespace kumiko {

using Interval = Halide::Internal::Interval;

// Per axis of a tensor: first index, number of indices, and step between them.
struct Region {
    std::vector<Expr> min, extent;
    std::vector<int> step; // empty: all steps are 1

    int step_of(size_t d) const { return step.empty() ? 1 : step[d]; }
    // One past the last index.
    Expr end(size_t d) const;
};

// The whole domain of the stage.
Region whole_region(const Stage &stage);

// The loops of a stage over one region.
class Frame {
public:
    // How the loops of a split run if the factor may not divide the extent.
    enum class Mode {
        Whole, // outer rounds up; a guard is needed unless the factor divides
        Main,  // outer runs over the full blocks only
        Rest,  // outer is fixed at the last, partial block
        Clip,  // outer rounds up, inner is clipped to the extent and so varies with outer
    };

    // `region` has one entry per pure axis. Reduction axes span their extents, unless run_steps
    // restricts them.
    Frame(const StageState &stage, const Region &region, std::string prefix);

    const StageState &stage() const { return *stage_; }
    const std::string &prefix() const { return prefix_; }
    // The variable of a live loop; the extent and the value of any loop, in terms of these
    // variables.
    Expr variable(const std::string &loop) const;
    Expr extent(const std::string &loop) const;
    Expr value(const std::string &loop) const;
    // The index of an axis: the value of its loop plus the first index of the region (pure axis) or
    // the first step (reduction axis).
    Expr index(const std::string &axis) const;
    const Region &region() const { return region_; }

    // Sets how the loops of a split run; `relation` is its position in the stage's relations.
    void set_mode(size_t relation, Mode mode);
    Mode mode(size_t relation) const { return modes_[relation]; }
    // Fixes a loop at one value, or replaces its derived extent.
    void pin(const std::string &loop, const Expr &value);
    void override_extent(const std::string &loop, const Expr &extent);
    // Restricts a reduction axis to `extent` steps from `first`; its loops count from `first`.
    void run_steps(const std::string &axis, const Expr &first, const Expr &extent);
    bool bounded() const { return !first_steps_.empty(); } // run_steps was called
    // Adds a condition over axes that holds at all steps that run.
    void note_holds(const Expr &condition) { holds_.push_back(condition); }
    const std::vector<Expr> &holds() const { return holds_; }
    // The first step of a reduction axis; 0 for other loops.
    Expr first_step(const std::string &loop) const;
    bool pinned(const std::string &loop) const { return pinned_.count(loop); }
    // Keeps the variable of a one-iteration loop instead of substituting its value.
    void keep(const std::string &loop) { kept_.insert(loop); }
    bool kept(const std::string &loop) const { return kept_.count(loop); }
    // The live loops that the value of `loop` depends on.
    std::set<std::string> live_loops(const std::string &loop) const;

    // The range of an axis if the loops at positions < depth are fixed. Inclusive.
    Interval axis_interval(const std::string &axis, size_t depth, const Bounds &bounds) const;

private:
    const StageState *stage_;
    Region region_;
    std::string prefix_;
    std::vector<Mode> modes_;
    std::map<std::string, Expr> extents_, pinned_, overridden_, first_steps_;
    std::vector<Expr> holds_;
    std::set<std::string> kept_;
    void derive();
};

// The range of an index if its variables range as in `scope`; nullopt if it is data-dependent or
// unbounded.
std::optional<Interval> index_range(const Expr &index, const Bounds &scope);

// The region of `tensor` that `e` reads if variables range as in `scope`: the union over all reads;
// nullopt if there is no read. An index with an unknown range covers the whole axis, taken from
// `whole`.
std::optional<Region> region_read(const Expr &e, const std::string &tensor, const Bounds &scope, const Region &whole,
                                  const Bounds &known);

// The region that all expressions read together, with the largest steps that cover it: for reads at
// 2 * i + 1, every second index. nullopt if there is no read.
std::optional<Region> lattice_read(const std::vector<Expr> &all, const std::string &tensor, const Bounds &scope,
                                   const Region &whole, const Bounds &known);

// The smallest region of step 1 that contains both.
Region region_union(const Region &a, const Region &b, const Bounds &known);

} // namespace kumiko
