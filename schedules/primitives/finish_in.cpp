#include "dsl/reads.h"
#include "schedules/candidates.h"
#include "schedules/primitives/steps.h"
#include "schedules/schedule.h"

namespace kumiko {

namespace {

using namespace Halide::Internal;

// Whether e reads `tensor` at indices other than the axes.
bool reads_elsewhere(const Expr &e, const std::string &tensor, const std::vector<Axis> &axes) {
    const std::vector<const Call *> reads = tensor_reads(e);
    return std::any_of(reads.begin(), reads.end(),
                       [&](const Call *read) { return read->name == tensor && !reads_at(read, axes); });
}

// Whether, on every path to `consumer`, `name` is read at its own axes: by the consumer, or by
// stages inlined into it, whose axes may be in another order.
bool read_in_place(const ScheduleState &state, const std::string &name, const std::string &consumer) {
    for (const std::string &reader : state.readers(name)) {
        const StageState &r = state.stage(reader);
        if (reader != consumer &&
            (r.placement.kind != Placement::Kind::Inline || !read_in_place(state, reader, consumer)))
            return false;
        const Stage &read = state.stage(name).def;
        std::vector<std::string> tensors = {name};
        for (const Component &c : read.components) tensors.push_back(c.tensor);
        for (const Expr &e : r.def.expressions()) {
            for (const std::string &t : tensors) {
                if (reads_elsewhere(e, t, read.axes)) return false;
            }
        }
    }
    return true;
}

void apply_finish_in(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    const std::string consumer = text_argument(d, "consumer");
    require_stage(state, d, consumer);
    StageState &c = state.stage(consumer);
    if (!stage.def.is_reduction())
        refuse(state, d, stage.name() + " is not a reduction, so it has no epilogue", &stage, "", "inline_into()");
    if (state.op.is_output(stage.name())) refuse(state, d, stage.name() + " is an output itself");
    if (c.def.kind != Stage::Kind::Pointwise || c.placement.kind == Placement::Kind::Inline) {
        refuse(state, d, consumer + " is not a pointwise stage with loops of its own", nullptr, "",
               "a consumer that computes one value for each index and is not inlined");
    }
    refuse_recurrence(state, d, c, "its elements must be computed in its own order, not in that of a reduction",
                      "compute_root()");
    if (state.consumers(stage.name()) != std::vector<std::string>{consumer}) {
        refuse(state, d, "other stages than " + consumer + " read " + stage.name());
    }
    bool same = stage.def.axes.size() == c.def.axes.size();
    for (size_t a = 0; same && a < c.def.axes.size(); a++) {
        same = stage.def.axes[a].name() == c.def.axes[a].name() &&
               can_prove(stage.def.axes[a].extent() == c.def.axes[a].extent());
    }
    same = same && read_in_place(state, stage.name(), consumer);
    if (!same) {
        refuse(state, d, consumer + " does not read " + stage.name() + " at exactly its own indices", &stage, "",
               "finish_in an elementwise consumer with the same axes");
    }
    for (const StageState &p : state.stages) {
        if (p.finished_into == consumer) refuse(state, d, consumer + " is finished in " + p.name() + " already");
        if (p.placement.kind == Placement::Kind::At && p.placement.consumer == consumer) {
            if (p.name() == stage.name()) continue;
            refuse(state, d,
                   "stage " + p.name() + " is computed at loop " + p.placement.loop + " of " + consumer +
                       ", which will have no loops");
        }
    }
    if (const SplitRelation *split = stage.padded_split()) {
        refuse(state, d,
               "the split of loop " + split->parent + " pads the storage of " + stage.name() + ", but " + consumer +
                   " would be stored instead",
               &stage, split->outer, "the tails guard and mask");
    }
    stage.finished_into = consumer;
    stage.placement = c.placement;
    c.finished_by = stage.name();
    state.obligations.push_back(
        {index, [name = stage.name(), consumer](const ScheduleState &now) -> std::string {
             if (now.consumers(name) == std::vector<std::string>{consumer} && read_in_place(now, name, consumer))
                 return "";
             return name + ", which is finished in " + consumer + " and not stored, is now read by other stages too";
         }});
}

} // namespace

StageHandle &StageHandle::finish_in(const std::string &consumer, Place where) {
    return apply("finish_in", {{"consumer", consumer}}, where);
}

const Primitive &finish_in_primitive() {
    static const Primitive record = {
        "finish_in",
        "stages",
        "Moves an elementwise consumer (a bias, an activation, a residual, a cast) into the end of a reduction. "
        "It is computed from the accumulator after the last step. "
        "The loops of the consumer are no longer used.",
        "The stage is a reduction and not an output. "
        "The consumer is pointwise, has the same axes, and reads the stage at exactly its own indices. "
        "No other stage reads it.",
        {{"stage", ArgumentKind::Stage, "the reduction"}, {"consumer", ArgumentKind::Text, "the consumer"}},
        apply_finish_in,
        {"dense", {}, {"finish_in", {{"stage", "Y.sum"}, {"consumer", "Y"}}, {}}},
        {.order = 60, .candidates = {{"stage", reductions}, {"consumer", readers_of_argument}}},
    };
    return record;
}

} // namespace kumiko
