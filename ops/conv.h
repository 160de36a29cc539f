// Convolutions over images.
#pragma once

#include "dsl/op.h"

#include <string>

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

    Conv2dOptions &stride(int s);
    Conv2dOptions &padding(int p); // on all four sides
    Conv2dOptions &dilation(int d);
};

// X (n, c, y, x) and W (o, c, ky, kx) to Y (n, o, y, x), or in NHWC X (n, y, x, c) and W (ky, kx, c, o) to Y (n, y, x, o).
// With groups, c and o count within a group and an axis g stands before them: the arrays lie in memory as without it.
// Depthwise: W (c, ky, kx) or (ky, kx, c), Y (n, c, y, x) or (n, y, x, c), and no reduction over channels.
// With padding X is read through the stage "X.padded". N images of C channels, H × W; O output channels; KH × KW weights.
// f16 and bf16 are summed in f32, i8 and u8 in i32.
Op conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &O, int KH, int KW,
          const Conv2dOptions &options = {});

// Each channel for itself: conv2d with as many groups as channels; `options.groups` is ignored.
Op depthwise_conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int KH, int KW,
                    const Conv2dOptions &options = {});

} // namespace kumiko::ops
