// What the structure of a formula says about its program on the chip: which stages stay in the PEs as a chain, which of their axes are one
// and the same, which of them all stages have (results are made tile by tile along those), and what is read along which.
#pragma once

#include "dsl/op.h"
#include "machine/machine.h"

#include <optional>
#include <set>
#include <tuple>

namespace kumiko {

// An axis of several stages: where one reads another, or both read an input, at the same place.
struct ChipAxis {
    std::string name; // the output's, where it has it
    int64_t extent = 1;
    bool shared = true;   // all stages have it and none reduces over it
    bool kept = false;    // the output has it
    bool reduced = false; // by some stage
    bool by_tree = true;  // by sums and extremes only, which the tree of units folds
};

struct ChipFormula {
    // An input, or zeros around one, that a stage reads once what is not kept is inlined: its axis at each dimension; none for a number, and
    // where several axes add up, or one is taken in steps.
    struct Read {
        std::string tensor;
        int bytes = 4;
        std::vector<std::optional<size_t>> at;
        std::vector<std::vector<std::pair<size_t, int64_t>>> windows; // axes that add up, with their steps
        std::vector<int64_t> offsets;                                 // of each dimension, where all axes are 0
        bool uses(size_t axis) const;
        bool operator<(const Read &o) const { // reads that are not the same words
            return std::tie(tensor, at, windows, offsets) < std::tie(o.tensor, o.at, o.windows, o.offsets);
        }
        std::optional<size_t> last() const { return at.empty() ? std::nullopt : at.back(); }
    };
    struct Member {
        const Stage *stage = nullptr;
        std::map<std::string, size_t> axes; // by the stage's own name
        std::vector<Read> reads;
        int64_t operations = 1; // of an element, with what is inlined
        bool has(size_t axis) const;
        bool reduces(size_t axis) const;
        std::vector<std::optional<size_t>> indices() const; // of a result, as of a read
        int bytes() const;                                  // of a result
        size_t values() const { return stage->is_reduction() ? stage->components.size() : 1; }
    };
    std::vector<ChipAxis> axes;  // the output's in its order, then others
    std::vector<Member> members; // that are computed, those that are read first, the output last
    std::vector<std::string> inlined;
    std::vector<std::string> joined; // axes of the output that are one here, outermost first; empty: none are
    int lanes = 2;

    const Member &output() const { return members.back(); }
    size_t axis(const std::string &name) const; // position
    std::vector<std::string> inputs() const;    // that are read, once each
    bool in_window(size_t axis) const;
    // Axes that the lanes of a word may follow, the best first.
    std::vector<size_t> lane_axes() const;
};

// About how many of the chip's operations an element of the stage takes, what is not kept inlined (chip_cost.cpp).
int64_t chip_operations(const Op &op, const Stage &stage, const std::set<std::string> &kept);

// Pointwise stages beside the output: all inlined, those of fewer axes than others kept, or also what several stages read.
enum class ChipKeep { None, Scalars, Shared };

// With so many of the output's last axes joined to one (0: none are). Throws Unsupported with what the chip's chains are where the op is no
// such; nothing when the axes do not join.
std::optional<ChipFormula> chip_formula(const Op &op, ChipKeep keep, size_t joined);

} // namespace kumiko
