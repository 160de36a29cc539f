// Winograd's minimal filtering of convolutions with 3 × 3 windows: the stages of a formula, and
// when they pay.
#pragma once

#include "dsl/tensor.h"

#include <functional>
#include <string>

namespace kumiko::ops {

// A convolution with 3 × 3 windows, dilation 1 and one group, over the axes of its formula.
struct WinogradConvolution {
    Type type;                      // f32 or f64, of the image, the weights and the results
    Axis images, channels, filters; // axes of any extents
    Expr height, width;             // of the results, in pixels
    int tile = 4, stride = 1;       // tile: results along each side, 2 or 4; stride: 1 or 2
    // The image at row y and column x of the window at row 0 and column 0 of the results. It is
    // read beyond its last row and column if tile does not divide the results.
    std::function<Expr(const Expr &y, const Expr &x)> image;
    std::function<Expr(int ky, int kx)> weight;           // over `filters` and `channels`
    std::function<std::string(const std::string &)> name; // of a stage
};

// The results by tiles: a tensor (images, ty, tx, a, b, filters), whose element is the result at
// row ty · tile + a and column tx · tile + b. Rounding: see winograd_conv2d() in ops/conv.h.
Tensor winograd_tiles(const WinogradConvolution &convolution);

// The tile, 2 or 4, with which F(tile × tile, 3 × 3) has the fewest products per result, or 0 if
// direct sums are cheaper. F pays with 16 channels and 16 filters, a quarter fewer products, and 16
// tiles or more, which share the transformed weights. height, width: of the results, in pixels.
int winograd_tile(int64_t images, int64_t channels, int64_t filters, int64_t height, int64_t width, int64_t stride);

} // namespace kumiko::ops
