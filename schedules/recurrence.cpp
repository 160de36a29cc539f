// Constraints of recurrences (dsl/recurrence.h): an element is computed after those that it reads.
#include "dsl/recurrence.h"
#include "dsl/reads.h"
#include "schedules/primitives/steps.h"

#include <fmt/format.h>

namespace kumiko {

namespace {

// A stage that reads itself, and its loops.
class Order {
public:
    explicit Order(const StageState &stage) : stage_(stage) {}

    std::string broken() const {
        for (const Axis &a : stage_.def.axes) {
            if (!carries_dependence(stage_.def, a.name())) continue;
            if (std::string why = unordered_parts(a.name()); !why.empty()) return why;
        }
        for (const std::vector<int64_t> &distance : stage_.def.distances) {
            if (std::string why = out_of_order(distance); !why.empty()) return why;
            for (const std::string &loop : stage_.order) {
                if (std::string why = at_once(loop, distance); !why.empty()) return why;
            }
        }
        return "";
    }

    // Why earlier elements that other stages read may be incomplete; "" if they are complete: the
    // step loops are outside all loops along axes at which any element may be read, and the readers
    // are computed inside the step loops.
    std::string broken_steps(const ScheduleState &state) const {
        const std::string &axis = stage_.def.step_axis;
        const std::set<std::string> names = in_steps(state, stage_);
        for (const Axis &a : stage_.def.axes) {
            if (a.name() == axis || all_before(axis, a.name()) || at_same(state, names, a.name())) continue;
            return fmt::format(
                "other stages read {} at earlier {} and any {}, so all loops along {} stay outside of those "
                "along {}",
                stage_.name(), axis, a.name(), axis, a.name());
        }
        const std::vector<size_t> steps = positions(axis);
        const size_t inside = steps.back();
        for (const std::string &name : names) {
            const StageState *s = state.find(name);
            if (s->placement.kind == Placement::Kind::Inline) continue;
            if (s->stored)
                return fmt::format("{} is computed in each step of {}, so it cannot be stored at another loop", name,
                                   stage_.name());
            if (s->buffers > 1 && s->placement.consumer == stage_.name() &&
                std::count(steps.begin(), steps.end(), stage_.position(s->placement.loop)))
                return fmt::format("{} reads results of the previous step of {}, so it cannot be filled a step ahead",
                                   name, stage_.name());
            while (s && s->name() != stage_.name()) {
                const StageState *host = !s->finished_by.empty() ? state.find(s->finished_by) : nullptr;
                if (!host && s->placement.kind == Placement::Kind::At) host = state.find(s->placement.consumer);
                if (host && host->name() == stage_.name() && stage_.position(s->placement.loop) < inside)
                    host = nullptr;
                s = host;
            }
            if (!s)
                return fmt::format(
                    "{} reads earlier elements of {} and is read by it, so it is computed at a loop of {} "
                    "that is not outside of {}; legal is compute_at(\"{}\", \"{}\")",
                    name, stage_.name(), stage_.name(), stage_.order[inside], stage_.name(), stage_.order[inside]);
        }
        return "";
    }

private:
    const StageState &stage_;

    // Whether the stages of a step range over the axis, and read each other and earlier elements at
    // the same index of it: its iterations are then independent.
    bool at_same(const ScheduleState &state, const std::set<std::string> &names, const std::string &axis) const {
        std::vector<const Stage *> all = {&stage_.def};
        for (const std::string &name : names) all.push_back(&state.find(name)->def);
        const auto made_by = [&](const std::string &tensor) -> const Stage * {
            const std::string earlier = earlier_of(tensor);
            for (const Stage *s : all) {
                if (s->makes(tensor) || (!earlier.empty() && s->makes(earlier))) return s;
            }
            return nullptr;
        };
        for (const Stage *s : all) {
            for (const Expr &e : s->expressions()) {
                for (const Halide::Internal::Call *read : tensor_reads(e)) {
                    const Stage *made = made_by(read->name);
                    if (!made || s->makes(read->name)) continue;
                    bool same = false;
                    for (size_t d = 0; d < read->args.size(); d++) {
                        const auto *v = read->args[d].as<Halide::Internal::Variable>();
                        same = same || (made->axes[d].name() == axis && v && v->name == axis);
                    }
                    if (!same) return false;
                }
            }
        }
        return true;
    }

    // The positions of live loops that are derived from `ancestor`.
    std::vector<size_t> positions(const std::string &ancestor) const {
        std::vector<size_t> found;
        for (size_t n = 0; n < stage_.order.size(); n++) {
            if (stage_.derived_from(stage_.order[n], ancestor)) found.push_back(n);
        }
        return found;
    }
    bool all_before(const std::string &a, const std::string &b) const {
        const auto first = positions(a), second = positions(b);
        if (first == second) return fused_in_order(a, b);
        return first.empty() || second.empty() || first.back() < second.front();
    }

    // Whether the loops come from fusing loops along a (outer) with loops along b (inner).
    bool fused_in_order(const std::string &a, const std::string &b) const {
        return std::any_of(stage_.relations.begin(), stage_.relations.end(), [&](const Relation &r) {
            const auto *fuse = std::get_if<FuseRelation>(&r);
            return fuse && stage_.derived_from(fuse->outer, a) && stage_.derived_from(fuse->inner, b);
        });
    }

    // Why the outer part of a split loop along the axis is not outside the inner part; "" if it is.
    std::string unordered_parts(const std::string &axis) const {
        for (const Relation &r : stage_.relations) {
            const auto *split = std::get_if<SplitRelation>(&r);
            if (!split || !stage_.derived_from(split->parent, axis) || all_before(split->outer, split->inner)) continue;
            return fmt::format("{} is a recurrence along {}, so loop {} stays outside of loop {}", stage_.name(), axis,
                               split->outer, split->inner);
        }
        return "";
    }

    // A read at a higher index along b is of an earlier element only if loops along another axis,
    // at a lower index, are outside those along b.
    std::string out_of_order(const std::vector<int64_t> &distance) const {
        const auto &axes = stage_.def.axes;
        for (size_t b = 0; b < axes.size(); b++) {
            if (distance[b] >= 0) continue;
            bool carried = false;
            std::string lower;
            for (size_t a = 0; a < axes.size(); a++) {
                if (distance[a] <= 0) continue;
                lower = axes[a].name();
                carried = carried || all_before(lower, axes[b].name());
            }
            if (!carried)
                return fmt::format("{} reads itself at {}, so all loops along {} stay outside of those along {}",
                                   stage_.name(), read_text(distance), lower, axes[b].name());
        }
        return "";
    }

    // Iterations of a loop may run in parallel only if they do not read each other: the read must
    // be of another iteration of an outer loop.
    std::string at_once(const std::string &loop, const std::vector<int64_t> &distance) const {
        const LoopKind kind = stage_.loop(loop).kind;
        if (kind == LoopKind::Serial || kind == LoopKind::Unrolled) return "";
        const auto &axes = stage_.def.axes;
        const size_t at = stage_.position(loop);
        bool moves = false, carried = false;
        for (size_t d = 0; d < axes.size(); d++) {
            if (distance[d] == 0) continue;
            const auto loops = positions(axes[d].name());
            moves = moves || std::count(loops.begin(), loops.end(), at);
            carried = carried || (!loops.empty() && loops.back() < at);
        }
        if (!moves || carried) return "";
        return fmt::format("{} reads itself at {}, so the iterations of loop {} wait for each other and cannot {}; "
                           "legal is a loop along another axis{}",
                           stage_.name(), read_text(distance), loop,
                           kind == LoopKind::Vectorized ? "be lanes of one vector"
                           : kind == LoopKind::Bound    ? "be shared by units"
                                                        : "run in parallel",
                           several(distance) ? ", or one inside of all loops along another axis of the read" : "");
    }

    static bool several(const std::vector<int64_t> &distance) {
        return distance.size() - static_cast<size_t>(std::count(distance.begin(), distance.end(), 0)) > 1;
    }

    // "(i, t - 2)".
    std::string read_text(const std::vector<int64_t> &distance) const {
        std::string text;
        for (size_t d = 0; d < distance.size(); d++) {
            const std::string &axis = stage_.def.axes[d].name();
            text += d ? ", " : "(";
            text += distance[d] == 0  ? axis
                    : distance[d] > 0 ? fmt::format("{} - {}", axis, distance[d])
                                      : fmt::format("{} + {}", axis, -distance[d]);
        }
        return text + ")";
    }
};

} // namespace

std::string broken_recurrence(const ScheduleState &state) {
    for (const StageState &stage : state.stages) {
        if (!stage.def.reads_itself()) continue;
        const Order order(stage);
        if (std::string why = order.broken(); !why.empty()) return why;
        if (!stage.def.takes_steps()) continue;
        if (std::string why = order.broken_steps(state); !why.empty()) return why;
    }
    return "";
}

void refuse_recurrence(const ScheduleState &state, const Directive &d, const StageState &stage, const std::string &why,
                       const std::string &legal) {
    if (stage.def.reads_itself()) refuse(state, d, stage.name() + " is a recurrence: " + why, &stage, "", legal);
}

} // namespace kumiko
