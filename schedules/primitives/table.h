// The records, one per file.
#pragma once

#include "schedules/primitive.h"

namespace kumiko {

extern const Primitive split_primitive, fuse_primitive, tile_primitive, reorder_primitive, unroll_primitive, vectorize_primitive,
    parallel_primitive, peel_primitive;
extern const Primitive compute_at_primitive, compute_root_primitive, inline_into_primitive, finish_in_primitive, rfactor_primitive,
    interleave_primitive;
extern const Primitive place_in_primitive, accumulate_in_primitive, layout_primitive;

// Steps that several records perform.
void split_loop(ScheduleState &state, StageState &stage, const Directive &d, const std::string &loop, int64_t factor,
                const std::string &outer, const std::string &inner, Tail tail);

} // namespace kumiko
