// What a formula implies for the loops of one stage: the possible vector axes, the axes along which
// a register tile saves loads, and how operands are read.
#pragma once

#include "dsl/op.h"
#include "machine/machine.h"

#include <optional>
#include <set>

namespace kumiko {

// One read of a tensor.
struct SketchRead {
    std::string tensor;
    std::vector<Expr> indices;
    std::set<std::string> axes; // axes of the stage used by the indices

    bool uses(const std::string &axis) const { return axes.count(axis) != 0; }
    // The dimension whose index is exactly the axis, if no other index uses it.
    std::optional<size_t> plain(const std::string &axis) const;
    // The distance in elements between reads of adjacent axis values; nullopt if it is not a small
    // constant, because they are in different rows.
    std::optional<int64_t> step(const std::string &axis) const;
};

struct StageSketch {
    enum class Kind {
        Whole,     // fixed loops: extern calls, scans, scatters, ordered folds, scalars
        Points,    // computed element by element
        Reduction, // folded, in any order
    };
    const Stage *stage = nullptr;
    Kind kind = Kind::Whole;
    std::vector<SketchRead> reads;
    // The cheapest first; for a reduction, may include the last reduction axis.
    std::vector<std::string> vector_axes;
    // Pure axes along which a tile saves loads, the most useful first.
    std::vector<std::string> tiles;
    std::string depth;               // the longest reduction axis
    std::vector<std::string> window; // the other reduction axes, in order
    int64_t steps = 1;               // total reduction steps; unknown extents count as 1024

    bool reduces(const std::string &axis) const;
};

// Assumed value of unknown extents.
inline constexpr int64_t sketched_extent = 1024;
int64_t extent_of(const Axis &axis);
// The extent of an axis of the stage, pure or reduction.
int64_t extent_of(const Stage &stage, const std::string &axis);

StageSketch sketch_stage(const Stage &stage, const Machine &machine);

} // namespace kumiko
