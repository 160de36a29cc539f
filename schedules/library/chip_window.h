// What the chip's schedules of convolutions share: what the axes mean, and how tiles of the image are dealt to units.
#pragma once

#include "schedules/library/structure.h"

#include <array>

namespace kumiko::library {

struct ChipDirection { // along rows or columns of the image
    std::string axis, tap;
    int64_t extent = 1, taps = 1, stride = 1, dilation = 1; // extent: of the output
    // Elements of the image that the windows of so many outputs take room for.
    int64_t reach(int64_t outputs) const;
};

// A convolution over images of f16 or f32 with sums in f32, all extents numbers.
struct ChipConvolution {
    Contraction contraction;
    Operand image, weights;
    std::string input;   // of the image, under its zeros
    std::string n, o, c; // images, output and input channels; o and c are "" where each channel is for itself
    std::vector<std::string> groups; // of channels; the channels themselves where each is for itself
    ChipDirection y, x;
    int64_t N = 1, O = 1, C = 1, G = 1;
    bool end = false;    // more than a cast finishes the sums
    bool single = false; // of f32
    int64_t out_bytes = 2;
};
std::optional<ChipConvolution> find_chip_convolution(const Op &op);

// How images, rows and columns of tiles are dealt to units: for each level, innermost first, so many of each; the rest follows in time.
constexpr std::array<const char *, 4> chip_levels = {"MAB", "L1B", "L2B", "group"};
struct ChipDealing {
    std::array<std::array<int64_t, 3>, 4> units;
    std::array<int64_t, 3> left;
    int64_t tiles() const { return left[0] * left[1] * left[2]; } // in time
};
// With the least left; images rather than rows, rows rather than columns. `counts`: units of each level.
ChipDealing deal_tiles(std::array<int64_t, 3> tiles, const std::array<int64_t, 4> &counts);

// Sizes that cut the extent into so many pieces of nearly equal size, at most `most` each, ascending.
std::vector<int64_t> even_sizes(int64_t extent, int64_t most);

} // namespace kumiko::library
