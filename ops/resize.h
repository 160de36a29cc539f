// Image resizing.
#pragma once

#include "ops/conv.h"

namespace kumiko::ops {

// The coordinate in an image of H rows for row y of an image of OH rows:
enum class Coordinates {
    HalfPixel,    // (y + 1/2) · H / OH − 1/2: pixels are squares; the image borders coincide
    AlignCorners, // y · (H − 1) / (OH − 1): the centres of corner pixels coincide; 0 if OH is 1
    Asymmetric,   // y · H / OH: the corners of the first pixels coincide
};

// Options of the resize ops.
struct ResizeOptions {
    ImageLayout layout = ImageLayout::NCHW;
    Coordinates coordinates = Coordinates::HalfPixel;
};

// Y(n, c, y, x) = the pixel of X with the nearest centre; ties take the later one. Asymmetric takes
// the pixel that contains the corner, rounding down. Coordinates are exact integer fractions; 4 ·
// OH · (H + 1) must be less than 2³¹, and likewise for W.
Op resize_nearest(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &OH, const Expr &OW,
                  const ResizeOptions &options = {});

// Bilinear interpolation of the four surrounding pixels, clamped at the border. Floats only,
// computed in f32 or wider. Stages: "rows" interpolates between two rows of X; "left" is the index
// of the first column; "part" is the weight of the second column; "Y".
Op resize_bilinear(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &OH, const Expr &OW,
                   const ResizeOptions &options = {});

} // namespace kumiko::ops
