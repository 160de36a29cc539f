#include "schedules/shared_loops.h"

#include "dsl/bounded.h"
#include "dsl/halide_passes.h"
#include "dsl/print.h"
#include "dsl/reads.h"
#include "schedules/online.h"
#include "schedules/parts.h"
#include "schedules/rounds.h"
#include "schedules/traits.h"
#include "support/error.h"

namespace kumiko {

using namespace Halide::Internal;

const StageState &head_of(const ScheduleState &state, const StageState &s) {
    return s.finished_into.empty() ? s : state.stage(s.finished_into);
}

const StageState &loops_of(const ScheduleState &state, const StageState &s) {
    return s.finished_by.empty() ? s : state.stage(s.finished_by);
}

const StageState &leader_of(const ScheduleState &state, const StageState &s) {
    if (!s.finished_into.empty()) return s; // runs at its consumer
    const StageState &loops = loops_of(state, s);
    return loops.shared ? head_of(state, state.stage(loops.shared->stage)) : s;
}

bool one_loop(const ScheduleState &state, const std::string &a, const std::string &b, const std::string &loop) {
    const auto holder = [&](const std::string &name) { // the stage that owns this loop
        const StageState *s = state.find(name);
        if (!s || !s->has_loop(loop) || !s->shared || !s->has_loop(s->shared->loop)) return name;
        return s->position(loop) <= s->position(s->shared->loop) ? s->shared->stage : name;
    };
    return holder(a) == holder(b);
}

bool runs_beside(const ScheduleState &state, const std::string &stage, const std::string &leader,
                 const std::string &loop) {
    const StageState *s = state.find(stage), *a = state.find(leader);
    return s && a && s->shared && s->shared->stage == leader && s->has_loop(loop) && a->has_loop(loop) &&
           one_loop(state, stage, leader, loop);
}

bool computed_beside(const ScheduleState &state, const std::string &stage, const std::string &leader,
                     const std::string &loop) {
    const StageState *l = state.find(leader);
    for (const StageState *s = state.find(stage); l && s;) {
        const StageState &runs = loops_of(state, *s);
        if (runs_beside(state, runs.name(), leader, loop)) {
            const bool inside = &runs == s || runs.position(loop) < loops_around_end(state, runs);
            return inside && runs.placement.consumer == l->placement.consumer;
        }
        const Placement &at = runs.computed_at();
        s = at.kind == Placement::Kind::At && !follows(runs) ? state.find(at.consumer) : nullptr;
        if (!s || !s->has_loop(at.loop)) return false;
        if (runs_beside(state, s->name(), leader, loop) && s->position(at.loop) < s->position(loop)) return false;
    }
    return false;
}

namespace {

// Whether `s` is computed in the loops of `host`. Inlined stages count, because they are computed
// at their readers.
bool runs_in(const ScheduleState &state, const StageState &s, const StageState &host) {
    if (&s == &host || s.placement.kind == Placement::Kind::Inline) return true;
    if (follows(s)) return s.online->anchor == host.name();
    return s.placement.kind == Placement::Kind::At && runs_in(state, state.stage(s.placement.consumer), host);
}

// The stages that must come before `s`: those that it reads, and their hosts. A common host of both
// is excluded.
std::set<std::string> before(const ScheduleState &state, const StageState &s) {
    std::set<std::string> names;
    for (const Expr &e : s.def.expressions()) {
        for (const Call *read : tensor_reads(e)) {
            const StageState *p = state.producer(read->name);
            if (!p || p == &s) continue;
            names.insert(p->name());
            const auto after = [&](const std::string &host, const std::string &loop) {
                if (!runs_in(state, loops_of(state, s), state.stage(host)) &&
                    !computed_beside(state, s.name(), host, loop))
                    names.insert(head_of(state, state.stage(host)).name());
            };
            if (follows(*p)) after(p->online->anchor, p->online->loop);
            // All enclosing hosts.
            for (const StageState *at = p; at->computed_at().kind == Placement::Kind::At;) {
                after(at->computed_at().consumer, at->computed_at().loop);
                at = &loops_of(state, state.stage(at->computed_at().consumer));
            }
            for (const StageState *part : regions_of(state, p->name())) names.insert(part->name());
        }
    }
    if (s.part) names.insert(s.part->of); // it stores this part
    return names;
}

using Groups = std::map<std::string, std::vector<const StageState *>>; // by the leader's head

Groups groups_of(const ScheduleState &state) {
    Groups all;
    for (const StageState &s : state.stages) all[leader_of(state, s).name()].push_back(&s);
    return all;
}

// A stage of the group that must be complete before another stage of the group starts; "" if there
// is none.
std::string needed_whole(const ScheduleState &state, const std::set<std::string> &group) {
    const Groups groups = groups_of(state);
    std::set<std::string> seen = group;
    std::vector<std::string> open(group.begin(), group.end());
    while (!open.empty()) {
        const StageState &s = state.stage(open.back());
        open.pop_back();
        std::vector<const StageState *> runs = {&s};
        if (!group.count(s.name())) runs = groups.at(leader_of(state, s).name());
        for (const StageState *one : runs) {
            for (const std::string &name : before(state, *one)) {
                if (group.count(name)) return name;
                if (seen.insert(name).second) open.push_back(name);
            }
        }
    }
    return "";
}

bool alike(const Relation &a, const Relation &b) {
    if (const auto *x = std::get_if<SplitRelation>(&a)) {
        const auto *y = std::get_if<SplitRelation>(&b);
        return y && x->parent == y->parent && x->outer == y->outer && x->inner == y->inner && x->factor == y->factor &&
               x->tail == y->tail;
    }
    const auto &x = std::get<FuseRelation>(a);
    const auto *y = std::get_if<FuseRelation>(&b);
    return y && x.outer == y->outer && x.inner == y->inner && x.fused == y->fused;
}

bool makes(const Relation &r, const std::string &loop) {
    if (const auto *split = std::get_if<SplitRelation>(&r)) return split->outer == loop || split->inner == loop;
    return std::get<FuseRelation>(r).fused == loop;
}

// The splits and fuses that produced the first `depth` loops. A split with a masked or shifted tail
// is left out if its outer loop is an axis of `other` and its inner loop is not among them: the
// outer loop then runs in full in both stages.
std::vector<Relation> relations_of(const StageState &s, size_t depth, const StageState &other) {
    const auto comes_from = [&](const std::string &made) {
        return std::any_of(s.order.begin(), s.order.begin() + static_cast<std::ptrdiff_t>(depth),
                           [&](const std::string &l) { return s.derived_from(l, made); });
    };
    std::vector<Relation> all;
    for (const Relation &r : s.relations) {
        const auto *split = std::get_if<SplitRelation>(&r);
        const bool whole = split && (split->tail == Tail::Mask || split->tail == Tail::Shift) &&
                           !comes_from(split->inner) && other.find_loop(split->outer) &&
                           std::none_of(other.relations.begin(), other.relations.end(),
                                        [&](const Relation &o) { return makes(o, split->outer); });
        if (!whole && comes_from(split ? split->parent : std::get<FuseRelation>(r).fused)) all.push_back(r);
    }
    return all;
}

std::string of(const std::string &loop, const StageState &s) { return "loop " + loop + " of " + s.name(); }

bool bounds_differ(const StageState &a, const StageState &b) {
    const std::vector<Expr> ours = term_bounds(a.def), theirs = term_bounds(b.def);
    return !std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
                       [](const Expr &x, const Expr &y) { return equal(x, y); });
}

// Why the first `depth` loops of the two stages differ.
std::string loops_differ(const StageState &a, const StageState &b, size_t depth) {
    if (b.order.size() < depth) return "stage " + b.name() + " has fewer loops";
    for (size_t i = 0; i < depth; i++) {
        const LoopState &x = a.loop(a.order[i]), &y = b.loop(b.order[i]);
        if (x.name != y.name)
            return of(y.name, b) + " is where " + a.name() + " has loop " + x.name + "; both need the same names";
        if (x.kind != y.kind)
            return of(y.name, b) + " is " + kind_name(y.kind) + ", that of " + a.name() + " is " + kind_name(x.kind);
        const StageState &reduces = x.reduction ? a : b;
        if (x.reduction != y.reduction && !term_bounds(reduces.def).empty())
            return of(x.name, reduces) + " excludes terms, that of " + (x.reduction ? b : a).name() + " does not";
        if (x.reduction && y.reduction && bounds_differ(a, b))
            return of(y.name, b) + " excludes other terms than that of " + a.name();
        if (x.reduction && !term_bounds(a.def).empty() && (depth < a.order.size() || depth < b.order.size()))
            return of(y.name, b) + " excludes terms by the inner loops too; share all loops";
        if (!can_prove(x.extent == y.extent))
            return of(y.name, b) + " has " + to_string(y.extent) + " iterations, that of " + a.name() + " has " +
                   to_string(x.extent);
    }
    for (const LoopState &l : b.loops) { // horizontal reductions identify lanes by loop name
        const LoopState *same = a.find_loop(l.name);
        if (same && same->reduction != l.reduction &&
            (same->kind == LoopKind::Vectorized || l.kind == LoopKind::Vectorized))
            return of(l.name, b) + " has the name of one of " + a.name() +
                   "; one is vectorized, and only one is a reduction";
    }
    const std::vector<Relation> ours = relations_of(a, depth, b), theirs = relations_of(b, depth, a);
    if (!std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), alike))
        return "the loops of " + b.name() + " are split or fused differently from those of " + a.name();
    for (const Relation &r : ours) {
        const auto *split = std::get_if<SplitRelation>(&r);
        if (!split || can_prove(a.loop(split->parent).extent % static_cast<int>(split->factor) == 0)) continue;
        // The last block is partial: both stages must treat it the same way.
        for (size_t i = depth; i < a.order.size(); i++) {
            if (a.derived_from(a.order[i], split->inner))
                return of(a.order[i], a) + " comes from a split that does not divide; share it too";
        }
    }
    for (size_t i = 0; i < depth; i++) {
        const auto peeled = [&](const StageState &s) {
            std::vector<std::pair<int64_t, int64_t>> all;
            for (const Peel &p : s.peels) {
                if (p.loop == a.order[i]) all.emplace_back(p.first, p.last);
            }
            return all;
        };
        if (peeled(a) != peeled(b)) return of(a.order[i], a) + " is peeled differently from that of " + b.name();
    }
    return "";
}

// Why a stage cannot share loops with any other; "" if it can.
std::string alone(const ScheduleState &state, const StageState &s) {
    if (const Exclusion why = excluded(state, s, Trait::SharesLoops)) return why.reason;
    if (waits_for_end(state, s)) return "stage " + s.name() + " is computed online";
    for (const Stage &stage : state.op.stages()) {
        if (!stage.updates.empty()) return "tensor " + stage.updates + " is updated in place";
    }
    return "";
}

std::string place_text(const StageState &s) {
    if (s.placement.kind == Placement::Kind::Root) return s.name() + " at the root";
    return s.name() + " at loop " + s.placement.loop + " of " + s.placement.consumer;
}

// The directive that places a stage there.
std::string placing_call(const Placement &place) {
    if (place.kind == Placement::Kind::Root) return "compute_root()";
    return "compute_at(\"" + place.consumer + "\", \"" + place.loop + "\")";
}

bool at_one_place(const ScheduleState &state, const Placement &a, const Placement &b) {
    if (a.kind != b.kind) return false;
    return a.kind != Placement::Kind::At || (a.loop == b.loop && one_loop(state, a.consumer, b.consumer, a.loop));
}

} // namespace

std::vector<const StageState *> sharing_loops(const ScheduleState &state, const std::string &leader) {
    std::vector<const StageState *> all;
    for (const StageState &s : state.stages) {
        if (s.shared && s.shared->stage == leader) all.push_back(&s);
    }
    return all;
}

std::optional<LoopConflict> loop_conflict(const ScheduleState &state, const std::string &name,
                                          const std::string &leader, const std::string &loop) {
    const StageState *s = state.find(name), *a = state.find(leader);
    if (!s || !a) return LoopConflict{"stage " + (s ? leader : name) + " is gone"};
    if (s == a) return LoopConflict{"a stage runs in its own loops"};
    for (const StageState *one : {a, s}) {
        if (const std::string why = alone(state, *one); !why.empty()) return LoopConflict{why};
    }
    if (a->shared) return LoopConflict{leader + " runs in the loops of " + a->shared->stage + "; name that stage"};
    if (!sharing_loops(state, name).empty())
        return LoopConflict{sharing_loops(state, name)[0]->name() + " runs in the loops of " + name};
    const StageState &head = head_of(state, *s), &first = head_of(state, *a);
    std::set<std::string> group = {first.name()};
    for (const StageState *other : sharing_loops(state, leader)) group.insert(head_of(state, *other).name());
    group.insert(head.name());
    if (const std::string whole = needed_whole(state, group); !whole.empty())
        return LoopConflict{"all of " + whole + " must be complete before another stage of these loops begins"};
    if (!a->has_loop(loop)) return LoopConflict{"loop " + loop + " of stage " + leader + " no longer exists"};
    if (!at_one_place(state, s->placement, a->placement))
        return LoopConflict{"stages " + name + " and " + leader + " are computed at different places, " +
                                place_text(*s) + " and " + place_text(*a) + "; " + placing_call(a->placement) + " of " +
                                name + " or " + placing_call(s->placement) + " of " + leader + " makes them equal",
                            false};
    if (const std::string why = loops_differ(*a, *s, a->position(loop) + 1); !why.empty())
        return LoopConflict{why, false};
    return std::nullopt;
}

void order_by_groups(ScheduleState &state) {
    const auto shares = [](const StageState &s) { return s.shared.has_value(); };
    if (std::none_of(state.stages.begin(), state.stages.end(), shares)) return;
    const Groups groups = groups_of(state);
    std::vector<StageState> order;
    std::set<std::string> done;
    while (order.size() < state.stages.size()) {
        const size_t so_far = order.size();
        for (const StageState &s : state.stages) {
            if (done.count(s.name())) continue;
            const auto &group = groups.at(leader_of(state, s).name());
            const auto ready = [&](const StageState *member) {
                const std::set<std::string> names = before(state, *member);
                return std::all_of(names.begin(), names.end(), [&](const std::string &n) {
                    return done.count(n) ||
                           std::any_of(group.begin(), group.end(), [&](const StageState *m) { return m->name() == n; });
                });
            };
            if (!std::all_of(group.begin(), group.end(), ready)) continue;
            for (const StageState *member : group) {
                order.push_back(*member);
                done.insert(member->name());
            }
            break;
        }
        if (order.size() == so_far) throw InternalError("stages that share loops need each other");
    }
    state.stages = std::move(order);
}

} // namespace kumiko
