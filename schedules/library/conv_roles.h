// What the axes of a convolution do.
#pragma once

#include "schedules/library/structure.h"

namespace kumiko::library {

// The axes by their part in the work. The vector axis is the output's last; `other` is the tiled axis that the operand of
// the vectors does not use (output channels in NCHW) or, in NHWC, the columns of the image.
struct ConvRoles {
    Contraction contraction;
    std::string vector, row, other;   // row, other: "" when there is none
    std::vector<std::string> outside; // batches, groups, depthwise channels
    std::vector<std::string> window;  // reduction axes, channels first
    Operand image, weights;
    std::string padding, weights_padding; // the stages that pad the image and the weights, or ""
    bool fusable = false;                 // row and vector form one contiguous run
    bool nhwc = false;
    bool dense = true; // neighbours along the vector axis read neighbours
};

// Nothing when the op is no convolution.
std::optional<ConvRoles> conv_roles(const Op &op);

// Whether neighbours along the axis read neighbours of every axis of the operand, or the same elements.
bool is_dense(const Operand &o, const std::string &axis);

// Whether some index uses the axis beside others.
bool shifts(const Operand &o, const std::string &axis);

// The reduction axis over channels; "" where there is none.
std::string channels_of(const ConvRoles &r);

// The extent of an axis of the stage; `otherwise` where it is no number, 1 where there is no such axis.
int64_t extent_of(const Stage &s, const std::string &axis, int64_t otherwise);
// 1 … n, as far as the extent reaches.
std::vector<int64_t> up_to(int64_t n, int64_t extent);
// Spreads one of the loops that come before reductions over cores: the first that has an iteration for each, else the longest.
void share_out(StageHandle S, const std::vector<LoopName> &order, int64_t threads);
// Pads the image before all else, by vectors along its last axis: of several pixels where the
// channels are last and few.
void pad_image(Schedule &s, const ConvRoles &r, int64_t lanes, int64_t threads);

} // namespace kumiko::library
