#include "targets/chip/stage/program.h"

#include "dsl/buffers.h"
#include "dsl/extern.h"
#include "dsl/scatter.h"
#include "machine/machine.h"
#include "schedules/own_part.h"
#include "schedules/values.h"
#include "support/error.h"
#include "targets/chip/stage/gather.h"
#include "targets/chip/stage/pieces.h"
#include "targets/chip/stage/stages.h"

#include <fmt/format.h>

namespace kumiko::chip {

namespace {

double product(const std::vector<Axis> &axes) {
    double n = 1;
    for (const Axis &a : axes) n *= double(evaluate_size(a.extent(), {}));
    return n;
}

// The number of elements that the stage computes.
double elements(const StageState &s) {
    double n = 1;
    for (const Axis &a : s.def.axes)
        n *= s.part && s.part->axis == a.name() ? double(s.part->count) : double(evaluate_size(a.extent(), {}));
    return n;
}

// Checks the rates that paths and stages assume.
void require_rates(const sim::Config &c) {
    if (c.links.l2_broadcast != 16 || c.links.l2_scatter != 8 || c.moves.block != 64 || c.moves.granule != 16 ||
        c.moves.table != 1024)
        throw Unsupported(fmt::format(
            "chip {} has L2 links of {} and {} LW a cycle (broadcast, scatter), moves of {} LW, granules of {} "
            "and tables of {} entries; the compiler supports 16 and 8, 64, 16, 1024",
            c.name, c.links.l2_broadcast, c.links.l2_scatter, c.moves.block, c.moves.granule, c.moves.table));
}

} // namespace

void require_program(const Schedule &schedule, const sim::Config &config) {
    schedule.require_applied();
    const Op &op = schedule.op();
    if (schedule.machine().architecture != "chip")
        throw UserError("the schedule is for machine " + schedule.machine().name + ", not for the chip");
    require_rates(config);
    if (!op.sizes().empty())
        throw UserError("op " + op.name() + " has size " + op.sizes().front() +
                        ", known only at run time; programs of the chip are made for given sizes");
    for (const Input &in : op.inputs()) {
        if (in.inout)
            throw Unsupported("op " + op.name() + " updates its input " + in.name +
                              " in place; programs of the chip have outputs of their own");
    }
    for (const Stage &s : op.stages()) {
        if (is_extern(s))
            throw Unsupported("stage " + s.name + " of op " + op.name() +
                              " is made by an extern function, which the chip cannot call");
        if (s.reads_itself())
            throw Unsupported("stage " + s.name +
                              " reads its own earlier elements; the chip has no scans and recurrences");
        if (const auto scatter = scattered(s); scatter && !tensors_read(scatter->index).empty())
            throw Unsupported("stage " + s.name + " is a scatter along " + scatter->axis +
                              "; the chip has no stores at data-dependent addresses");
        for (const Axis &k : s.reduction_axes) {
            if (evaluate_size(k.extent(), {}) == 0)
                throw Unsupported("stage " + s.name + " reduces over axis " + k.name() +
                                  ", which has no elements; the chip's reductions have one at least");
        }
    }
    if (!schedule.specializations().empty())
        throw UserError("the schedule is specialised by sizes, which a program of the chip does not have");
    for (const Assume &a : schedule.state().assumptions) {
        if (is_about_values(a.condition))
            throw Unsupported("the assumption " + a.text +
                              ": a program of the chip cannot check values before it runs");
    }
    for (const StageState &s : schedule.state().stages) {
        if (s.prepacked && !s.is_copy)
            throw Unsupported("stage " + s.name() + " is computed ahead of time; on the chip copies of inputs are");
        if (s.online)
            throw Unsupported("stage " + s.name() + " is online with " + s.online->max +
                              "; on the chip a maximum is complete before sums use it");
        if (s.waiting)
            throw Unsupported("partial results of stage " + s.name() + " wait in " + s.waiting->level +
                              " between rounds; on the chip a sum is computed in one round");
    }
}

sim::Bounds lower_stages(Context &c, const Op &op, const ScheduleState &state) {
    sim::Bounds bounds;
    for (const StageState &s : state.stages) {
        if (s.is_copy && s.def.type != state.type_of(s.copied))
            throw Unsupported("stage " + s.name() + " is held as " + type_name(s.def.type) +
                              "; on the chip a copy has the type of the tensor that it copies");
        if (s.computed)
            throw Unsupported("stage " + s.name() + " is computed in the loops of " + s.computed->consumer +
                              "; on the chip stages are computed where they are stored");
        if (s.shared)
            throw Unsupported("stage " + s.name() + " runs in the loops of " + s.shared->stage +
                              "; on the chip each stage has its own");
        if (s.is_copy || s.placement.kind == Placement::Kind::Inline || !s.finished_by.empty()) continue;
        if (s.placement.kind == Placement::Kind::At) { // computed with the root stage
            if (writes_output(op, s.def))
                throw Unsupported("output " + s.name() + " is computed at a loop of " + s.placement.consumer +
                                  "; on the chip outputs are stored by the stages at the root");
            const StageState &consumer = state.stage(s.placement.consumer);
            if (consumer.def.is_reduction() || consumer.placement.kind != Placement::Kind::Root)
                throw Unsupported(
                    "stage " + s.name() + " is computed at a loop of " + consumer.name() +
                    "; on the chip stages are computed at a loop of one at the root that does not reduce");
            continue;
        }
        const bool leaves = op.is_output(s.finished_into.empty() ? s.tensor() : s.finished_into);
        if (!leaves)
            throw Unsupported(
                "stage " + s.name() +
                " is at the root and is read by another stage; on the chip results stay where they are computed: use "
                "compute_at at a loop of the reader, inline it, or fuse it into the preceding reduction by finish_in");
        const size_t before = c.tensors.size();
        if (!s.def.is_reduction() && is_gather(s))
            lower_gather(c, state, s);
        else if (!s.def.is_reduction())
            lower_pointwise(c, state, s);
        else if (s.tensorize)
            lower_contraction(c, state, s, s.finished_into.empty() ? nullptr : &state.stage(s.finished_into));
        else
            throw Unsupported(
                "stage " + s.name() + " is a reduction without tensorize, finished in " + s.finished_into +
                "; reductions without the matrix unit are computed at a loop of the stage that reads them");
        if (s.part) {
            keep_part(c, before, s);
            c.note_taken();
            c.planner.release();
        }
        if (s.def.is_reduction() && s.tensorize) bounds.macs += elements(s) * product(s.def.reduction_axes);
    }
    double &bytes = bounds.compulsory_dram_bytes;
    for (const std::string &o : op.outputs()) bytes += product(state.axes_of(o)) * state.type_of(o).bytes();
    for (const Input &in : op.inputs()) {
        if (bytes > 0) // otherwise there is no traffic bound
            bytes += c.needed.contains(in.name) ? c.needed.at(in.name) : product(in.axes) * in.type.bytes();
    }
    c.note_taken();
    return bounds;
}

} // namespace kumiko::chip
