#include "dsl/bounded.h"
#include "dsl/extern.h"
#include "dsl/reads.h"
#include "schedules/candidates.h"
#include "schedules/online.h"
#include "schedules/primitives/steps.h"
#include "schedules/rolling.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"

namespace kumiko {

namespace {

using namespace Halide::Internal;

// The indices at which a stage, including stages inlined into it, reads another.
std::vector<std::vector<Expr>> reads_of(const ScheduleState &state, const StageState &reader, const StageState &of) {
    std::vector<std::vector<Expr>> found;
    const std::vector<std::string> tensors = of.def.tensors();
    for (const Expr &read : reads_with_inlined(state, reader, {tensors.begin(), tensors.end()}))
        found.push_back(read.as<Call>()->args);
    return found;
}

const Axis *axis_of(const StageState &s, const Expr &index) {
    const Variable *v = index.as<Variable>();
    return v ? find_axis(s.def, v->name) : nullptr;
}

bool reduces(const StageState &s, const Axis &axis) {
    const auto &all = s.def.reduction_axes;
    return std::any_of(all.begin(), all.end(), [&](const Axis &a) { return a.name() == axis.name(); });
}

// The storage location of a stage: one iteration of a loop of another stage.
class Home {
public:
    Home(const ScheduleState &state, const Placement &at)
        : state_(state), host_(state.stage(at.consumer)), depth_(host_.position(at.loop)), at_(at) {}

    // Why `reader` could run before all of what `first` computes here is available; "" if it
    // cannot.
    std::string too_early(const StageState &reader, const StageState &first) const {
        const StageState *s = &reader;
        for (;;) {
            if (!s->finished_by.empty()) s = state_.find(s->finished_by);
            if (s == &host_) return "";
            if (s == &first) return "is computed in the loops of " + first.name();
            const Placement &at = s->computed_at();
            if (at.kind != Placement::Kind::At) return "is not computed in loop " + at_.loop + " of " + host_.name();
            const StageState *next = state_.find(at.consumer);
            if (!next) return "is computed in stage " + at.consumer + ", which no longer exists";
            if (next == &host_ && host_.has_loop(at.loop) && host_.position(at.loop) == depth_)
                return turn(*s) > turn(first) ? "" : "is computed before " + first.name();
            s = next;
        }
    }

    // The range of an axis of a stage within one iteration: the union of the runs of these host
    // axes; `whole` stands for the full extent. nullopt if the reads do not determine it.
    static constexpr const char *whole = "";
    using Run = std::set<std::string>;
    std::optional<Run> run_of(const StageState &s, const Axis &axis) const {
        if (&s == &host_ || s.finished_by == host_.name()) {
            for (size_t l = 0; l <= depth_; l++) {
                if (host_.derived_from(host_.order[l], axis.name())) return Run{axis.name()};
            }
            return Run{whole};
        }
        if (reduces(s, axis)) return term_bounds(s.def).empty() ? std::optional(Run{whole}) : std::nullopt;
        size_t d = 0;
        while (s.def.axes[d].name() != axis.name()) d++;
        Run all;
        for (const std::string &name : state_.consumers(s.name())) {
            const StageState &reader = state_.stage(name);
            for (const auto &index : reads_of(state_, reader, s)) {
                const auto run = run_at(reader, index[d], axis);
                if (!run) return std::nullopt;
                all.insert(run->begin(), run->end());
            }
        }
        return all.count(whole) ? Run{whole} : all;
    }
    // The same for an index along `axis` of the tensor that is read.
    std::optional<Run> run_at(const StageState &reader, const Expr &index, const Axis &axis) const {
        const Axis *own = axis_of(reader, index);
        const auto run = own ? run_of(reader, *own) : std::nullopt;
        if (run && run->count(whole) && !can_prove(own->extent() == axis.extent())) return std::nullopt;
        return run;
    }

private:
    const ScheduleState &state_;
    const StageState &host_;
    size_t depth_;
    const Placement &at_;

    // The position at which the stage's code is emitted.
    size_t turn(const StageState &s) const {
        const StageState *in = s.finished_into.empty() ? &s : state_.find(s.finished_into);
        return in - state_.stages.data();
    }
};

// Why a stage cannot be computed part by part into its storage; "" if it can.
std::string not_by_parts(const ScheduleState &state, const StageState &s) {
    if (const Exclusion why = excluded(state, s, Trait::KeptApart)) return why.reason;
    const StageState &by = s.finished_by.empty() ? s : state.stage(s.finished_by);
    if (by.online) return "stage " + by.name() + " is computed online";
    if (by.tensorize) return "tensorize of " + by.name() + " needs blocks of one size";
    return "";
}

// Why iterations of the stage's loops do not read all of `of`, one part after the other; "" if they
// do.
std::string not_read_in_sequence(const ScheduleState &state, const StageState &s, const StageState &of,
                                 const std::string &loop) {
    if (const Exclusion why = excluded(state, s, Trait::FirstReader)) return why.reason;
    if (!term_bounds(s.def).empty()) return s.name() + " excludes terms and does not read their elements";
    for (size_t l = 0; l <= s.position(loop); l++) {
        const LoopKind kind = s.loop(s.order[l]).kind;
        if (kind != LoopKind::Serial && kind != LoopKind::Unrolled)
            return "loop " + s.order[l] + " of " + s.name() + " is " + kind_name(kind) +
                   ", so its iterations do not run one after another";
    }
    const auto reads = reads_of(state, s, of);
    if (reads.empty()) return s.name() + " does not read " + of.name();
    for (const auto &index : reads) {
        std::set<std::string> axes;
        for (size_t d = 0; d < index.size(); d++) {
            const Axis *axis = axis_of(s, index[d]);
            if (!axis || !axes.insert(axis->name()).second || !equal(index[d], reads[0][d]))
                return s.name() + " does not read " + of.name() +
                       " at one list of indices, each of which is a different axis";
        }
    }
    return "";
}

void apply_store_at(ScheduleState &state, const Directive &d, size_t index) {
    StageState &stage = stage_argument(state, d);
    refuse_excluded(state, d, stage, Trait::Stored, "stages that compute, and padding");
    stage.stored = false;
    primitive("compute_at").apply(state, d, index);
    stage.stored = true;
}

} // namespace

std::string not_inside(const ScheduleState &state, const std::string &name, const std::string &reader,
                       const std::string &loop) {
    const StageState &s = state.stage(name);
    const StageState *r = state.find(reader);
    if (!r) return "stage " + reader + " no longer exists";
    if (!r->has_loop(loop)) return "loop " + loop + " of stage " + reader + " no longer exists";
    const std::string kept = "loop " + s.placement.loop + " of " + s.placement.consumer;
    const StageState *host = state.find(s.placement.consumer);
    if (!host || !host->has_loop(s.placement.loop)) return kept + ", where " + name + " is stored, no longer exists";
    if (const std::string why = not_by_parts(state, s); !why.empty()) return why;
    if (r == host) return not_rolling(state, s, loop);
    if (s.def.kind == Stage::Kind::Padding) return name + " is padding, which a loop of its reader does not compute";
    const StageState &by = s.finished_by.empty() ? s : state.stage(s.finished_by);
    if (by.padded_split()) return "a split of " + by.name() + " pads its storage, which overwrites other parts";
    const auto readers = state.consumers(name);
    if (std::find(readers.begin(), readers.end(), reader) == readers.end()) return reader + " does not read " + name;
    if (r->computed || r->placement.kind != Placement::Kind::At || r->placement.consumer != s.placement.consumer ||
        r->placement.loop != s.placement.loop)
        return reader + " is not computed at " + kept + ", where " + name + " is stored";
    if (const std::string why = not_read_in_sequence(state, *r, s, loop); !why.empty()) return why;
    const Home place(state, s.placement);
    for (const std::string &other : readers) {
        const StageState &o = state.stage(other);
        if (&o == r) continue;
        if (o.online || o.buffers > 1 || waits_for_end(state, o) || o.def.kind == Stage::Kind::Padding)
            return other + ", which reads " + name + " too, is part of online, multi-buffered, or padding";
        if (const std::string why = place.too_early(o, *r); !why.empty())
            return other + ", which reads " + name + " too, " + why;
    }
    const std::vector<Expr> first = reads_of(state, *r, s)[0];
    for (size_t d = 0; d < s.def.axes.size(); d++) {
        const Axis &axis = s.def.axes[d];
        const auto computed = place.run_at(*r, first[d], axis);
        const bool all = computed && computed->count(Home::whole);
        for (const std::string &other : readers) {
            const StageState &o = state.stage(other);
            for (const auto &index : reads_of(state, o, s)) {
                if (&o == r || all) continue;
                const auto read = place.run_at(o, index[d], axis);
                if (!computed || !read ||
                    !std::includes(computed->begin(), computed->end(), read->begin(), read->end()))
                    return other + " may read more of " + name + " along " + axis.name() + " than " + reader + " does";
            }
        }
    }
    return "";
}

StageHandle &StageHandle::store_at(const std::string &consumer, LoopName loop, Place where) {
    return apply("store_at", {{"consumer", consumer}, {"loop", loop.name}}, where);
}

namespace {

Directive placing(const char *how, const StageState &stage, const StageState &in, const std::string &loop) {
    return {how, {{"stage", stage.name()}, {"consumer", in.name()}, {"loop", loop}}, {}};
}

// Stores a stage with several readers at a loop of the last one, and computes it part by part: the
// first reader at that loop, the stage too, then in the loops of the first.
void add_parts(const ScheduleState &state, const StageState &s, std::vector<Directive> &all) {
    const std::vector<std::string> readers = state.consumers(s.name());
    if (readers.size() < 2) return;
    const StageState &first = state.stage(readers.front()), &last = state.stage(readers.back());
    const StageState &host = last.finished_by.empty() ? last : state.stage(last.finished_by);
    if (s.stored) {
        for (const std::string &loop : first.order) all.push_back(placing("compute_at", s, first, loop));
    } else if (first.placement.consumer == host.name()) {
        all.push_back(placing("store_at", s, host, first.placement.loop));
    } else {
        for (const std::string &loop : host.order) all.push_back(placing("compute_at", first, host, loop));
    }
}

// Stores a stage at a loop of its last reader, or of the stage in which that is computed; then
// computes it at the loop directly inside.
void add_rings(const ScheduleState &state, const StageState &s, std::vector<Directive> &all) {
    const std::vector<std::string> readers = state.consumers(s.name());
    if (readers.empty()) return;
    const StageState &last = state.stage(readers.back());
    std::vector<std::string> hosts = {last.finished_by.empty() ? last.name() : last.finished_by};
    if (last.computed_at().kind == Placement::Kind::At) hosts.push_back(last.computed_at().consumer);
    if (s.stored && s.placement.kind == Placement::Kind::At) hosts = {s.placement.consumer};
    for (const std::string &name : hosts) {
        const StageState &host = state.stage(name);
        const bool kept = s.stored && host.has_loop(s.placement.loop);
        const size_t inside = kept ? host.position(s.placement.loop) + 1 : 0;
        for (size_t at = inside; at + (kept ? 0 : 1) < host.order.size() && (!kept || at == inside); at++)
            all.push_back(placing(kept ? "compute_at" : "store_at", s, host, host.order[at]));
    }
}

std::vector<Directive> to_parts_and_rings(const ScheduleState &state, const std::vector<Directive> &) {
    std::vector<Directive> all;
    for (const StageState &s : state.stages) {
        if (s.computed || state.op.is_output(s.name())) continue;
        add_parts(state, s, all);
        add_rings(state, s, all);
    }
    return all;
}

} // namespace

const Primitive &store_at_primitive() {
    static const Primitive record = {
        "store_at",
        "stages",
        "Stores a stage at a loop of a stage in which all its readers are computed. "
        "It is like compute_at, but a later compute_at may then name another loop. "
        "That may be a loop of the first reader, whose iterations compute the part that they read. "
        "Later readers use the stored values. "
        "Or it is a loop directly inside this one, whose iterations need overlapping parts along one axis. "
        "Each iteration then computes the planes that are new, in a circular buffer of the planes still read.",
        "The conditions of compute_at hold, and the stage is not a copy. "
        "Neither the stage nor its reader is part of online or tensorized. "
        "The stage is not in registers, and the reader is not part of finish_in. "
        "For compute_at at a loop of the first reader, the stage is not padding. "
        "That reader is computed at the loop where the stage is stored, before the other readers. "
        "It reads each element that they read, at one index made of its axes. "
        "Its loops down to that one are serial or unrolled. "
        "For compute_at at a loop directly inside, the stage is not a recurrence. "
        "The loop is serial or unrolled, not a reduction loop, not peeled, and its split divides. "
        "The part that it needs moves along exactly one axis, by the same step in each iteration. "
        "The stage's loop over that axis is neither split nor fused. "
        "Stages that the stage reads at that loop are stored in the same way.",
        {{"stage", ArgumentKind::Stage, "the stage"},
         {"consumer", ArgumentKind::Text, "the stage in whose loops it is stored"},
         {"loop", ArgumentKind::Text, "the loop of the consumer"}},
        apply_store_at,
        {"softmax",
         {{"compute_at", {{"stage", "total"}, {"consumer", "Y"}, {"loop", "i"}}, {}}},
         {"store_at", {{"stage", "e"}, {"consumer", "Y"}, {"loop", "i"}}, {}}},
        {.order = 20,
         .places = true,
         .ended_by = {"store_at", "compute_root", "inline_into"},
         .candidates = {{"consumer", readers_of_argument}, {"loop", consumer_loops}},
         .leading = to_parts_and_rings},
    };
    return record;
}

} // namespace kumiko
