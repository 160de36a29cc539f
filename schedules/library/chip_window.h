// Shared by the chip's convolution schedules: the meaning of the axes, and the distribution of
// image tiles over units.
#pragma once

#include "schedules/library/structure.h"

#include <array>

namespace kumiko::library {

struct ChipDirection { // along rows or columns of the image
    std::string axis, tap;
    int64_t extent = 1, taps = 1, stride = 1, dilation = 1; // extent: of the output
    // Elements of the image for which the windows of `outputs` results need room.
    int64_t reach(int64_t outputs) const;
};

// A convolution over f16 or f32 images with f32 sums; all extents are constant.
struct ChipConvolution {
    Contraction contraction;
    Operand image, weights;
    std::string input;               // the image before padding
    std::string n, o, c;             // images, output and input channels; o and c: "" if depthwise
    std::vector<std::string> groups; // channel groups; the channels if depthwise
    ChipDirection y, x;
    int64_t N = 1, O = 1, C = 1, G = 1;
    bool end = false;    // the epilogue is more than a cast
    bool single = false; // f32 operands
    int64_t out_bytes = 2;
};
// nullopt if the op is not such a convolution.
std::optional<ChipConvolution> find_chip_convolution(const Op &op);

// Distribution of images, tile rows and tile columns: for each level, innermost first, the number
// of units that divide each. The rest is iterated in time.
constexpr std::array<const char *, 4> chip_levels = {"MAB", "L1B", "L2B", "group"};
struct ChipDistribution {
    std::array<std::array<int64_t, 3>, 4> units;
    std::array<int64_t, 3> left;
    int64_t tiles() const { return left[0] * left[1] * left[2]; } // in time
};
// The distribution that leaves the fewest tiles in time; ties prefer images to rows, and rows to
// columns. `counts`: units of each level.
ChipDistribution distribute_tiles(std::array<int64_t, 3> tiles, const std::array<int64_t, 4> &counts);

// Sizes that cut the extent into nearly equal pieces of at most `most`, ascending.
std::vector<int64_t> even_sizes(int64_t extent, int64_t most);

} // namespace kumiko::library
