// The stages and axes of a convolution by Winograd's minimal filtering, inside of an op.
#pragma once

#include "schedules/library/structure.h"

namespace kumiko::library {

// A stage's names of the axes; "" for those that it does not have.
struct WinogradAxes {
    std::string stage;
    std::vector<std::string> images; // batches
    std::string u, v;                // transformed rows and columns
    std::string down, across;        // tiles; of an image: rows and columns of pixels
    std::string channel, filter;
    std::string inner_row, inner_column; // rows and columns inside of a tile
};

// The image is transformed along rows, then along columns (`points`), and multiplied with the
// transformed weights in a sum over channels. The products are transformed back along rows, then
// along columns (`tiles`), and `result` reads the tiles at y / tile, x / tile, y % tile, x % tile.
struct WinogradRoles {
    std::string padding; // the stage that pads the image, or ""
    // Of the tensor that `rows` reads: the padding stage's, or another tensor's.
    WinogradAxes image;
    WinogradAxes rows, points, weights, products, half, tiles, result;
    std::vector<std::string> inlined; // pointwise stages between `tiles` and `result`
    std::set<std::string> stages;     // all of the above
    int64_t tile = 0;                 // results along each side of a tile
    bool one_weights = false;         // the weights are an input that only `weights` reads
};

// The roles of a group of stages whose sum of products is this stage; nullopt if there is no such
// group. Names and the order of axes do not matter. Only `result` is read by other stages or is an
// output. It is followed through pointwise stages that read it at their own axes.
std::optional<WinogradRoles> winograd_roles(const Op &op, const Stage &products);

} // namespace kumiko::library
