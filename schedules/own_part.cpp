#include "schedules/own_part.h"

#include "dsl/bounded.h"
#include "dsl/reads.h"
#include "dsl/recurrence.h"
#include "schedules/parts.h"
#include "schedules/primitives/steps.h"
#include "schedules/shared_loops.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// The elements along an axis that one iteration of the host needs: those of the host axis with this
// name, or all if the name is `whole`.
using Run = std::string;
constexpr const char *whole = "";

class Host {
public:
    Host(const ScheduleState &state, const StageState &host, const std::string &loop)
        : state_(state), host_(host), loop_(loop) {
        for (size_t l = 0; l <= host.position(loop); l++) {
            for (const std::string &axis : host.axes_of(host.order[l])) around_.insert(axis);
        }
    }

    // One entry per axis of `s`: `whole` if a reader needs all elements, otherwise the run that all
    // readers agree on. If they disagree, sets `why` and returns an empty vector.
    std::vector<Run> runs_of(const StageState &s) {
        const std::vector<std::string> tensors = s.def.tensors();
        const std::set<std::string> names(tensors.begin(), tensors.end());
        std::vector<std::vector<Expr>> places;
        std::vector<const StageState *> readers; // one per entry of `places`
        for (const std::string &name : state_.consumers(s.name())) {
            const StageState &reader = state_.stage(name);
            if (reads_later(state_, name, host_.name())) continue;
            for (const Expr &read : reads_with_inlined(state_, reader, names)) {
                places.push_back(read.as<Call>()->args);
                readers.push_back(&reader);
            }
        }
        if (places.empty()) why = "no stage in the loops of " + host_.name() + " reads " + s.name();
        // Readers that run beside the host are not analysed: they must need what the host needs.
        const auto in_host = [&](const StageState *r) { return r == &host_ || r->finished_by == host_.name(); };
        const bool beside = std::any_of(readers.begin(), readers.end(), [&](const StageState *r) {
            return !in_host(r) && runs_beside(state_, r->name(), host_.name(), loop_);
        });
        if (beside && std::none_of(readers.begin(), readers.end(), in_host))
            why = host_.name() + " does not read " + s.name() + " itself";
        std::vector<Run> runs;
        for (size_t d = 0; d < s.def.axes.size() && why.empty(); d++) {
            const Axis &axis = s.def.axes[d];
            std::set<std::optional<Run>> all;
            for (size_t n = 0; n < places.size(); n++) all.insert(run_at(*readers[n], places[n][d], axis));
            if (all.count(Run(whole)) && !(beside && all.size() > 1))
                runs.emplace_back(whole);
            else if (all.size() == 1 && *all.begin() && carries_dependence(s.def, axis.name()))
                why = s.name() + " is a recurrence along " + axis.name() +
                      ", each of whose iterations computes all earlier elements";
            else if (all.size() == 1 && *all.begin())
                runs.push_back(**all.begin());
            else if (!s.def.step_axis.empty()) // each step computes all of it
                runs.emplace_back(whole);
            else if (why.empty())
                why = "along " + axis.name() + " it is not read at one axis of " + host_.name() + " of the same extent";
        }
        return why.empty() ? runs : std::vector<Run>();
    }

    std::string why;

private:
    const ScheduleState &state_;
    const StageState &host_;
    const std::string &loop_;
    std::set<std::string> around_; // axes of the host of which one iteration covers a part

    // Returns nullopt if the index is not an axis, or its extent differs.
    std::optional<Run> run_at(const StageState &reader, const Expr &index, const Axis &axis) {
        const Variable *v = index.as<Variable>();
        const Axis *own = v ? find_axis(reader.def, v->name) : nullptr;
        if (!own || !can_prove(own->extent() == axis.extent())) return std::nullopt;
        const auto &steps = reader.def.reduction_axes;
        const bool reduced =
            std::any_of(steps.begin(), steps.end(), [&](const Axis &a) { return a.name() == own->name(); });
        // Not all steps are read.
        if (reduced && !term_bounds(reader.def).empty()) return std::nullopt;
        if (&reader == &host_ || reader.finished_by == host_.name() ||
            runs_beside(state_, reader.name(), host_.name(), loop_))
            return around_.count(own->name()) ? own->name() : whole;
        for (size_t d = 0; d < reader.def.axes.size(); d++) {
            if (reader.def.axes[d].name() != own->name()) continue;
            const std::vector<Run> runs = runs_of(reader);
            return d < runs.size() ? std::optional(runs[d]) : std::nullopt;
        }
        return whole; // it reduces along that axis
    }
};

// The stage at the root in whose nest `s` runs; if several share the nest, their leader.
const StageState &nest_of(const ScheduleState &state, const StageState &s) {
    const StageState &loops = loops_of(state, s);
    if (loops.computed_at().kind == Placement::Kind::At)
        return nest_of(state, state.stage(loops.computed_at().consumer));
    return leader_of(state, head_of(state, loops));
}

} // namespace

bool writes_output(const Op &op, const Stage &stage) {
    return op.is_output(stage.name) || std::any_of(stage.components.begin(), stage.components.end(),
                                                   [&](const Component &c) { return op.is_output(c.tensor); });
}

bool reads_later(const ScheduleState &state, const std::string &reader, const std::string &host) {
    return &nest_of(state, state.stage(host)) < &nest_of(state, state.stage(reader));
}

namespace {

// Why two iterations of the first `fixed` loops of `h` would have elements along the axis in
// common; "" if each has a block of its own. The remaining loops must be the inner parts of all
// splits, and these splits must divide evenly.
std::string not_a_block(const StageState &h, const std::string &axis, size_t fixed) {
    bool inside = false; // some loop inside is derived from the axis
    for (size_t l = fixed; l < h.order.size(); l++) inside = inside || h.derived_from(h.order[l], axis);
    if (!inside) return "";
    const auto stands = [&](const std::string &loop, bool outside) {
        for (size_t l = outside ? 0 : fixed; l < (outside ? fixed : h.order.size()); l++) {
            if (h.derived_from(h.order[l], loop)) return true;
        }
        return false;
    };
    std::set<std::string> inner;
    for (const Relation &r : h.relations) {
        if (const auto *split = std::get_if<SplitRelation>(&r)) inner.insert(split->inner);
    }
    for (const Relation &r : h.relations) {
        if (const auto *fuse = std::get_if<FuseRelation>(&r)) {
            if (h.derived_from(fuse->fused, axis))
                return "loop " + fuse->fused + " is fused from several loops, and only a part of it is outside";
            continue;
        }
        const auto &split = std::get<SplitRelation>(r);
        if (!h.derived_from(split.parent, axis)) continue;
        if (stands(split.inner, true) && stands(split.outer, false))
            return "a part of " + split.inner + " is outside of " + split.outer;
        if (inner.count(split.parent) && !can_prove(h.loop(split.parent).extent % static_cast<int>(split.factor) == 0))
            return "the split of " + split.parent + " by " + std::to_string(split.factor) + " does not divide it";
    }
    return "";
}

// Why iterations do not write disjoint parts; "" if they do.
std::string no_part(const ScheduleState &state, const StageState &s, const StageState &h, const std::string &loop) {
    for (const StageState *stage : {&s, &h}) {
        if (stage->online) return stage->name() + " is part of online";
        if (stage->buffers > 1) return stage->name() + " is multi-buffered";
        if (!stage->scattered.empty()) return "steps of " + stage->name() + " visit single elements";
        if (stage->part || !regions_of(state, stage->name()).empty())
            return stage->name() + " is computed region by region";
    }
    if (h.prepacked) return h.name() + " is pre-packed";
    if (h.def.kind == Stage::Kind::Padding) return h.name() + " is padding, which is computed only where it is read";
    if (head_of(state, h).placement.kind != Placement::Kind::Root)
        return h.name() + " is not computed at the root, so its loops may run several times";
    Host host(state, h, loop);
    const std::vector<Run> runs = host.runs_of(s);
    if (!host.why.empty()) return host.why;
    std::set<std::string> axes;
    for (const Run &run : runs) {
        if (run != whole && !axes.insert(run).second)
            return "two axes of " + s.name() + " run with axis " + run + " of " + h.name();
    }
    const size_t fixed = h.position(loop) + 1;
    for (size_t l = 0; l < fixed; l++) {
        for (const std::string &axis : h.axes_of(h.order[l])) {
            if (!axes.count(axis))
                return "loop " + h.order[l] + " of " + h.name() + " runs over " + axis +
                       ", and each of its iterations would write all of " + s.name();
            if (const std::string why = not_a_block(h, axis, fixed); !why.empty()) return why;
        }
    }
    for (const Relation &r : h.relations) {
        const auto *split = std::get_if<SplitRelation>(&r);
        const bool twice = split && split->tail == Tail::Shift && writes_output(state.op, s.def);
        for (size_t l = 0; twice && l < fixed; l++) {
            if (h.derived_from(h.order[l], split->outer))
                return "the last block of " + split->parent + " of " + h.name() +
                       " is shifted inwards, over elements of the previous block";
        }
    }
    return "";
}

} // namespace

std::vector<bool> whole_axes(const ScheduleState &state, const std::string &name, const std::string &host,
                             const std::string &loop) {
    std::vector<bool> all;
    for (const Run &run : Host(state, state.stage(host), loop).runs_of(state.stage(name))) all.push_back(run == whole);
    return all;
}

std::string not_own_part(const ScheduleState &state, const std::string &name, const std::string &host,
                         const std::string &loop) {
    const std::string why = no_part(state, state.stage(name), state.stage(host), loop);
    if (why.empty()) return "";
    return "iterations of loop " + loop + " of " + host + " would not write disjoint parts of output " + name + ": " +
           why;
}

} // namespace kumiko
