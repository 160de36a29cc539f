// What the parameters and the schedule of convolutions in vectors of filters both look at.
#pragma once

#include "schedules/library/conv_filters.h"
#include "schedules/library/conv_roles.h"
#include "schedules/library/product.h"

namespace kumiko::library {

// The parts of an op's axes; nothing where these schedules are not for it.
std::optional<ConvRoles> conv_filters_roles(const Op &op);

// The axis whose steps an instruction takes at once: channels; or where those are few, columns of the window, which lie in one run of a
// padded image. "" where it takes none so.
std::string grouped_axis(const ConvRoles &r, const Product &by);

// A product that takes more steps at once while the weights' values are few; nothing where there is none.
std::optional<NarrowWay> narrow_way_of(const Op &op, const ConvRoles &r, const Machine &machine);

// The axis of the window's columns, which is the last one before or after the channels.
const std::string &window_columns(const ConvRoles &r);

// Whether an instruction on tiles computes it: images with channels last, in whole steps of it.
bool fits_tiles(const Op &op, const ConvRoles &r, const Product &by);
// Whether the pixels of all rows are a fixed step apart in the image, so that no copy is needed.
bool reads_tiles_in_place(const ConvRoles &r);
// Whether the pixels of one row fill at least 7/8 of the tiles that cover it.
bool fills_tiles_by_rows(const ConvRoles &r, const Product &by);
Schedule schedule_conv_tiles(const Op &op, const Machine &machine, const ConvFiltersParameters &p, const ConvRoles &r,
                             const Product &by);

} // namespace kumiko::library
