// The copies that schedules of convolutions in vectors of filters work on: images and weights in the order in which they are read, in
// the type in which they are multiplied.
#pragma once

#include "schedules/library/conv_filters.h"
#include "schedules/library/conv_roles.h"
#include "schedules/library/product.h"

namespace kumiko::library {

struct FiltersPlan {
    const ConvRoles &r;
    const ConvFiltersParameters &p;
    Product product;
    int64_t wide;        // filters side by side
    Product ahead;       // for which weights that are packed ahead stand; another one's are copied from those
    std::string grouped; // the axis whose steps the product takes at once: channels, or columns of the window

    const Stage &sum() const { return *r.contraction.sum; }
};

// What is read of an image, as the parameters say; nothing where it is read in its place.
void copy_image(Schedule &s, StageHandle Y, const FiltersPlan &plan);

// The weights of filters that are neighbours side by side, copied or ahead of time.
void copy_weights(Schedule &s, StageHandle Y, const FiltersPlan &plan);

// The sums of the weights of each filter that offset leaves, stage `name`; after copy_weights.
void sum_weights(Schedule &s, const std::string &name, const FiltersPlan &plan);

} // namespace kumiko::library
