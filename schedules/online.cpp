#include "schedules/online.h"

#include "dsl/print.h"
#include "dsl/reads.h"

namespace kumiko {

using namespace Halide::Internal;

bool follows(const StageState &s) { return s.online && s.online->anchor != s.name(); }

std::vector<const StageState *> followers(const ScheduleState &state, const std::string &anchor) {
    std::vector<const StageState *> all;
    for (const StageState &s : state.stages) {
        if (!follows(s) || s.online->anchor != anchor) continue;
        all.insert(s.online->max == s.name() ? all.begin() : all.end(), &s);
    }
    return all;
}

namespace {

bool contains(const std::vector<std::string> &all, const std::string &one) {
    return std::find(all.begin(), all.end(), one) != all.end();
}

const StageState *host_of(const ScheduleState &state, const StageState &s) {
    return s.finished_by.empty() ? &s : state.find(s.finished_by);
}

// A stage, its host, the host's host, and so on, each with the position of the loop.
struct Scope {
    const StageState *stage;
    size_t position = 0; // in the next host's order
};

std::vector<Scope> scopes_of(const ScheduleState &state, const StageState &stage) {
    std::vector<Scope> all = {{host_of(state, stage)}};
    for (;;) {
        const Placement &at = all.back().stage->placement;
        const StageState *next = at.kind == Placement::Kind::At ? state.find(at.consumer) : nullptr;
        if (!next || !next->has_loop(at.loop)) return all;
        all.back().position = next->position(at.loop);
        all.push_back({next});
    }
}

// The position at which the stage's code is emitted.
size_t turn(const ScheduleState &state, const StageState *s) {
    if (!s->finished_into.empty()) s = state.find(s->finished_into);
    return s - state.stages.data();
}

// Whether `s` comes after the anchor's last block wherever both are computed.
bool after(const ScheduleState &state, const StageState &s, const StageState &anchor) {
    const std::vector<Scope> a = scopes_of(state, anchor), x = scopes_of(state, s);
    for (size_t i = 0; i < a.size(); i++) {
        for (size_t j = 0; j < x.size(); j++) {
            if (a[i].stage != x[j].stage) continue;
            if (j == 0) return true; // the anchor is computed in its loops or finished in it
            // Runs at the end.
            if (i == 0) return x[j - 1].position < anchor.position(anchor.online->loop);
            if (x[j - 1].position != a[i - 1].position) return x[j - 1].position > a[i - 1].position;
            return turn(state, x[j - 1].stage) > turn(state, a[i - 1].stage);
        }
    }
    return turn(state, x.back().stage) > turn(state, a.back().stage);
}

// Whether a follower is stored outside the anchor's loop and around the anchor.
bool kept_around(const ScheduleState &state, const StageState &s, const StageState &anchor) {
    if (s.placement.kind == Placement::Kind::Root) return true;
    const std::vector<Scope> a = scopes_of(state, anchor);
    for (size_t i = 0; i < a.size(); i++) {
        if (a[i].stage->name() != s.placement.consumer) continue;
        const size_t at = a[i].stage->position(s.placement.loop);
        return i == 0 ? at < anchor.position(anchor.online->loop) : at <= a[i - 1].position;
    }
    return false;
}

// A loop around the blocks whose iterations run in parallel and would share the storage of `s`; ""
// if there is none.
std::string shared_by(const ScheduleState &state, const StageState &s, const StageState &anchor) {
    const std::vector<Scope> a = scopes_of(state, anchor);
    size_t end = anchor.position(anchor.online->loop);
    for (size_t i = 0; i < a.size(); i++) {
        const StageState &around = *a[i].stage;
        const bool keeps = s.placement.kind == Placement::Kind::At && s.placement.consumer == around.name();
        for (size_t l = keeps ? around.position(s.placement.loop) + 1 : 0; l < end; l++) {
            const std::string &loop = around.order[l];
            if (around.loop(loop).kind != LoopKind::Parallel && around.loop(loop).kind != LoopKind::Bound) continue;
            bool rows = i == 0;
            for (const std::string &axis : around.axes_of(loop)) {
                bool has = false;
                for (const Axis &x : s.def.axes) has = has || x.name() == axis;
                rows = rows && has;
            }
            for (const Relation &r : around.relations) {
                const auto *split = std::get_if<SplitRelation>(&r);
                rows = rows && !(split && split->tail == Tail::Shift);
            }
            if (!rows) return "loop " + loop + " of " + around.name();
        }
        if (keeps || i + 1 == a.size()) return "";
        end = a[i].position + 1;
    }
    return "";
}

} // namespace

bool is_in_block(const ScheduleState &state, const StageState &stage, const std::string &name) {
    const StageState &anchor = *state.find(name);
    const std::vector<Scope> scopes = scopes_of(state, stage);
    for (size_t i = 0; i + 1 < scopes.size(); i++) {
        if (scopes[i + 1].stage == &anchor) return scopes[i].position >= anchor.position(anchor.online->loop);
    }
    return false;
}

std::vector<std::string> dependent(const ScheduleState &state, const std::string &anchor) {
    std::vector<std::string> sources, all;
    for (const StageState *s : followers(state, anchor)) sources.push_back(s->name());
    for (size_t i = 0; i < sources.size(); i++) {
        for (const std::string &r : state.readers(sources[i])) {
            const StageState &s = state.stage(r);
            if (contains(sources, r) || r == anchor || follows(s)) continue;
            sources.push_back(r);
            all.push_back(r);
        }
    }
    const std::vector<std::string> inner = between(state, anchor);
    std::erase_if(all, [&](const std::string &s) { return contains(inner, s); });
    return all;
}

std::vector<std::string> between(const ScheduleState &state, const std::string &anchor) {
    std::vector<std::string> needed = {anchor}, all; // needed for a block
    for (const StageState *s : followers(state, anchor)) needed.push_back(s->name());
    for (size_t i = 0; i < needed.size(); i++) {
        for (const Expr &e : state.stage(needed[i]).def.expressions()) {
            for (const std::string &t : tensors_read(e)) {
                const StageState *p = state.producer(t);
                if (p && !contains(needed, p->name())) needed.push_back(p->name());
            }
        }
    }
    const StageState *max = followers(state, anchor).front();
    for (const std::string &n : needed) {
        const StageState &s = state.stage(n);
        if (n == anchor || follows(s)) continue;
        bool uses = false;
        for (const Expr &e : s.def.expressions()) uses = uses || depends_on(state, e, max->name());
        if (uses) all.push_back(n);
    }
    return all;
}

bool waits_for_end(const ScheduleState &state, const StageState &stage) {
    const StageState *at = stage.placement.kind == Placement::Kind::At ? state.find(stage.placement.consumer) : nullptr;
    if (!at || !at->online || follows(*at) || follows(stage)) return false;
    return at->position(stage.placement.loop) < at->position(at->online->loop) &&
           contains(dependent(state, at->name()), stage.name());
}

namespace {

// A stage that reads rows of block-local values at an index that is not an axis of its own; "" if
// there is none. The maximum of a block is stored only for the rows of that block.
std::string other_rows(const ScheduleState &state, const std::string &anchor) {
    const StageState &max = *followers(state, anchor).front();
    const std::vector<std::string> inner = between(state, anchor);
    std::vector<std::string> order = {max.name()};
    // Axes along which a stage has rows of the maximum.
    std::map<std::string, std::set<std::string>> rows;
    for (const Axis &a : max.def.axes) rows[max.name()].insert(a.name());
    for (size_t i = 0; i < order.size(); i++) {
        const StageState &from = state.stage(order[i]);
        for (const StageState &reader : state.stages) {
            if (reader.name() != anchor && !contains(inner, reader.name())) continue;
            for (const Expr &e : reader.def.expressions()) {
                for (const Call *read : tensor_reads(e)) {
                    if (read->name != from.name()) continue;
                    for (size_t d = 0; d < read->args.size(); d++) {
                        if (!rows[from.name()].count(from.def.axes[d].name())) continue;
                        const auto *axis = read->args[d].as<Variable>();
                        if (!axis && !is_const(read->args[d]))
                            return reader.name() + " reads " + from.name() + " at " + to_string(read->args[d]) +
                                   ", which is not one of its axes";
                        if (axis) rows[reader.name()].insert(axis->name);
                    }
                    if (reader.name() != anchor && !contains(order, reader.name())) order.push_back(reader.name());
                }
            }
        }
    }
    return "";
}

} // namespace

std::string broken_online(const ScheduleState &state, const std::string &name) {
    const StageState &anchor = *state.find(name);
    const std::string &loop = anchor.online->loop;
    if (!anchor.has_loop(loop)) return "loop " + loop + " of stage " + name + " no longer exists";
    // The obligation of its own placement may be checked later.
    for (const StageState &s : state.stages) {
        if (!s.finished_into.empty()) continue;
        const StageState *host = s.placement.kind == Placement::Kind::At ? state.find(s.placement.consumer) : nullptr;
        if (host && !host->has_loop(s.placement.loop))
            return "loop " + s.placement.loop + " of stage " + host->name() + " no longer exists";
    }
    const std::string blocks = "the blocks of loop " + loop + " of " + name;
    if (anchor.loop(loop).kind != LoopKind::Serial)
        return "loop " + loop + " is " + kind_name(anchor.loop(loop).kind) +
               ", but each block depends on the previous one";
    if (anchor.order[anchor.first_reduction()] != loop)
        return "reduction loop " + anchor.order[anchor.first_reduction()] + " is outside of loop " + loop +
               ", so its iterations are not consecutive blocks";
    if (anchor.part) return name + " is divided by region";
    for (const StageState *s : followers(state, name)) {
        const std::string axis = s->def.reduction_axes[0].name(), who = s->name() + ", which is updated in " + blocks;
        const bool plain = s->def.reduction_axes.size() == 1 && s->has_loop(axis) &&
                           s->loop(axis).kind == LoopKind::Serial && !s->accumulate && s->peels.empty() &&
                           !s->tensorize && s->finished_into.empty() && !s->part && s->buffers == 1;
        if (!plain) return who + ", has no loops to schedule: schedule " + s->name() + ".block";
        for (const StageState &p : state.stages) {
            if (p.placement.kind == Placement::Kind::At && p.placement.consumer == s->name())
                return p.name() + " is computed at a loop of " + who;
        }
        if (!kept_around(state, *s, anchor))
            return who +
                   ", is stored inside of the blocks, but the next block needs it; compute it at a loop outside of " +
                   loop + ", or at the root";
        if (const std::string l = shared_by(state, *s, anchor); !l.empty())
            return l + ", whose iterations run in parallel, is between " + blocks + " and " + s->name() +
                   ", which is stored outside of it; compute " + s->name() + " inside that loop";
    }
    // Multi-buffered stages in the block that read a follower.
    for (const StageState &s : state.stages) {
        if (s.buffers == 1 || s.placement.kind == Placement::Kind::Inline || !is_in_block(state, s, name)) continue;
        for (const StageState *f : followers(state, name)) {
            const auto &e = s.def.value;
            bool reads = e.defined() && depends_on(state, e, f->name());
            for (const Component &c : s.def.components) reads = reads || depends_on(state, c.term, f->name());
            if (reads)
                return s.name() + " is filled before its block, when " + f->name() +
                       ", which it reads, is not computed yet";
        }
    }
    if (const std::string why = other_rows(state, name); !why.empty())
        return why + ", so the element may not belong to " + blocks;
    const std::vector<std::string> inner = between(state, name);
    for (const std::string &b : inner) {
        const StageState &s = *state.find(b);
        if (s.placement.kind != Placement::Kind::Inline && !is_in_block(state, s, name))
            return b + " uses the maximum of a block, so it is computed at loop " + loop + " of " + name +
                   " or deeper, or inlined";
    }
    for (const StageState *s : followers(state, name)) {
        for (const std::string &r : state.consumers(s->name())) {
            const StageState &reader = *state.find(r);
            if (r == name || follows(reader) || contains(inner, r)) continue;
            if (!after(state, reader, anchor))
                return r + ", which reads " + s->name() + ", is computed before " + blocks + " are complete";
        }
    }
    return "";
}

} // namespace kumiko
