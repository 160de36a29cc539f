// Copies for convolutions in vectors of filters: images and weights in reading order, in the type
// in which they are multiplied.
#pragma once

#include "schedules/library/conv_filters.h"
#include "schedules/library/conv_roles.h"
#include "schedules/library/product.h"

namespace kumiko::library {

struct FiltersPlan {
    const ConvRoles &r;
    const ConvFiltersParameters &p;
    Product product;
    int64_t wide; // filters in a register tile
    // the product for which weights are pre-packed; another product copies from those
    Product ahead;
    // axis whose steps the product takes in groups: channels, or window columns
    std::string grouped;

    const Stage &sum() const { return *r.contraction.sum; }
};

// Copies the elements of the image that are read, as the parameters say; does nothing for "direct".
void copy_image(Schedule &s, StageHandle Y, const FiltersPlan &plan);

// Makes the weights of neighbouring filters contiguous, by a copy or ahead of time.
void copy_weights(Schedule &s, StageHandle Y, const FiltersPlan &plan);

// Schedules stage `name`, the sum of each filter's weights that offset() creates. Call after
// copy_weights.
void sum_weights(Schedule &s, const std::string &name, const FiltersPlan &plan);

} // namespace kumiko::library
