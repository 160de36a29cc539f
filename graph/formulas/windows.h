// Windows over images: convolutions and pools.
#pragma once

#include "graph/formulas/formula.h"

namespace kumiko::graph {

// A window, by axis of the image without batch and channels.
struct Window {
    std::vector<int64_t> kernel, strides, dilations, before, after; // before, after: padding
    std::vector<int64_t> outputs;                                   // extents of the result
};

// The legal texts of auto_pad.
const std::vector<std::string> &paddings();
// The window's extents in weights [outputs, channels, …] of an input. Throws UserError below three
// axes, or if the image has others.
std::vector<int64_t> kernel_of(const Call &c, size_t weights);

// The window of a node with the attributes strides, dilations, pads, auto_pad and ceil_mode, over
// an image [batch, channels, …].
Window window_of(const Call &c, const Extents &image, const std::vector<int64_t> &kernel);

// The pixel that the result at index `at` reads along axis d, at an index `loop` of the window.
Expr position(const Window &w, size_t d, const Expr &at, const Expr &loop);
// Whether that pixel is in the image, and not in its padding. `extent`: of the image.
Expr in_image(const Window &w, size_t d, const Expr &at, const Expr &loop, int64_t extent);

// The image, padded with `value` if windows read beyond its border.
StoredValue padded(const StoredValue &image, const Window &w, const Expr &value);

// The metadata of a Conv that is computed by Winograd's algorithm: the tile, 2 or 4
// (ops/winograd.h). Its window is 3 × 3, with dilation 1, stride 1 or 2, one group, in f32.
inline constexpr const char *winograd_key = "kumiko.winograd_tile";
// Nothing if the node has none. Throws UserError for another text.
std::optional<int> winograd_tile_of(const Node &node);
View convolved_by_winograd(Call &c, const StoredValue &image, const View &weights, const Window &w, int tile);

// The convolution of an image [batch, channels, …] with weights [outputs, channels / group, …]. The
// padding has the value `around`; 0 if it is undefined.
View convolved(Call &c, const StoredValue &image, const View &weights, const Window &w, Type type,
               const Expr &around = {});

} // namespace kumiko::graph
