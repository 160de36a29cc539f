// Pooling over images.
#pragma once

#include "ops/conv.h"

namespace kumiko::ops {

struct PoolOptions {
    ImageLayout layout = ImageLayout::NCHW;
    int stride = 1, padding = 0; // both ways; padding on all sides
};

// Y(n, c, y, x) = the greatest of X(n, c, y · stride + ky − padding, x · stride + kx − padding) over a window of kh × kw; what lies
// outside the image is not looked at. Requires padding < kh, kw; throws UserError otherwise, and for windows larger than the image.
Op max_pool(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int kh, int kw,
            const PoolOptions &options = {});

// The mean of the window, summed in f32 at least; zeros stand outside of the image and are counted. Floats only.
Op average_pool(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int kh, int kw,
                const PoolOptions &options = {});

} // namespace kumiko::ops
