// What the structure of a formula says about the loops of one stage: along which axes vectors may run, along which a tile of results in
// registers reads less, and what it reads how.
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
    std::set<std::string> axes; // of the stage, that its indices use

    bool uses(const std::string &axis) const { return axes.count(axis) != 0; }
    // The dimension whose index is the axis and nothing else, when no other index uses it.
    std::optional<size_t> plain(const std::string &axis) const;
    // Elements between what neighbours along the axis read; nothing where that is no small number: they lie in other rows.
    std::optional<int64_t> step(const std::string &axis) const;
};

struct StageSketch {
    enum class Way {
        Whole,     // no choice of loops: extern calls, scans, scatters, folds that keep an order, single numbers
        Points,    // computed element by element
        Reduction, // folded, in any order
    };
    const Stage *stage = nullptr;
    Way way = Way::Whole;
    std::vector<SketchRead> reads;
    std::vector<std::string>
        vector_axes;                 // the cheapest first; of a reduction the last reduction axis may be among them
    std::vector<std::string> tiles;  // pure axes along which a tile reads less, those first that help most reads
    std::string depth;               // the longest reduction axis
    std::vector<std::string> window; // the other ones, in order
    int64_t steps = 1;               // that it takes in all; unknown extents count as 1024

    bool reduces(const std::string &axis) const;
};

// `unknown` extents count as so many.
inline constexpr int64_t sketched_extent = 1024;
int64_t extent_of(const Axis &axis);
// Of the stage's axis, pure or reduction.
int64_t extent_of(const Stage &stage, const std::string &axis);

StageSketch sketch_stage(const Stage &stage, const Machine &machine);

} // namespace kumiko
