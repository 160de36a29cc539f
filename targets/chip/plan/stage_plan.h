// One stage of a schedule as the chip executes it: its loops are mapped to time, units and lanes;
// every index is an affine function of the loops, and all extents are constant.
//
// There is one program for all units. A unit's position in the tree gives the values of the loops
// bound to its levels. Lane loops (vectorized, or inside a tensor instruction) are within the words
// of one access. All other loops are sequential in time.
#pragma once

#include "schedules/state.h"
#include "sim/config.h"

#include <array>

namespace kumiko::chip {

// Unit levels, outermost first, as Machine::units of a chip has them.
enum class Tier : uint8_t { Group, L2b, L1b, Mab, Pe };
constexpr int level_count = 5;
constexpr std::array<const char *, level_count> level_names = {"group", "L2B", "L1B", "MAB", "PE"};
int units_of(const sim::Config &config, Tier level); // in one unit of the level above

using Values = std::vector<int64_t>; // by loop

// constant + Σ coefficient · loop
struct Affine {
    int64_t constant = 0;
    std::vector<int64_t> coefficients;

    int64_t at(const Values &values) const {
        int64_t v = constant;
        for (size_t l = 0; l < coefficients.size(); l++) v += coefficients[l] * values[l];
        return v;
    }
    bool depends(size_t loop) const { return coefficients[loop] != 0; }
};

struct PlannedLoop {
    enum class Kind { Time, Unit, Lane };
    std::string name;
    int64_t extent = 1;
    Kind kind = Kind::Time;
    Tier level = Tier::Group; // of Unit
    bool reduction = false;
};

// A tensor at the indices that one expression uses. Adjacent axes that a loop fuses are one axis.
struct TensorAccess {
    std::string tensor; // the name that the stage reads: a copy's, if there is one
    Type type;
    std::vector<Affine> index;    // one per axis, of the tensor itself
    std::vector<int64_t> extents; // of the tensor: indices beyond are padding
    int64_t period = 0;           // if not 0, for one axis: the index is taken modulo this

    bool depends(size_t loop) const {
        for (const Affine &a : index) {
            if (a.depends(loop)) return true;
        }
        return false;
    }
};

class StagePlan;

// Describes a stage computed at a loop of another one: it is inside the loops of `outer` up to and
// including `depth`, which are the first loops of its own plan. For each of its axes, the first
// index needed there (over the loops of `outer`) and the extent.
struct Nesting {
    const StagePlan *outer = nullptr;
    size_t depth = 0;
    std::vector<Affine> first;
    std::vector<int64_t> extents;
};

class StagePlan {
public:
    // Throws UserError or Unsupported if the chip cannot execute the stage this way: an extent
    // known only at run time, or a kind of loop that the chip does not support. Reduction loops may
    // be bound to units in nested stages only.
    StagePlan(const StageState &stage, const sim::Config &config, const Nesting *nesting = nullptr);

    const StageState &stage() const { return *stage_; }
    const std::vector<PlannedLoop> &loops() const { return loops_; } // outermost first
    size_t loop(const std::string &name) const;                      // position
    const Affine &axis(const std::string &name) const { return axes_.at(name); }
    int64_t extent_of(const Axis &axis) const;
    // An index expression over the stage's axes. Throws Unsupported if it is not affine.
    Affine affine(const Expr &index) const;
    // A read of a tensor by the stage (a Call of type Image).
    TensorAccess access(const ScheduleState &state, const Expr &read) const;
    // The stage's own element.
    TensorAccess own() const;

    // True if no split exceeds its extent at these values. Splits of the loops in `without` are not
    // checked.
    bool inside(const Values &values, const std::vector<bool> &without) const;
    // The number of consecutive indices that the loops inside position `depth` cover.
    int64_t reach(const Affine &index, size_t depth) const;
    // Sets the loops bound to a level to their values on unit u of that level; units beyond the
    // bound ones duplicate others.
    void set_unit(Values &values, Tier level, int unit) const;
    // A number below parts() that identifies the data of `access` on unit u of this level: equal
    // numbers mean equal data.
    int64_t part(const TensorAccess &access, Tier level, int unit) const;
    int64_t parts(const TensorAccess &access, Tier level) const;
    int64_t used(Tier level) const; // units of a level that the bound loops fill

    size_t first_own() const { return first_own_; } // the first loop that is not the outer stage's

private:
    using Extents = std::map<std::string, int64_t>; // of axes and loops
    Extents find_extents(const Nesting *nesting);
    void join_axes(const FuseRelation &f, bool nested);
    void add_loops(const Extents &extents, bool nested);
    void check_units(const sim::Config &config) const;
    void find_idle_units(const Nesting &nesting);
    void express_axes(const Extents &extents, const Nesting *nesting);

    const StageState *stage_;
    size_t first_own_ = 0;
    // Nested: the number of units of a level that duplicate each other, within each outer unit.
    std::array<int64_t, level_count> idle_{1, 1, 1, 1, 1};
    std::vector<PlannedLoop> loops_;
    std::map<std::string, Affine> axes_;
    // Axes that a fused loop joins, outermost first: the tensors that the stage reads and writes
    // have one axis instead.
    struct Joined {
        std::vector<std::string> axes;
        Affine value;
    };
    std::vector<Joined> joined_;
    const Joined *joined_at(const std::vector<Expr> &index, const std::vector<Axis> &axes, size_t first) const;
    TensorAccess access(std::string tensor, Type type, const std::vector<Expr> &index,
                        const std::vector<Axis> &axes) const;
    struct Guard {
        Affine value;
        int64_t limit;
    };
    std::vector<Guard> guards_;
};

} // namespace kumiko::chip
