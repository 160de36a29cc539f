// How the axes of a chain are dealt out to lanes, units and time, as decisions say; what it takes of the memories, and what it may cost.
#pragma once

#include "autotune/spaces/chip_formula.h"
#include "autotune/spaces/decisions.h"

namespace kumiko {

// The chip's tree and memories, in units of the one above and in LW.
struct ChipTree {
    std::map<std::string, int64_t> units; // by level
    int64_t lm = 0, grf = 0, l2bm = 0;
    double dram = 0; // LW a cycle, of all groups
    explicit ChipTree(const Machine &machine);
    int64_t of(const std::string &level) const { return units.at(level); }
};
constexpr int64_t dram_block = 64; // LW of a row that move together
inline const std::vector<std::string> chip_levels = {"group", "L2B", "L1B", "MAB", "PE"};

struct ChipDealing {
    struct Cut {
        int64_t factor;
        std::string name;  // of the loop, behind the axis' name
        std::string level; // "": in time, or lanes
        bool inside;       // of the loop at which stages are computed
        size_t number;     // of all cuts, the innermost first
    };
    size_t lanes = 0;                   // the axis
    std::vector<std::vector<Cut>> cuts; // by axis, innermost first
    std::vector<int64_t> left; // by axis, in time: outside, of a shared one; else of the tiles and steps together
    std::vector<int64_t> step; // by axis that is not shared: of `left`, in LM at a time
    std::vector<size_t> outer; // shared axes, outermost first

    ChipDealing(const ChipFormula &formula, const ChipTree &tree, const Decisions &decisions);

    int64_t units(size_t axis, const std::string &level) const; // of a level that have parts of the axis
    int64_t inside(size_t axis) const;                          // iterations in time of a tile
    int64_t tiles(size_t axis) const { return (left[axis] + step[axis] - 1) / step[axis]; }
    int64_t padded(const ChipFormula &f, size_t axis) const; // elements with what stands beyond the end

private:
    void cut(size_t axis, int64_t factor, const std::string &name, const std::string &level, bool inside,
             bool always = false);
};

// Points in time of a stage below the loop at which it is computed, those that it reduces over counted or not.
int64_t points_of(const ChipFormula &f, const ChipDealing &d, const ChipFormula::Member &m, bool reduced);
// Whether what is read passes through LM tile by tile for each result.
bool streams(const ChipFormula &f, const ChipDealing &d, const ChipFormula::Member &m, const ChipFormula::Read &r);
// LW of a PE that one copy of what is read takes.
int64_t copy_words(const ChipFormula &f, const ChipDealing &d, const ChipFormula::Read &r);
// Whether the host lays what is read in the order in which the units use it: what lies across the lanes, has elements of another width than
// a word's, or rows of which units have parts.
bool host_packs(const ChipFormula &f, const ChipDealing &d, const ChipFormula::Read &r);
// Why it need not be tried (chip_refusals.cpp); "": nothing known.
std::string reason_against(const ChipFormula &f, const ChipTree &tree, const ChipDealing &d,
                           const Decisions &decisions);
// Cycles, about (chip_cost.cpp).
double estimate(const ChipFormula &f, const ChipTree &tree, const ChipDealing &d, const Decisions &decisions);

// Copies of an input are kept twice; the memory that has them.
bool kept_twice(const Decisions &decisions, const std::string &input);
std::string place_of(const Decisions &decisions, const std::string &input);
// Results of stages before the output.
std::string home_of(const Decisions &decisions, const ChipFormula &f, const ChipFormula::Member &m, size_t lanes);

} // namespace kumiko
