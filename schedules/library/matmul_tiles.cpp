// Matrix products by tile instructions. Panels of B, as deep as the reduction, are packed in tile
// order. A is read in place if it is contiguous along the reduction.
#include "dsl/types.h"
#include "schedules/library/matmul_plan.h"
#include "schedules/library/tiles.h"

namespace kumiko::library {

Schedule schedule_tiles(const Op &op, const Machine &machine, const MatmulPlan &plan) {
    MatmulRoles r = plan.r;
    const Product &t = plan.product;
    const int64_t depth = int64_t(t.groups) * t.group;
    const bool ahead = plan.p.pack_b.is("ahead"), a_by_steps = contiguous_in(r.a, r.k);
    Schedule s(op, machine);
    StageHandle C = s.stage(r.contraction.sum->name);
    const bool extends = r.K && *r.K % depth != 0;
    if (extends || !a_by_steps) r.a.tensor = tensor_by_axes(s, C.name(), r.a);
    r.b.tensor = tensor_by_axes(s, C.name(), r.b);
    if (extends) {
        C.extend(r.a.tensor, r.k, (*r.K + depth - 1) / depth * depth, r.b.tensor);
        r.a.tensor += ".extended", r.b.tensor += ".extended";
    }
    TilePlan tiles{.product = t,
                   .i = r.i,
                   .j = r.j,
                   .k = r.k,
                   .M = r.M,
                   .N = r.N,
                   .outside = r.batches,
                   .columns = plan.columns,
                   .parallel = plan.p.parallel,
                   .row_block = plan.p.row_block,
                   .moves_rows = tail_may_overlap(op),
                   .moves_columns = !ahead && tail_may_overlap(op)};
    const TileLoops loops = tile_loops(machine, C, tiles);
    const std::vector<std::string> batches = axes_in(r.b, r.batches);
    const int64_t vector = vector_lanes(machine, t.b);
    const bool b_by_columns = contiguous_in(r.b, r.j);
    if (ahead) {
        if (s.state().find(r.b.tensor)) s.stage(r.b.tensor).compute_root();
        StageHandle B = s.prepack(r.b.tensor, batched_layout(plan, r.b, panels_layout(tiles)));
        pack_panels(B, tiles, batches, b_by_columns, vector, Tail::Auto);
    } else {
        const std::string steps = std::to_string(t.group);
        StageHandle B = s.place_in(r.b.tensor, "L2", C.name(), loops.panels);
        pack_panels(B, tiles, batches, b_by_columns, vector, Tail::Pad);
        B.layout(batched_layout(plan, r.b, {r.k + "/" + steps, r.j, r.k + "%" + steps}));
    }
    if (extends) {
        StageHandle A = s.stage(r.a.tensor);
        A.compute_root();
        if (a_by_steps)
            A.vectorize(r.k, depth);
        else
            A.layout(batched_layout(plan, r.a, {r.i, r.k}));
    } else if (!a_by_steps) {
        s.place_in(r.a.tensor, "L1", C.name(), loops.rows).layout(batched_layout(plan, r.a, {r.i, r.k}));
    }
    if (!r.contraction.consumer.empty()) C.finish_in(r.contraction.consumer);
    C.tensorize(loops.block, t.instruction);
    return s;
}

} // namespace kumiko::library
