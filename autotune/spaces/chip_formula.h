// The structure of a formula as seen by the chip's code generator: which stages stay in the PEs as
// a chain, which of their axes coincide, which axes all stages share (results are tiled along
// those), and along which axes operands are read.
#pragma once

#include "dsl/op.h"
#include "machine/machine.h"

#include <optional>
#include <set>
#include <tuple>

namespace kumiko {

// An axis shared by several stages: one reads another, or both read an input, at the same index.
struct ChipAxis {
    std::string name; // that of the output, if it has it
    int64_t extent = 1;
    bool shared = true;   // all stages have it and none reduces over it
    bool kept = false;    // the output has it
    bool reduced = false; // by some stage
    bool by_tree = true;  // reduced only by sums and extremes, which the unit tree computes
};

struct ChipFormula {
    // An input, possibly padded, that a stage reads after inlining. `at`: the axis per dimension;
    // nullopt for a constant index, a sum of axes, or a strided axis.
    struct Read {
        std::string tensor;
        int bytes = 4;
        std::vector<std::optional<size_t>> at;
        // The axes whose sum is the index, with their strides.
        std::vector<std::vector<std::pair<size_t, int64_t>>> windows;
        std::vector<int64_t> offsets; // per dimension: the index with all axes at 0
        bool uses(size_t axis) const;
        bool operator<(const Read &o) const { // distinguishes reads of different words
            return std::tie(tensor, at, windows, offsets) < std::tie(o.tensor, o.at, o.windows, o.offsets);
        }
        std::optional<size_t> last() const { return at.empty() ? std::nullopt : at.back(); }
    };
    struct Member {
        const Stage *stage = nullptr;
        std::map<std::string, size_t> axes; // by the stage's own axis name
        std::vector<Read> reads;
        int64_t operations = 1; // per element, including inlined stages
        bool has(size_t axis) const;
        bool reduces(size_t axis) const;
        std::vector<std::optional<size_t>> indices() const; // of a result, in the form of Read::at
        int bytes() const;                                  // of a result
        size_t values() const { return stage->is_reduction() ? stage->components.size() : 1; }
    };
    std::vector<ChipAxis> axes;  // those of the output in order, then the others
    std::vector<Member> members; // computed stages: producers first, the output last
    std::vector<std::string> inlined;
    // Axes of the output that are fused here, outermost first; empty: none.
    std::vector<std::string> joined;
    int lanes = 2;

    const Member &output() const { return members.back(); }
    size_t axis(const std::string &name) const; // position
    std::vector<std::string> inputs() const;    // the inputs read, once each
    bool in_window(size_t axis) const;
    // Axes that can run along the lanes of a word, the best first.
    std::vector<size_t> lane_axes() const;
};

// Estimated operations per element of the stage, with the stages not in `kept` inlined
// (chip_cost.cpp).
int64_t chip_operations(const Op &op, const Stage &stage, const std::set<std::string> &kept);

// Which pointwise stages other than the output are stored: none, those with fewer axes than others,
// or also those read by several stages.
enum class ChipKeep { None, Scalars, Shared };

// With the last `joined` axes of the output fused (0: none). Throws Unsupported, with the supported
// chains, if the op is not a chain; returns nullopt if the axes cannot be fused.
std::optional<ChipFormula> chip_formula(const Op &op, ChipKeep keep, size_t joined);

} // namespace kumiko
