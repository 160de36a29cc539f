// Convolutions over images.
#pragma once

#include "dsl/op.h"

#include <string>
#include <vector>

namespace kumiko::ops {

enum class ImageLayout { NCHW, NHWC };

struct Conv2dOptions {
    ImageLayout layout = ImageLayout::NCHW;
    int stride_y = 1, stride_x = 1;
    int pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0; // zeros around X
    int dilation_y = 1, dilation_x = 1;
    int groups = 1;         // must divide the channels; equal to both of them is depthwise
    bool bias = false;      // an input "bias" over the output channels
    bool residual = false;  // a last input "residual", shaped like Y, added before the activation
    std::string activation; // a unary function of ops/elementwise.h
    Type w_type;            // of W; the type of X unless stated
    Type output;            // of Y; a float type of X, else the accumulation type, unless stated
    // The sum and its bias, both i32, become i8 or u8 as `output` says: times an input "scale" of f32 over the output channels, behind the
    // bias, then the activation, rounded and saturated as in ops/quantise.h. Without residual.
    bool requantise = false;
    int zero_point = 0;
    // "max" or "average": Y is, as in ops/pool.h, of windows of what it would be else, the stage "conv", of pool_window rows and columns,
    // pool_stride apart. The average is of floats and without padding. The residual is shaped like "conv".
    std::string pool;
    int pool_window = 2, pool_stride = 2, pool_padding = 0;

    Conv2dOptions &stride(int s);
    Conv2dOptions &padding(int p); // on all four sides
    Conv2dOptions &dilation(int d);
};

// X (n, c, y, x) and W (o, c, ky, kx) to Y (n, o, y, x), or in NHWC X (n, y, x, c) and W (ky, kx, c, o) to Y (n, y, x, o).
// With groups, c and o count within a group and an axis g stands before them: the arrays lie in memory as without it.
// Depthwise: W (c, ky, kx) or (ky, kx, c), Y (n, c, y, x) or (n, y, x, c), and no reduction over channels.
// With padding X is read through the stage "X.padded". N images of C channels, H × W; O output channels; KH × KW weights.
// f16 and bf16 are summed in f32, i8 and u8 in i32; what W is of is cast to the type of the sum.
Op conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &O, int KH, int KW,
          const Conv2dOptions &options = {});

// conv2d with a window of 3 × 3 by Winograd's minimal filtering, F(tile × tile, 3 × 3), tile 2 or 4: 16 products for 4 results or 36 for
// 16, where the direct sum takes 9 for each; with a stride of 2 both ways 25 for 4 or 81 for 16, as each axis is one of windows of 2 and
// one of 1. X, W, Y, bias, residual, activation and layout as in conv2d, f32 or f64; dilation and groups 1, all of one type, without a
// pool. Sums are of other terms than the direct one's, so NaN and infinity spread over tiles, and results differ by rounding. The
// sum S, before bias, residual and activation, is Aᵀ (Σc (G w Gᵀ) ⊙ (Bᵀ x B)) A for each tile, and with |·| of every entry
//
//   |S − exact| ≤ (C + 32) · u · |Aᵀ| (Σc (|G| |w| |Gᵀ|) ⊙ (|Bᵀ| |x| |B|)) |A|
//
// to first order in the unit roundoff u (2^-24 for f32); for values around 1 some 10^-6 of the largest result with tile 2 and 10^-5
// with tile 4. Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
Op winograd_conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &O, int tile,
                   const Conv2dOptions &options = {});

// Each channel for itself: conv2d with as many groups as channels; `options.groups` is ignored.
Op depthwise_conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int KH, int KW,
                    const Conv2dOptions &options = {});

// Of other convolutions, over x or over z, y and x.
struct ConvOptions {
    ImageLayout layout = ImageLayout::NCHW;                       // channels before z, y and x, or after them
    std::vector<int> stride = {1}, padding = {0}, dilation = {1}; // one for all axes, or one for each, outermost first
    int groups = 1;
    bool bias = false, residual = false; // as in Conv2dOptions, like all that follows
    std::string activation;
    Type w_type, output;
    bool requantise = false;
    int zero_point = 0;
};

// X (n, c, x) and W (o, c, kx) to Y (n, o, x), or with channels last X (n, x, c) and W (kx, c, o) to Y (n, x, o); the rest as in conv2d.
Op conv1d(Type t, const Expr &N, const Expr &C, const Expr &W, const Expr &O, int KW, const ConvOptions &options = {});

// X (n, c, z, y, x) and W (o, c, kz, ky, kx) to Y (n, o, z, y, x), or X (n, z, y, x, c) and W (kz, ky, kx, c, o) to Y (n, z, y, x, o).
Op conv3d(Type t, const Expr &N, const Expr &C, const Expr &D, const Expr &H, const Expr &W, const Expr &O, int KD,
          int KH, int KW, const ConvOptions &options = {});

struct ConvTransposeOptions {
    ImageLayout layout = ImageLayout::NCHW;
    int stride_y = 1, stride_x = 1;
    int padding_y = 0, padding_x = 0;               // rows and columns cut off on both sides of what X spreads over
    int output_padding_y = 0, output_padding_x = 0; // more of them at the end; below the stride
    bool bias = false;
    std::string activation;
};

// The transposed convolution: each pixel of X adds its weights to a window of Y, which moves by the stride. It is summed as a gather, by
// phases: pixels of Y that stand a stride apart take the same weights, every stride-th, so that no product with what stands between
// pixels of X is made.
//
//   phase(n, o, ry, rx, qy, qx) = sum over c, ty, tx: X(n, c, qy − ty, qx − tx) · W(c, o, ty · stride + ry, tx · stride + rx)
//   Y(n, o, y, x) = phase at ry = (y + padding) mod stride, qy = (y + padding) / stride, and x alike
//
// X (n, c, y, x) and W (c, o, ky, kx) to Y (n, o, y, x), in NHWC X (n, y, x, c) and W (ky, kx, c, o) to Y (n, y, x, o). Y is
// (H − 1) · stride − 2 · padding + KH + output_padding high. Types as in conv2d.
Op conv_transpose2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &O, int KH, int KW,
                    const ConvTransposeOptions &options = {});

} // namespace kumiko::ops
