// Shared by the parameters and the schedule of convolutions in vectors of filters.
#pragma once

#include "schedules/library/conv_filters.h"
#include "schedules/library/conv_roles.h"
#include "schedules/library/product.h"

namespace kumiko::library {

// The roles of the op's axes; nothing if these schedules do not apply.
std::optional<ConvRoles> conv_filters_roles(const Op &op);

// The axis whose steps an instruction takes in groups: channels, or, if these are few, columns of
// the window, contiguous in a padded image. "" if there is no such axis.
std::string grouped_axis(const ConvRoles &r, const Product &by);

// An instruction that takes more steps at once but is exact only if the weights' values are small;
// nothing if there is none.
std::optional<NarrowStrategy> narrow_strategy_of(const Op &op, const ConvRoles &r, const Machine &machine);

// The axis of the window's columns: the last one, not counting channels.
const std::string &window_columns(const ConvRoles &r);

// Whether a tile instruction can compute the convolution: channels last, in whole steps of the
// instruction.
bool fits_tiles(const Op &op, const ConvRoles &r, const Product &by);
// Whether consecutive pixels, across rows, are at a fixed distance in the image, so that no copy is
// needed.
bool reads_tiles_in_place(const ConvRoles &r);
// Whether the pixels of one row fill at least 7/8 of the tiles that cover it.
bool fills_tiles_by_rows(const ConvRoles &r, const Product &by);
Schedule schedule_conv_tiles(const Op &op, const Machine &machine, const ConvFiltersParameters &p, const ConvRoles &r,
                             const Product &by);

} // namespace kumiko::library
