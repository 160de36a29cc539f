// Direct convolutions with vectors along filters: each image element is broadcast to a vector, and
// the weights of a few vectors of filters are contiguous. No vector runs along the image, so
// strides and windows cost nothing. In NCHW, each result is scattered to its plane, which is cheap
// once per finished sum; in NHWC, results are stored as they are computed.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

// Parameters of schedule_conv_filters().
struct ConvFiltersParameters {
    BOOST_HANA_DEFINE_STRUCT(
        ConvFiltersParameters, (Tile, pixels), // neighbouring results in registers
        (Tile, vectors),                       // vectors of filters in registers
        (Flag, through_rows),                  // runs of results continue in the next row
        (Tile, depth),                         // channels summed per visit to the results
        (Choice, outer),                       // axis of the outermost loop: "filters" or "rows"
        // image: "direct", read in place; "copied", from a copy of the elements that are read; or
        // "packed", from such a copy by tiles of pixels
        // multiply: "plain"; "widened": copies have the sum's type; or an instruction
        (Choice, image), (Choice, multiply),
        // weights: "copied" into reading order by the kernel; "ahead", pre-packed; or, with filters
        // last, "direct", read in place
        (Choice, weights), (Choice, unroll), // "none", "kx" of the window, or four "channels"
        (Flag, parallel),                    // distribute the outermost loop over cores
        // for an instruction that takes more steps at once but is exact for weights near zero only:
        // a second kernel for calls with such weights; pre-packed weights are stored in its order
        (Flag, narrow),
        // if results are pooled: rows of the pool computed together with the results they need; 0:
        // the pool runs after all of them
        (Tile, pool_rows));
};

// is_conv_for_filters: whether these schedules apply. is_conv_by_filters: whether they are also
// preferred if the kernel packs the weights.
bool is_conv_for_filters(const Op &op);
bool is_conv_by_filters(const Op &op);
// Whether vectors of pixels, as of schedule_conv(), are expected to be faster than vectors of
// filters even if weights are pre-packed: they fill the machine's lanes better, or results and what
// is added to them are not transposed. Requires is_conv_for_filters(op).
bool prefers_vectors_of_pixels(const Op &op, const Machine &machine);
ConvFiltersParameters conv_filters_parameters(const Op &op, const Machine &machine,
                                              PackedBy packed_by = PackedBy::Kernel);
Schedule schedule_conv_filters(const Op &op, const Machine &machine, const ConvFiltersParameters &p);

} // namespace kumiko::library
