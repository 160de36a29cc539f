#include "schedules/primitives/table.h"

namespace kumiko {

const std::vector<const Primitive *> &primitives() {
    static const std::vector<const Primitive *> table = {
        &split_primitive(),         &fuse_primitive(),       &tile_primitive(),          &reorder_primitive(),
        &unroll_primitive(),        &vectorize_primitive(),  &parallel_primitive(),      &peel_primitive(),
        &compute_at_primitive(),    &store_at_primitive(),   &compute_root_primitive(),  &compute_with_primitive(),
        &inline_into_primitive(),   &finish_in_primitive(),  &rfactor_primitive(),       &interleave_primitive(),
        &online_primitive(),        &scatter_primitive(),    &offset_primitive(),        &extend_primitive(),
        &expand_primitive(),        &place_in_primitive(),   &accumulate_in_primitive(), &wait_in_primitive(),
        &layout_primitive(),        &hold_as_primitive(),    &reindex_primitive(),       &prepack_primitive(),
        &double_buffer_primitive(), &prefetch_primitive(),   &stream_primitive(),        &bind_primitive(),
        &pipeline_primitive(),      &write_back_primitive(), &region_primitive(),        &tensorize_primitive(),
        &assume_primitive(),        &specialize_primitive(),
    };
    return table;
}

} // namespace kumiko
