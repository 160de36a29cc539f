// One stage over one region: the extents and values of its loops, and what its axes range over below a loop.
//
// Every loop of the stage has an extent derived from the region by the stage's splits and fuses, and a value: a variable
// "<prefix><loop>" for a loop that stands, an expression of those for a loop that was split or fused away.
#pragma once

#include "dsl/halide_passes.h"
#include "schedules/state.h"

namespace kumiko {

using Interval = Halide::Internal::Interval;
using Bounds = Halide::Internal::Scope<Interval>;

// For each axis of a tensor: the first index, the number of indices, and the distance between them.
struct Region {
    std::vector<Expr> min, extent;
    std::vector<int> step; // empty: 1 everywhere

    int step_of(size_t d) const { return step.empty() ? 1 : step[d]; }
    // One more than the last index.
    Expr end(size_t d) const;
};

// The stage's whole domain.
Region whole_region(const Stage &stage);

class Frame {
public:
    // How a split's loops run where the factor may not divide the extent.
    enum class Mode {
        Whole, // outer runs to the ceiling; a guard is needed unless the factor divides
        Main,  // outer runs over the full blocks only
        Rest,  // outer is pinned to the last, partial block
        Clip,  // outer runs to the ceiling, inner ends where the extent ends: its extent varies with outer
    };

    // `region` has one entry per pure axis. Reduction axes range over their extents, until run_steps.
    Frame(const StageState &stage, const Region &region, std::string prefix);

    const StageState &stage() const { return *stage_; }
    const std::string &prefix() const { return prefix_; }
    Expr variable(const std::string &loop) const;
    Expr extent(const std::string &loop) const;
    Expr value(const std::string &loop) const;
    // The index of an axis: the value of its loop plus the first index of the region, or of a reduction
    // axis the first step.
    Expr index(const std::string &axis) const;
    const Region &region() const { return region_; }

    void set_mode(size_t relation, Mode mode);
    Mode mode(size_t relation) const { return modes_[relation]; }
    void pin(const std::string &loop, const Expr &value);
    void override_extent(const std::string &loop, const Expr &extent);
    // Makes only these steps of a reduction axis run: its loops count from `first` on.
    void run_steps(const std::string &axis, const Expr &first, const Expr &extent);
    bool bounded() const { return !first_steps_.empty(); } // by run_steps
    // Conditions over axes that hold at all steps that run.
    void note_holds(const Expr &condition) { holds_.push_back(condition); }
    const std::vector<Expr> &holds() const { return holds_; }
    // The first step of a reduction axis; 0 for other loops.
    Expr first_step(const std::string &loop) const;
    bool pinned(const std::string &loop) const { return pinned_.count(loop); }
    // A loop of one iteration keeps its variable, where that says more than its value.
    void keep(const std::string &loop) { kept_.insert(loop); }
    bool kept(const std::string &loop) const { return kept_.count(loop); }
    // The loops that stand and from which the value of `loop` is computed.
    std::set<std::string> standing(const std::string &loop) const;

    // What an axis ranges over when the loops at positions < depth are fixed. Ends are inclusive.
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

// What an index ranges over when its variables range as in `scope`; nothing where data decide it, or it is not bounded.
std::optional<Interval> index_range(const Expr &index, const Bounds &scope);

// What `e` reads of `tensor` when its variables range as in `scope`: the union over all reads, or nothing when it reads
// none of it. An index of which nothing is known reads the whole axis, `whole`.
std::optional<Region> region_read(const Expr &e, const std::string &tensor, const Bounds &scope, const Region &whole,
                                  const Bounds &known);

// What the expressions read together, on the coarsest lattice that holds it: of an axis that is read at 2 * i + 1 every second
// index. Nothing when they read none of it.
std::optional<Region> lattice_read(const std::vector<Expr> &all, const std::string &tensor, const Bounds &scope,
                                   const Region &whole, const Bounds &known);

// The smallest region of step 1 that holds both.
Region region_union(const Region &a, const Region &b, const Bounds &known);

// Simplification of index expressions, knowing how variables range.
Expr simplify_index(const Expr &e, const Bounds &bounds);
bool proves(const Expr &condition, const Bounds &bounds);
// A sum of terms in which x / c * (c * m) and x % c * m, the parts of a loop that was fused of two,
// are x * m again.
Expr join_remainders(const Expr &index);
// Divisions that what stays within a block does not change: (64 * a + b) / 128 is a / 2, and its
// remainder a % 2 * 64 + b, where b is within [0, 64).
Expr split_blocks(const Expr &index, const Bounds &bounds);

// The most that an extent can be; nothing where only the type of sizes bounds it.
std::optional<int64_t> most_of(const Expr &extent, const Bounds &bounds);

} // namespace kumiko
