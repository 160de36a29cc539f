// Operations on layouts.
#pragma once

#include "targets/chip/layout/placement.h"

namespace kumiko::chip {

// A tensor seen through other indices: each axis of the view consists of digits of the tensor's
// indices.
//   split axis 0 of (32, 16) into 4 × 8:   {{{4, 0, 8}, {8, 0, 1}}} as two axes
//                                          {{4, 0, 8}}, {{8, 0, 1}}, then {{16, 1, 1}}
//   transpose:                             {{16, 1, 1}}, {{32, 0, 1}}
//   rows and columns in one axis:          {{32, 0, 1}, {16, 1, 1}}
// A digit of size `size` moves the index on `axis` by `step`.
struct ViewFactor {
    int64_t size = 1;
    int axis = 0;
    int64_t step = 1;
};
using View = std::vector<std::vector<ViewFactor>>; // factors outermost first

// The layout of the view: compose(L, V) maps i to L(V(i)). Throws UserError for a view that exceeds
// the tensor. Throws Unsupported if a digit cuts a factor (or a window) of the layout so that no
// product of factors is the same map; the message names the axis, the step, the factor and the
// legal choices.
Layout compose(const Layout &layout, const View &view);

// Splits the axis: outer = index / inner, inner = index % inner. Throws as compose does.
Layout divide(const Layout &layout, int axis, int64_t inner);
// Axis k of the result is axis order[k].
Layout permute(const Layout &layout, const std::vector<int> &order);
// Fixes an axis at one index and removes it: a tile of a divided tensor. Windows cannot be sliced
// (Unsupported).
Layout slice(const Layout &layout, int axis, int64_t index);

// The coarsest form of the same map: factors of size 1 are removed, and neighbours that form one
// digit are merged.
Layout canonical(const Layout &layout);
// Whether every index has the same places in a memory of this machine.
bool equal(const Layout &a, const Layout &b, Memory memory, const sim::Config &config);

} // namespace kumiko::chip
