// Convolutions over images.
#pragma once

#include "dsl/op.h"

#include <string>
#include <vector>

namespace kumiko::ops {

// Order of the axes of images: batch, channels, rows, columns; or channels last.
enum class ImageLayout { NCHW, NHWC };

// Options of conv2d(), winograd_conv2d() and depthwise_conv2d().
struct Conv2dOptions {
    ImageLayout layout = ImageLayout::NCHW;
    int stride_y = 1, stride_x = 1;
    int pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0; // zero padding around X
    int dilation_y = 1, dilation_x = 1;
    // Must divide the channels; depthwise if equal to input and output channels.
    int groups = 1;
    bool bias = false;      // adds an input "bias" over the output channels
    bool residual = false;  // adds a last input "residual", shaped like Y, before the activation
    std::string activation; // a unary function of ops/elementwise.h
    Type w_type;            // of W; default: the type of X
    // Type of Y; default: the type of X if it is a float, otherwise the accumulator type.
    Type output;
    // Requantisation epilogue: the i32 sum with its i32 bias becomes i8 or u8, as `output` states.
    // It is multiplied by an f32 input "scale" over the output channels (after the bias), then
    // activated, rounded and saturated as in ops/quantise.h. Not with residual.
    bool requantise = false;
    int zero_point = 0;
    // "max" or "average": fused pooling. Y pools the convolution, the stage "conv", as in
    // ops/pool.h, over windows of pool_window rows and columns with stride pool_stride. "average"
    // requires floats and no padding. The residual is shaped like "conv".
    std::string pool;
    int pool_window = 2, pool_stride = 2, pool_padding = 0;

    Conv2dOptions &stride(int s);
    Conv2dOptions &padding(int p); // on all four sides
    Conv2dOptions &dilation(int d);
};

// Two-dimensional convolution, as a direct sum.
//
// NCHW: X (n, c, y, x) and W (o, c, ky, kx) to Y (n, o, y, x). NHWC: X (n, y, x, c) and W (ky, kx,
// c, o) to Y (n, y, x, o). With groups, c and o count within a group, and an axis g precedes them;
// the memory layout is unchanged. Depthwise: W (c, ky, kx) or (ky, kx, c), Y (n, c, y, x) or (n, y,
// x, c), without a reduction over channels. With padding, X is read through the stage "X.padded".
//
// N images of C channels, H × W pixels; O output channels; KH × KW weights. f16 and bf16 are
// accumulated in f32, i8 and u8 in i32; elements of W are cast to the accumulator type.
Op conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &O, int KH, int KW,
          const Conv2dOptions &options = {});

// conv2d with a 3 × 3 window by Winograd's minimal filtering, F(tile × tile, 3 × 3) with tile 2 or
// 4: 16 products per 4 results, or 36 per 16, instead of 9 per result. With stride 2 in both
// directions it takes 25 per 4 or 81 per 16, because each axis is split into windows of 2 and of 1.
// X, W, Y, bias, residual, activation and layout as in conv2d; f32 or f64, one type for all,
// dilation 1, groups 1, no pool.
//
// The terms of the sums differ from direct convolution, so NaN and infinity spread over tiles, and
// rounding differs. Before bias, residual and activation, a tile is S = Aᵀ (Σc (G w Gᵀ) ⊙ (Bᵀ x B))
// A, and with |·| taken entry by entry
//
//   |S − exact| ≤ (C + 32) · u · |Aᵀ| (Σc (|G| |w| |Gᵀ|) ⊙ (|Bᵀ| |x| |B|)) |A|
//
// to first order in the unit roundoff u (2^-24 for f32). For values around 1, this is about 10^-6
// of the largest result with tile 2 and 10^-5 with tile 4. Lavin and Gray, Fast Algorithms for
// Convolutional Neural Networks, 2015.
Op winograd_conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &O, int tile,
                   const Conv2dOptions &options = {});

// One filter per channel: conv2d with as many groups as channels; `options.groups` is ignored.
Op depthwise_conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int KH, int KW,
                    const Conv2dOptions &options = {});

// Options of 1D and 3D convolutions.
struct ConvOptions {
    ImageLayout layout = ImageLayout::NCHW; // channels before or after z, y and x
    // One value for all axes, or one per axis, outermost first.
    std::vector<int> stride = {1}, padding = {0}, dilation = {1};
    int groups = 1;
    bool bias = false, residual = false; // this and the following as in Conv2dOptions
    std::string activation;
    Type w_type, output;
    bool requantise = false;
    int zero_point = 0;
};

// One-dimensional convolution. X (n, c, x) and W (o, c, kx) to Y (n, o, x); channels last: X (n, x,
// c) and W (kx, c, o) to Y (n, x, o). The rest as in conv2d.
Op conv1d(Type t, const Expr &N, const Expr &C, const Expr &W, const Expr &O, int KW, const ConvOptions &options = {});

// Three-dimensional convolution. X (n, c, z, y, x) and W (o, c, kz, ky, kx) to Y (n, o, z, y, x);
// channels last: X (n, z, y, x, c) and W (kz, ky, kx, c, o) to Y (n, z, y, x, o).
Op conv3d(Type t, const Expr &N, const Expr &C, const Expr &D, const Expr &H, const Expr &W, const Expr &O, int KD,
          int KH, int KW, const ConvOptions &options = {});

// Options of conv_transpose2d().
struct ConvTransposeOptions {
    ImageLayout layout = ImageLayout::NCHW;
    int stride_y = 1, stride_x = 1;
    int padding_y = 0, padding_x = 0; // rows and columns cropped from both sides of the full output
    // Rows and columns added at the end; less than the stride.
    int output_padding_y = 0, output_padding_x = 0;
    bool bias = false;
    std::string activation;
};

// Transposed convolution: each pixel of X adds its weights, scaled, to a window of Y; windows move
// by the stride. Computed as a gather by phases: all pixels of Y that are congruent modulo the
// stride use the same subset of weights, so no products with zeros between the pixels of X are
// computed.
//
//   phase(n, o, ry, rx, qy, qx) =
//       sum over c, ty, tx: X(n, c, qy − ty, qx − tx) · W(c, o, ty · stride + ry, tx · stride + rx)
//   Y(n, o, y, x) = phase at ry = (y + padding) mod stride, qy = (y + padding) / stride;
//       x likewise
//
// X (n, c, y, x) and W (c, o, ky, kx) to Y (n, o, y, x); NHWC: X (n, y, x, c) and W (ky, kx, c, o)
// to Y (n, y, x, o). The height of Y is (H − 1) · stride − 2 · padding + KH + output_padding. Types
// as in conv2d.
Op conv_transpose2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &O, int KH, int KW,
                    const ConvTransposeOptions &options = {});

} // namespace kumiko::ops
