// Constraints of inout tensors on a schedule (dsl/inout.h): every element is read before it is
// overwritten, and overwritten once.
//
// Stages that read the tensor are either complete before the update starts, or computed row by row
// inside it: at a loop of the update at which the axes of all loops so far have a single value, and
// only elements at these values are read. The update itself reads the element that it writes.
#include "dsl/print.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "schedules/primitives/steps.h"

namespace kumiko {

using namespace Halide::Internal;

Expr with_inlined(const ScheduleState &state, const Expr &e) {
    return map_reads(e, [&](const Call *read, const Expr &e) {
        const StageState *s = state.find(read->name);
        if (!s || s->placement.kind != Placement::Kind::Inline) return e;
        return at_indices(with_inlined(state, s->def.value), s->def.axes, read->args);
    });
}

std::vector<Expr> reads_with_inlined(const ScheduleState &state, const StageState &reader,
                                     const std::set<std::string> &tensors) {
    std::vector<Expr> all;
    for (const Expr &e : reader.def.expressions()) all.push_back(with_inlined(state, e));
    const std::vector<const Call *> reads = reads_of_tensors(all, tensors);
    return {reads.begin(), reads.end()};
}

namespace {

// The update of one inout tensor in a schedule.
class Update {
public:
    Update(const ScheduleState &state, const Stage &update) : state_(state), update_(update) {}

    std::string broken() const {
        for (const StageState &s : state_.stages) {
            if (s.placement.kind == Placement::Kind::Inline || s.prepacked) continue;
            const auto reads = reads_with_inlined(state_, s, {update_.updates});
            if (is_update(s)) {
                for (const Expr &read : reads) {
                    if (!own_element(read))
                        return s.name() + " would read " + to_string(read) +
                               ", which it may have overwritten already\n" + "  legal here: " + update_.updates +
                               " at the element that it writes; compute other " +
                               "reads of it in a stage with compute_root()";
                }
                if (shifts(s)) return twice(s);
                if (const StageState *host = host_of(s); host != &s && shifts(*host)) return twice(*host);
            } else if (!reads.empty() && !before(s) && !row_by_row(s, reads)) {
                return s.name() + " would read " + update_.updates + " where " + update_.name +
                       " has overwritten elements of it already\n  legal here: compute_root() of " + s.name() +
                       ", or a loop of " + update_.name +
                       " each of whose iterations reads only the elements that it overwrites";
            }
        }
        return "";
    }

private:
    const ScheduleState &state_;
    const Stage &update_;

    bool is_update(const StageState &s) const { return s.tensor() == update_.name; }

    bool own_element(const Expr &read) const { return reads_at(read.as<Call>(), update_.axes); }

    static bool shifts(const StageState &s) {
        return std::any_of(s.relations.begin(), s.relations.end(), [](const Relation &r) {
            const auto *split = std::get_if<SplitRelation>(&r);
            return split && split->tail == Tail::Shift;
        });
    }
    std::string twice(const StageState &s) const {
        return "the tail of " + s.name() + " shifts inwards and would compute elements of " + update_.updates +
               " again, from what has replaced them\n  legal here: the tails guard and mask";
    }

    // The stage at the root in whose loops a stage is computed.
    const StageState *host_of(const StageState &s) const {
        const StageState *at = &s;
        for (;;) {
            if (!at->finished_by.empty())
                at = state_.find(at->finished_by);
            else if (at->placement.kind == Placement::Kind::At)
                at = state_.find(at->placement.consumer);
            else
                return at;
        }
    }

    size_t position(const StageState *s) const { return static_cast<size_t>(s - state_.stages.data()); }

    // Whether the whole stage is computed before the update starts.
    bool before(const StageState &s) const {
        const StageState *host = host_of(s);
        for (const StageState &u : state_.stages) {
            if (is_update(u) && position(host_of(u)) <= position(host)) return false;
        }
        return true;
    }

    // The axis of the update that always has the same value as an axis of `s` where s is read, if
    // there is one.
    std::optional<size_t> follows(const StageState &s, const std::string &axis) const {
        if (is_update(s)) {
            for (size_t d = 0; d < update_.axes.size(); d++) {
                if (update_.axes[d].name() == axis) return d;
            }
            return std::nullopt;
        }
        size_t own = 0;
        while (own < s.def.axes.size() && s.def.axes[own].name() != axis) own++;
        if (own == s.def.axes.size()) return std::nullopt; // it is a reduction axis
        std::set<std::string> tensors = {s.name()};
        for (const Component &c : s.def.components) tensors.insert(c.tensor);
        std::optional<size_t> all;
        for (const StageState &reader : state_.stages) {
            if (reader.placement.kind == Placement::Kind::Inline || &reader == &s) continue;
            for (const Expr &read : reads_with_inlined(state_, reader, tensors)) {
                const auto *v = read.as<Call>()->args[own].as<Variable>();
                const auto d = v ? follows(reader, v->name) : std::nullopt;
                if (!d || (all && *all != *d)) return std::nullopt;
                all = d;
            }
        }
        return all;
    }

    // Whether it is computed at a loop of the update at which an axis has one value, and only that
    // value is read.
    bool row_by_row(const StageState &s, const std::vector<Expr> &reads) const {
        const StageState *at = &s;
        while (at->finished_by.empty() && at->placement.kind == Placement::Kind::At) {
            const StageState *consumer = state_.find(at->placement.consumer);
            if (is_update(*consumer)) return pinned_reads(s, reads, *consumer, at->placement.loop);
            at = consumer;
        }
        return false;
    }

    bool pinned_reads(const StageState &s, const std::vector<Expr> &reads, const StageState &update,
                      const std::string &loop) const {
        if (!update.finished_by.empty()) return false;
        const size_t at = update.position(loop);
        const auto derived = [&](size_t l, size_t d) {
            return update.derived_from(update.order[l], update_.axes[d].name());
        };
        bool any = false;
        for (size_t d = 0; d < update_.axes.size(); d++) {
            bool one = true; // whether the axis has one value inside the loop and only it is read
            for (size_t l = at + 1; l < update.order.size(); l++) one = one && !derived(l, d);
            for (const Expr &read : reads) {
                const auto *v = read.as<Call>()->args[d].as<Variable>();
                one = one && v && follows(s, v->name) == d;
            }
            any = any || one;
            // Otherwise no later iteration may return to these values.
            for (size_t l = 0; l <= at && !one; l++) {
                if (derived(l, d)) return false;
            }
        }
        return any;
    }
};

} // namespace

std::string broken_inout(const ScheduleState &state) {
    for (const Stage &s : state.op.stages()) {
        if (s.updates.empty()) continue;
        if (const std::string why = Update(state, s).broken(); !why.empty()) return why;
    }
    return "";
}

} // namespace kumiko
