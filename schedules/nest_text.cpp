#include "schedules/nest_text.h"

#include "dsl/extern.h"
#include "dsl/print.h"
#include "dsl/scatter.h"
#include "schedules/online.h"
#include "schedules/parts.h"
#include "schedules/rolling.h"
#include "schedules/shared_loops.h"
#include "support/error.h"

#include <sstream>

namespace kumiko {

namespace {

std::string expr_text(const Expr &e) {
    const std::string text = to_string(e);
    return text.find(' ') == std::string::npos ? text : "(" + text + ")";
}

std::string loop_text(const StageState &s, const std::string &name) {
    const LoopState &l = s.loop(name);
    std::string text = l.kind == LoopKind::Serial ? "for " : std::string(kind_name(l.kind)) + " ";
    text += name + " in 0.." + expr_text(l.extent);
    if (l.kind == LoopKind::Bound) text += " over " + l.unit;
    if (l.reduction) text += " (reduction)";
    if (const auto at = scattered(s.def); at && s.scattered == name)
        text += " (each step: " + to_string(at->index) + ")";
    for (const Relation &r : s.relations) {
        if (const auto *split = std::get_if<SplitRelation>(&r);
            split && split->inner == name && split->tail != Tail::Auto) {
            text += std::string(" [tail: ") + tail_name(split->tail) + "]";
        }
    }
    return text;
}

std::string part_text(const Part &p) {
    return p.axis + " in " + std::to_string(p.first) + ".." + std::to_string(p.first + p.count);
}

class Printer {
public:
    explicit Printer(const ScheduleState &state) : state_(state) {}

    std::string run() {
        for (const StageState &s : state_.stages) {
            const StageState *r = run_at(s);
            if (r && r->placement.kind == Placement::Kind::Root) stage(*r, 0);
            if (s.placement.kind == Placement::Kind::Inline) line(0, "inline " + s.name());
        }
        return out_.str();
    }

private:
    const ScheduleState &state_;
    std::ostringstream out_;

    void line(int depth, const std::string &text) { out_ << std::string(2 * depth, ' ') << text << "\n"; }

    // The stage whose loops run at the position of `s`. Null if they run elsewhere: a reduction
    // runs at the consumer that is finished in it, and a stage of a shared nest runs at its leader.
    const StageState *run_at(const StageState &s) const {
        if (!s.finished_into.empty()) return nullptr;
        const StageState &loops = loops_of(state_, s);
        return loops.shared ? nullptr : &loops;
    }

    void children(const StageState &s, const std::string &loop, int depth) {
        const bool blocks = s.online && !follows(s) && s.online->loop == loop;
        for (const StageState &turn : state_.stages) {
            if (blocks && follows(turn) && turn.online->anchor == s.name()) follower(turn, depth);
            const StageState *runs = run_at(turn);
            if (!runs || waits_for_end(state_, *runs)) continue;
            const StageState &p = *runs;
            const auto here = [&](const Placement &at) {
                return at.kind == Placement::Kind::At && at.consumer == s.name() && at.loop == loop;
            };
            if (p.computed && here(p.placement))
                line(depth, "keep " + p.name() + kept_text(p) + ", the part that one " +
                                (rolls(p) ? p.computed->loop : loop) + " needs");
            if (here(p.computed_at())) stage(p, depth);
        }
    }

    // Prints a follower, which is updated for each block.
    void follower(const StageState &s, int depth) {
        line(depth++, "update " + s.name() + " in this " + s.online->loop);
        for (const std::string &loop : s.order) {
            if (!s.loop(loop).reduction) line(depth++, loop_text(s, loop));
        }
        const std::string scaled = s.online->max == s.name() ? "" : " * factor of " + s.online->max;
        line(depth, s.name() + "(" + indices_text(s) + ") = " + s.name() + "(" + indices_text(s) + ")" + scaled +
                        (scaled.empty() ? " or, where greater, " : " + ") +
                        s.def.components[0].term.as<Halide::Internal::Call>()->name + "(…)");
    }

    static std::string indices_text(const StageState &s) {
        std::string indices;
        for (const Axis &a : s.def.axes) indices += (indices.empty() ? "" : ", ") + a.name();
        return indices;
    }

    void late_children(const StageState &s, int depth) {
        for (const StageState &p : state_.stages) {
            if (p.placement.consumer == s.name() && waits_for_end(state_, p)) stage(p, depth);
        }
    }

    static std::string kept_text(const StageState &s) {
        std::string text = s.level.empty() ? "" : " in " + s.level, terms;
        for (const LayoutTerm &t : s.layout) terms += (terms.empty() ? "" : ", ") + t.to_string();
        return terms.empty() ? text : text + " stored {" + terms + "}";
    }

    void stage(const StageState &s, int depth) {
        if (follows(s)) {
            line(depth,
                 "keep " + s.name() + ", updated in loop " + s.online->loop + " of " + s.online->anchor +
                     (s.placement.kind == Placement::Kind::At ? ", the part that one " + s.placement.loop + " needs"
                                                              : ""));
            return;
        }
        std::string head =
            std::string(s.prepacked ? "ahead of time: " : "") + (s.is_copy ? "copy " : "compute ") + s.name();
        if (s.is_copy) head += " of " + s.copied;
        if (s.part) head += ", " + part_text(*s.part) + " of " + s.part->of;
        for (const StageState *r : regions_of(state_, s.name())) {
            head += (r == regions_of(state_, s.name()).front() ? ", without " : " and ") + part_text(*r->part);
        }
        if (!s.computed) head += kept_text(s);
        if (s.streamed) head += " streamed";
        if (s.buffers == 2) head += " double-buffered";
        if (s.buffers > 2) head += " with " + std::to_string(s.buffers) + " buffers in rotation";
        if (s.placement.kind == Placement::Kind::At)
            head += ", the part that " + std::string(rolls(s) ? "is new in one " : "one ") + s.computed_at().loop +
                    (rolls(s) ? "" : " needs");
        for (const StageState *other : sharing_loops(state_, s.name()))
            head += ", and " + other->name() + kept_text(*other) + (other->streamed ? " streamed" : "") + " down to " +
                    other->shared->loop;
        line(depth, head);
        loops(s, depth + 1, 0, sharing_loops(state_, s.name()));
    }

    // Prints what runs in the body of a loop of this stage before its inner loops.
    void in_loop(const StageState &s, const std::string &loop, int depth) {
        for (const Prefetch &p : s.prefetches) {
            if (p.loop == loop)
                line(depth, "prefetch " + p.tensor + " " + std::to_string(p.distance) + " ahead" +
                                (p.of.empty() ? "" : " of " + p.consumer + "." + p.of));
        }
        children(s, loop, depth);
        if (s.online && s.online->loop == loop)
            line(depth, "rescale " + s.name() + " by the factor of " + s.online->max);
        if (s.waiting && s.waiting->loop == loop)
            line(depth, "between rounds, spill " + s.name() + " to " + s.waiting->level);
        if (s.accumulate && s.accumulate->loop == loop)
            line(depth, "accumulate " + s.name() + " in " + s.accumulate->level);
        if (s.write_back == loop) line(depth, "store the results during the next " + loop);
        if (s.tensorize && s.tensorize->loop == loop) line(depth, "tensorize " + s.tensorize->instruction);
    }

    // Prints the loops of a stage from position `first` on, and what they compute. The outermost is
    // at depth `base`. `others` share all of them.
    void loops(const StageState &s, int base, size_t first, const std::vector<const StageState *> &others) {
        int depth = base + static_cast<int>(first);
        for (size_t l = first; l < s.order.size(); l++) {
            const std::string &loop = s.order[l];
            line(depth++, loop_text(s, loop));
            for (const Peel &p : s.peels) {
                if (p.loop == loop)
                    line(depth, "peel first " + std::to_string(p.first) + ", last " + std::to_string(p.last));
            }
            in_loop(s, loop, depth);
            for (const StageState *other : others) {
                if (l <= other->position(other->shared->loop)) in_loop(*other, loop, depth);
            }
        }
        const std::string indices = indices_text(s);
        if (is_extern(s.def)) return line(depth, to_string(s.def));
        line(depth, s.tensor() + "(" + indices + ") " + (s.def.is_reduction() ? s.def.reduction_kind + "= …" : "= …"));
        if (!s.finished_into.empty()) {
            const int end = base + static_cast<int>(s.end_of_steps());
            late_children(s, end);
            line(end, "at the end: " + s.finished_into + "(…) = …");
        }
        for (const StageState *other : sharing_loops(state_, s.name()))
            loops(*other, base, other->position(other->shared->loop) + 1, {});
    }
};

} // namespace

std::string stage_text(const StageState &s, const std::string &marked, const std::string &note) {
    std::string text;
    size_t width = 0;
    std::vector<std::string> lines;
    for (size_t i = 0; i < s.order.size(); i++) {
        const std::string head = "  stage " + s.name() + "   ";
        lines.push_back((i ? std::string(head.size() + 2 * i, ' ') : head) + loop_text(s, s.order[i]));
        width = std::max(width, lines.back().size());
    }
    if (s.order.empty()) lines.push_back("  stage " + s.name() + " (no loops)");
    for (size_t i = 0; i < lines.size(); i++) {
        std::string line = lines[i];
        if (i < s.order.size() && !marked.empty()) {
            const bool last = i + 1 == s.order.size();
            if (s.order[i] == marked)
                line += std::string(width + 2 - line.size(), ' ') + "← " + note;
            else if (last)
                line += std::string(width + 2 - line.size(), ' ') + "← innermost";
        }
        text += line + "\n";
    }
    return text;
}

std::string nest_text(const ScheduleState &state) {
    if (std::none_of(state.stages.begin(), state.stages.end(),
                     [](const StageState &s) { return s.shared.has_value(); }))
        return Printer(state).run();
    ScheduleState in_order = state; // in execution order
    order_by_groups(in_order);
    return Printer(in_order).run();
}

} // namespace kumiko
