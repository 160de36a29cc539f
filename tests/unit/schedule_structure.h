// The structure of a schedule: its decisions apart from sizes. These are named facts about each
// stage of the formula:
//
//   S.place    "inline"; "root"; "end of R", computed where reduction R completes an element;
//              "H: y x", in H's loops along these axes; "beside H: y", in loops that both share
//   S.ring     "rolling", in a ring of planes
//   S.vectors  the axis of its vectors; missing if there are none
//   S.rows     the other pure axes along which a reduction accumulates in registers
//   S.copies   the tensors that it reads from copies
//
// Stages that directives create, such as the partial results of a reduction, count as the stage of
// the formula that they come from. There are no facts about sizes, tails, peeled iterations,
// storage order, the order of loops, unrolled steps, and fused loops.
#pragma once

#include "schedules/library/structure.h"
#include "schedules/rolling.h"
#include "schedules/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kumiko {

class StructureOf {
public:
    using Facts = std::map<std::string, std::string>;

    explicit StructureOf(const Schedule &schedule, const Op &formula) : state_(schedule.state()), formula_(formula) {}

    Facts facts() const {
        Facts all;
        for (const StageState &s : state_.stages) {
            if (s.is_copy) {
                for (const std::string &reader : state_.consumers(s.name()))
                    note(all, own(reader) + ".copies", s.copied);
                continue;
            }
            if (own(s.name()) == s.name()) all[s.name() + ".place"] = place(s);
            if (s.placement.kind == Placement::Kind::Inline || !s.finished_by.empty()) continue;
            if (rolls(s)) all[own(s.name()) + ".ring"] = "rolling";
            loops(all, s);
        }
        return all;
    }

private:
    const ScheduleState &state_;
    const Op &formula_;

    static void note(Facts &all, const std::string &name, const std::string &value) {
        std::string &fact = all[name];
        if ((" " + fact + " ").find(" " + value + " ") == std::string::npos) fact += (fact.empty() ? "" : " ") + value;
    }

    // The formula's stage that this one comes from.
    std::string own(const std::string &stage) const {
        std::string name = stage;
        while (!formula_.find_stage(name) && name.find('.') != std::string::npos) name.resize(name.rfind('.'));
        return name;
    }

    // The axes of the formula that the loop ranges over, without those of extent 1.
    std::vector<std::string> axes(const StageState &s, const std::string &loop) const {
        std::vector<std::string> names;
        const Stage *stage = formula_.find_stage(own(s.name()));
        for (const std::string &axis : s.axes_of(loop)) {
            for (const auto *some : {&stage->axes, &stage->reduction_axes}) {
                for (const Axis &a : *some) {
                    const bool made =
                        axis.rfind(a.name(), 0) == 0 && (axis.size() == a.name().size() ||
                                                         axis[a.name().size()] == '.' || axis[a.name().size()] == '_');
                    if (made && library::constant_extent(a) != 1) names.push_back(a.name());
                }
            }
        }
        return names;
    }

    std::string axes_outside(const StageState &host, const std::string &loop) const {
        std::set<std::string> names;
        for (size_t n = 0; n <= host.position(loop); n++) {
            for (const std::string &a : axes(host, host.order[n])) names.insert(a);
        }
        return fmt::format("{}: {}", own(host.name()), fmt::join(names, " "));
    }

    std::string place(const StageState &s) const {
        if (!s.finished_by.empty()) return "end of " + own(s.finished_by);
        if (s.placement.kind == Placement::Kind::Inline) return "inline";
        if (s.shared) return "beside " + axes_outside(state_.stage(s.shared->stage), s.shared->loop);
        const Placement &at = s.computed_at();
        return at.kind == Placement::Kind::At ? axes_outside(state_.stage(at.consumer), at.loop) : "root";
    }

    void loops(Facts &all, const StageState &s) const {
        const std::string name = own(s.name());
        const Stage &stage = *formula_.find_stage(name);
        for (const std::string &l : s.order) {
            const LoopState &loop = s.loop(l);
            const std::vector<std::string> of = axes(s, l);
            if (of.empty()) continue;
            if (loop.kind == LoopKind::Vectorized) all[name + ".vectors"] = of.back();
        }
        if (!stage.is_reduction() || s.first_reduction() == s.order.size()) return;
        for (size_t n = s.first_reduction(); n < s.order.size(); n++) {
            const LoopState &loop = s.loop(s.order[n]);
            if (loop.reduction || loop.kind != LoopKind::Unrolled) continue;
            const std::vector<std::string> of = axes(s, s.order[n]);
            const auto found = all.find(name + ".vectors");
            const bool pure = std::any_of(stage.axes.begin(), stage.axes.end(),
                                          [&](const Axis &axis) { return !of.empty() && axis.name() == of.back(); });
            if (pure && (found == all.end() || found->second != of.back())) note(all, name + ".rows", of.back());
        }
    }
};

// The facts of `wanted` that `found` lacks, and the copies and rings that only `found` has.
inline std::vector<std::string> differences(const StructureOf::Facts &wanted, const StructureOf::Facts &found) {
    std::vector<std::string> all;
    const auto of = [](const StructureOf::Facts &facts, const std::string &name) {
        const auto fact = facts.find(name);
        return fact == facts.end() ? std::string() : fact->second;
    };
    for (const auto &[name, value] : wanted) {
        if (of(found, name) != value) all.push_back(fmt::format("{} is {}, not {}", name, of(found, name), value));
    }
    for (const auto &[name, value] : found) {
        const std::string kind = name.substr(name.rfind('.') + 1);
        if (!wanted.count(name) && (kind == "copies" || kind == "ring"))
            all.push_back(fmt::format("{} is {}", name, value));
    }
    return all;
}

} // namespace kumiko
