// Images of another size.
#pragma once

#include "ops/conv.h"

namespace kumiko::ops {

// Where pixel y of an image of OH rows lies in one of H rows:
enum class Coordinates {
    HalfPixel,    // (y + 1/2) · H / OH − 1/2: pixels are squares, and the images' borders coincide
    AlignCorners, // y · (H − 1) / (OH − 1): the corner pixels' centres coincide; 0 where OH is 1
    Asymmetric,   // y · H / OH: the first pixels' corners coincide
};

struct ResizeOptions {
    ImageLayout layout = ImageLayout::NCHW;
    Coordinates coordinates = Coordinates::HalfPixel;
};

// Y(n, c, y, x) = the pixel of X whose centre is nearest, the later one of two; Asymmetric takes the one that holds the corner, rounding down.
// Coordinates are fractions of integers, so they are exact; 4 · OH · (H + 1) is to stay below 2³¹, and W alike.
Op resize_nearest(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &OH, const Expr &OW,
                  const ResizeOptions &options = {});

// Between the four pixels around, by their distances; those beyond the border are the ones at it. Floats only, computed in f32
// at least. Stages "rows", between two rows of X; "left" and "part", the first of two columns and how far from it to the second a pixel
// lies; and "Y".
Op resize_bilinear(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &OH, const Expr &OW,
                   const ResizeOptions &options = {});

} // namespace kumiko::ops
