// The distribution of a chain's axes over lanes, units and time by the decisions, its memory use,
// and its estimated cost.
#pragma once

#include "autotune/spaces/chip_formula.h"
#include "autotune/spaces/decisions.h"

namespace kumiko {

// The chip's unit tree and memories: units per parent unit, sizes in long words (LW).
struct ChipTree {
    std::map<std::string, int64_t> units; // by level
    int64_t lm = 0, grf = 0, l2bm = 0;
    double dram = 0; // LW per cycle, all groups together
    explicit ChipTree(const Machine &machine);
    int64_t of(const std::string &level) const { return units.at(level); }
};
constexpr int64_t dram_block = 64; // LW of a row that are transferred together
inline const std::vector<std::string> chip_levels = {"group", "L2B", "L1B", "MAB", "PE"};

struct ChipDistribution {
    struct Cut {
        int64_t factor;
        std::string name;  // of the loop, appended to the axis' name
        std::string level; // "": time, or lanes
        bool inside;       // of the loop at which stages are computed
        size_t number;     // over all cuts, the innermost first
    };
    size_t lanes = 0;                   // the lanes' axis
    std::vector<std::vector<Cut>> cuts; // by axis, innermost first
    // Iterations in time, by axis: for a shared axis, the loop outside; otherwise tiles and steps
    // together.
    std::vector<int64_t> left;
    std::vector<int64_t> step; // by non-shared axis: the part of `left` that is in LM at a time
    std::vector<size_t> outer; // shared axes, outermost first

    ChipDistribution(const ChipFormula &formula, const ChipTree &tree, const Decisions &decisions);

    // Units of a level that have parts of the axis.
    int64_t units(size_t axis, const std::string &level) const;
    int64_t inside(size_t axis) const; // iterations in time within a tile
    int64_t tiles(size_t axis) const { return (left[axis] + step[axis] - 1) / step[axis]; }
    int64_t padded(const ChipFormula &f, size_t axis) const; // elements including padding

private:
    using UnitShares = std::map<std::string, std::pair<size_t, int64_t>>; // level → axis, units
    void cut(size_t axis, int64_t factor, const std::string &name, const std::string &level, bool inside,
             bool always = false);
    void cut_lanes(const ChipTree &tree, const Decisions &decisions);
    void cut_units(size_t axis, const UnitShares &shares, const std::string &level, bool inside);
    void cut_shared(size_t axis, int64_t tile, int64_t smallest, const UnitShares &shares, bool near);
    void cut_steps(size_t axis, int64_t most, const UnitShares &shares);
};

// Iterations in time of a stage below the loop at which it is computed, with or without its
// reduction axes.
int64_t points_of(const ChipFormula &f, const ChipDistribution &d, const ChipFormula::Member &m, bool reduced);
// Whether the operand is streamed through LM tile by tile for each result.
bool streams(const ChipFormula &f, const ChipDistribution &d, const ChipFormula::Member &m, const ChipFormula::Read &r);
// LW per PE of one copy of the operand.
int64_t copy_words(const ChipFormula &f, const ChipDistribution &d, const ChipFormula::Read &r);
// Whether the host packs the operand in the order in which the units use it. It does if the operand
// does not run along the lanes, has windows, short rows, or elements of another width than a lane.
bool host_packs(const ChipFormula &f, const ChipDistribution &d, const ChipFormula::Read &r);
// Why the point need not be tried (chip_refusals.cpp); "" if no reason is known.
std::string reason_against(const ChipFormula &f, const ChipTree &tree, const ChipDistribution &d,
                           const Decisions &decisions);
// Estimated cycles (chip_cost.cpp).
double estimate(const ChipFormula &f, const ChipTree &tree, const ChipDistribution &d, const Decisions &decisions);

// Whether copies of an input are double-buffered.
bool is_double_buffered(const Decisions &decisions, const std::string &input);
// The memory that holds copies of an input.
std::string copy_memory(const Decisions &decisions, const std::string &input);
// The memory that holds results of stages before the output.
std::string result_memory(const Decisions &decisions, const ChipFormula &f, const ChipFormula::Member &m, size_t lanes);

} // namespace kumiko
