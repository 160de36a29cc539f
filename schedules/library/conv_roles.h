// The roles of a convolution's axes.
#pragma once

#include "schedules/library/structure.h"

namespace kumiko::library {

// The axes by role. `vector` is the output's last axis, or that before it if the images are columns
// of one element. `other` is the tiled axis that the vectors'
// operand does not use: output channels in NCHW, columns of the image in NHWC.
struct ConvRoles {
    Contraction contraction;
    std::string vector, row, other;   // row, other: "" when there is none
    std::vector<std::string> outside; // batches, groups, depthwise channels
    std::vector<std::string> window;  // reduction axes, channels first
    Operand image, weights;
    std::string padding, weights_padding; // the stages that pad the image and the weights, or ""
    bool fusable = false;                 // row and vector form one contiguous run
    bool nhwc = false;
    bool dense = true; // neighbours along the vector axis read neighbouring elements
};

// nullopt if the op is not a convolution.
std::optional<ConvRoles> conv_roles(const Op &op);

// Whether neighbours along the axis read neighbouring elements, or the same ones, in each dimension
// of the operand.
bool is_dense(const Operand &o, const std::string &axis);

// Whether some index combines the axis with others.
bool shifts(const Operand &o, const std::string &axis);

// The reduction axis over channels; "" where there is none.
std::string channels_of(const ConvRoles &r);

// The extent of an axis of the stage; `otherwise` if it is not constant, 1 if there is no such
// axis.
int64_t extent_of(const Stage &s, const std::string &axis, int64_t otherwise);
// Vectorizes the last axis of more than one element, or the last one.
void vectorize_innermost(StageHandle S, int64_t lanes);
// 1 … n, limited by the extent.
std::vector<int64_t> up_to(int64_t n, int64_t extent);
// Distributes one of the loops before the reductions over cores: the first with an iteration per
// thread, else the longest.
void distribute_over_cores(StageHandle S, const std::vector<LoopName> &order, int64_t threads);
// Pads the image at the root, in vectors along its last axis. If channels are last and few, a
// vector holds several pixels.
void pad_image(Schedule &s, const ConvRoles &r, int64_t lanes, int64_t threads);

} // namespace kumiko::library
