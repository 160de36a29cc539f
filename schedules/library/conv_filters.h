// Direct convolutions in vectors of filters: each element of the image is spread over a vector, and the weights of a few vectors of
// filters are read side by side. With channels before rows the results go to their planes one by one, which costs little once all is
// summed; with channels last they lie as they are computed. Strides and windows of the image cost nothing then, as no vector lies along it.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::library {

struct ConvFiltersParameters {
    BOOST_HANA_DEFINE_STRUCT(
        ConvFiltersParameters, (Tile, pixels), // neighbouring results in registers
        (Tile, vectors),                       // vectors of filters in registers
        (Flag, through_rows),                  // runs of results go on in the next row
        (Tile, depth),                         // channels that are summed between visits to results
        (Choice, outer),                       // what the outermost loop steps through: "filters" or "rows"
        // the image is read where it is: "direct"; or what is read of it stands together in a copy: "copied",
        // or in one by tiles of pixels: "packed"
        (Choice, image), (Choice, multiply), // "plain"; "widened": copies hold the sum's type; or a tensor instruction
        // brought into reading order by the kernel: "copied"; or "ahead" of it; with filters last also read as they lie: "direct"
        (Choice, weights), (Choice, unroll), // "none", "kx" of the window, or four "channels"
        (Flag, parallel),                    // spread the outermost loop over cores
        // where an instruction takes more steps at once but is exact for weights near zero only: a second kernel, for calls whose
        // weights are; weights packed ahead stand as that one takes them
        (Flag, narrow),
        // where the results are pooled: rows of the pool that are computed with the results they need; 0: the pool comes after all
        (Tile, pool_rows));
};

// Whether these schedules are for it, and whether they are the better ones while the kernel packs the weights.
bool is_conv_for_filters(const Op &op);
bool is_conv_by_filters(const Op &op);
ConvFiltersParameters conv_filters_parameters(const Op &op, const Machine &machine,
                                              PackedBy packed_by = PackedBy::Kernel);
Schedule schedule_conv_filters(const Op &op, const Machine &machine, const ConvFiltersParameters &p);

} // namespace kumiko::library
