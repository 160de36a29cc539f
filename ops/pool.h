// Pooling over images.
#pragma once

#include "ops/conv.h"

namespace kumiko::ops {

// Options of max_pool() and average_pool().
struct PoolOptions {
    ImageLayout layout = ImageLayout::NCHW;
    int stride = 1, padding = 0; // in both directions; padding on all sides
};

// Y(n, c, y, x) = maximum of X(n, c, y · stride + ky − padding, x · stride + kx − padding) over a
// kh × kw window. Positions outside the image are ignored. Throws UserError unless padding < kh,
// kw, and for windows larger than the image.
Op max_pool(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int kh, int kw,
            const PoolOptions &options = {});

// The mean of the window, accumulated in f32 or wider. Positions outside the image count as zeros.
// Floats only.
Op average_pool(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int kh, int kw,
                const PoolOptions &options = {});

} // namespace kumiko::ops
