// Stages stored in a ring buffer of planes (schedules/rolling.h). Iteration m of the host's loop M
// needs of each such stage the indices [b + s m, b + s m + w) of one axis. It computes the last s
// of them into a ring with as many planes as are read by the host and by what iteration m newly
// computes. A warm-up loop with negative m precedes M; it computes nothing else, and each stage
// begins at its first plane in it, so that M's own body is the same for all iterations.
#include "dsl/print.h"
#include "dsl/reads.h"
#include "schedules/rolling.h"
#include "support/error.h"
#include "targets/lower/nest_loop_builder.h"

namespace kumiko {

using namespace Halide::Internal;

namespace {

// slope_of under ranges of variables.
std::optional<int64_t> slope_within(const Expr &e, const std::string &variable, const Bounds &bounds) {
    if (!expr_uses_var(e, variable)) return 0;
    return as_const_int(simplify_index(difference_along(e, variable), bounds));
}

// The clamped padding through which axis d of the stage is read, directly or via inlined stages;
// null if there is none.
const StageState *clamped_reader(const ScheduleState &state, const std::string &stage, size_t d) {
    for (const std::string &name : state.readers(stage)) {
        const StageState &reader = state.stage(name);
        if (reader.def.kind == Stage::Kind::Padding) {
            for (const Call *read : tensor_reads(reader.def.value)) {
                if (read->name == stage && !read->args[d].as<Variable>()) return &reader;
            }
        }
        if (reader.placement.kind != Placement::Kind::Inline) continue;
        if (const StageState *found = clamped_reader(state, name, d)) return found;
    }
    return nullptr;
}

} // namespace

// Finds what iterations of the loop inside the one at `depth` need of the stages stored here and
// computed there. Readers come first.
void NestLoopBuilder::plan_rolling(const Frame &f, size_t depth) {
    const StageState &host = f.stage();
    std::vector<const StageState *> all;
    for (const StageState &p : state_.stages) {
        if (!rolls(p) || p.placement.consumer != host.name() || p.placement.loop != host.order[depth]) continue;
        rolling_.erase(p.name());
        all.push_back(&p);
    }
    if (all.empty()) return;
    const std::string &loop = host.order[depth + 1], variable = f.prefix() + loop;
    const auto refuse = [&](const StageState &p, const std::string &why) {
        throw UserError("stage " + p.name() + " is computed at loop " + loop + " of " + host.name() + " and kept at " +
                        host.order[depth] + ", but " + why + "; compute_at(\"" + host.name() + "\", \"" +
                        host.order[depth] + "\") computes it where it is kept");
    };
    if (is_const_one(f.extent(loop))) return; // a single iteration needs everything stored
    for (const Relation &r : host.relations) {
        const auto *split = std::get_if<SplitRelation>(&r);
        if (split && split->outer == loop &&
            !proves(f.extent(split->parent) % static_cast<int>(split->factor) == 0, bounds_))
            refuse(*all[0], "that loop's last block is smaller: " + std::to_string(split->factor) +
                                " does not divide " + split->parent);
    }
    std::set<std::string> planned;
    bounds_.push(variable, Interval(0, simplify(f.extent(loop) - 1)));
    for (size_t n = all.size(); n-- > 0;) {
        const StageState &p = *all[n];
        const std::optional<Region> ever = needed(p, f, depth + 2);
        if (!ever) continue;
        newest_of_ = &planned;
        const Region now = *needed(p, f, depth + 2);
        newest_of_ = nullptr;
        Rolling r;
        std::string moving;
        for (size_t d = 0; d < ever->min.size(); d++) {
            if (!expr_uses_var(ever->min[d], variable) && !expr_uses_var(ever->end(d), variable)) continue;
            const std::string &axis = p.def.axes[d].name();
            if (!moving.empty())
                refuse(p, "the region that iterations need moves along " + moving + " and " + axis +
                              "; one axis may move");
            moving = axis, r.axis = d;
        }
        if (moving.empty()) refuse(p, "all iterations need the same region");
        const Expr end = ever->end(r.axis), first = ever->min[r.axis];
        const auto step = slope_within(end, variable, bounds_), of_first = slope_within(first, variable, bounds_),
                   of_now = slope_within(now.min[r.axis], variable, bounds_);
        const auto width = as_const_int(simplify_index(end - first, bounds_)),
                   planes = as_const_int(simplify_index(end - now.min[r.axis], bounds_));
        if (!step || *step < 1 || of_first != step || of_now != step || !width || !planes) {
            const std::string legal = "the region that iterations need along " + moving +
                                      " must move forward by a constant step and keep its size";
            const StageState *clamped = clamped_reader(state_, p.name(), r.axis);
            if (!clamped)
                refuse(p, legal + ", and iteration " + loop + " needs [" +
                              to_string(substitute(variable, Variable::make(Int(32), loop), first)) + ", " +
                              to_string(substitute(variable, Variable::make(Int(32), loop), end)) + ")");
            refuse(p, legal + ", and " + clamped->name() + " clamps the index of " + moving +
                          ", so that iterations at the ends need the same elements again" +
                          (p.def.kind == Stage::Kind::Pointwise
                               ? "; inline_into() of " + p.name() + " lets " + clamped->name() + " be kept in its place"
                               : ""));
        }
        for (const std::string &l : loops_of(p).order) {
            if (l != moving && loops_of(p).derived_from(l, moving))
                refuse(p, "its loop " + moving + " is split or fused, so that planes are not computed one by one");
        }
        r.step = std::min(*step, *width);
        r.planes = std::max(*planes, r.step);
        r.first = simplify_index(substitute(variable, 0, first), bounds_);
        int64_t before = *width; // the loop's end
        if (const auto n = as_const_int(r.first); n && *n < 0 && !read_beyond(p, r.axis)) before += *n, r.first = 0;
        r.ahead = (std::max<int64_t>(before - *step, 0) + *step - 1) / *step;
        rolling_[p.name()] = r;
        planned.insert(p.name());
    }
    bounds_.pop(variable);
}

// The planes needed by one iteration that no earlier one has computed.
Region NestReads::newest(const Rolling &r, Region needed) const {
    const Expr end = needed.end(r.axis);
    needed.min[r.axis] = simplify_index(max(end - static_cast<int>(r.step), r.first), bounds_);
    needed.extent[r.axis] = simplify_index(max(end - needed.min[r.axis], 0), bounds_);
    return needed;
}

// Warm-up iterations of the loop at `depth`, for the planes that its first iteration does not
// compute.
Stmt NestLoopBuilder::warm_up(const Frame &f, size_t depth) {
    const StageState &host = f.stage();
    int64_t ahead = 0;
    for (const auto &[name, r] : rolling_) {
        const StageState &p = state_.stage(name);
        if (p.computed->consumer == host.name() && p.computed->loop == host.order[depth])
            ahead = std::max(ahead, r.ahead);
    }
    if (ahead == 0) return Evaluate::make(0);
    Frame g = f;
    Walk w;
    w.stop = depth + 1;
    w.leaf = [](Frame &) { return Evaluate::make(0); };
    const StageState *const outer = std::exchange(warming_up_, &host);
    const Stmt loop = one_loop(g, depth, w, static_cast<int>(-ahead), static_cast<int>(ahead));
    warming_up_ = outer;
    return loop;
}

} // namespace kumiko
