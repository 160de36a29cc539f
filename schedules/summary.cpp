#include "schedules/summary.h"

#include "dsl/extern.h"
#include "dsl/print.h"
#include "dsl/reads.h"
#include "schedules/state.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kumiko {

namespace {

using Readers = std::map<std::string, std::vector<std::string>>; // by stage

Readers readers_in(const ScheduleState &state) {
    std::map<std::string, std::string> makers; // stage by tensor
    for (const StageState &s : state.stages) {
        makers[s.tensor()] = s.name();
        for (const Component &c : s.def.components) makers[c.tensor] = s.name();
    }
    Readers readers;
    for (const StageState &s : state.stages) {
        for (const Expr &e : s.def.expressions()) {
            for (const Halide::Internal::Call *read : tensor_reads(e)) {
                const auto maker = makers.find(read->name);
                if (maker == makers.end() || maker->second == s.name()) continue;
                std::vector<std::string> &all = readers[maker->second];
                if (all.empty() || all.back() != s.name()) all.push_back(s.name());
            }
        }
    }
    return readers;
}

std::string place_of(const StageState &s, const Readers &readers) {
    if (is_extern(s.def)) return "one call of a C function";
    if (s.prepacked) return "pre-packed by the caller";
    if (s.placement.kind == Placement::Kind::Inline) {
        const auto of = readers.find(s.name());
        return of == readers.end() ? "inlined, and read by no stage"
                                   : fmt::format("inlined into {}", fmt::join(of->second, ", "));
    }
    if (!s.finished_by.empty()) return "computed at the end of " + s.finished_by;
    std::string text = s.is_copy ? fmt::format("a copy of {}, ", s.copied) : "";
    if (s.placement.kind == Placement::Kind::At)
        text += fmt::format("computed at loop {} of {}", s.computed_at().loop, s.computed_at().consumer);
    else
        text += s.shared ? fmt::format("in the loops of {}, down to {}", s.shared->stage, s.shared->loop)
                         : "in a nest of its own";
    if (s.computed) text += fmt::format(", kept at loop {} of {}", s.placement.loop, s.placement.consumer);
    return text;
}

// The pure axes from which the stage's loops of this kind are derived.
std::set<std::string> axes_of_loops(const StageState &s, LoopKind kind) {
    std::set<std::string> all;
    for (const std::string &name : s.order) {
        if (s.loop(name).kind != kind || s.loop(name).reduction) continue;
        for (const std::string &axis : s.axes_of(name)) all.insert(axis);
    }
    return all;
}

std::string sketch_of(const StageState &s) {
    if (s.tensorize) return "instruction";
    if (!s.scattered.empty()) return "scatter";
    if (s.def.reads_itself()) return "recurrence";
    const auto across_lanes = [&](const std::string &name) {
        return s.loop(name).kind == LoopKind::Vectorized && s.loop(name).reduction;
    };
    if (std::any_of(s.order.begin(), s.order.end(), across_lanes)) return "lanes";
    const std::set<std::string> vectors = axes_of_loops(s, LoopKind::Vectorized);
    std::set<std::string> tile = axes_of_loops(s, LoopKind::Unrolled);
    tile.insert(vectors.begin(), vectors.end());
    if (s.def.is_reduction() && s.accumulate && tile.size() > 1) return "register tile";
    return vectors.empty() ? "scalar" : "vectors";
}

} // namespace

std::vector<StageSummary> summaries(const Schedule &schedule) {
    const ScheduleState &state = schedule.state();
    const Readers readers = readers_in(state);
    std::vector<StageSummary> all;
    for (const StageState &s : state.stages) {
        std::vector<std::string> parts = {place_of(s, readers)};
        const bool loops =
            s.placement.kind != Placement::Kind::Inline && s.finished_by.empty() && !s.prepacked && !is_extern(s.def);
        std::vector<std::string> unrolled;
        for (const std::string &name : s.order) {
            if (!loops) break;
            const LoopState &l = s.loop(name);
            if (l.kind == LoopKind::Parallel) parts.push_back("parallel along " + name);
            if (l.kind == LoopKind::Bound) parts.push_back(fmt::format("{} over units of level {}", name, l.unit));
            if (l.kind == LoopKind::Unrolled) unrolled.push_back(fmt::format("{} ({})", name, to_string(l.extent)));
            if (l.kind == LoopKind::Vectorized)
                parts.push_back(fmt::format("vectors of {} along {}", to_string(l.extent), name));
        }
        if (!unrolled.empty()) parts.push_back(fmt::format("unrolled {}", fmt::join(unrolled, ", ")));
        if (s.tensorize) parts.push_back("instruction " + s.tensorize->instruction);
        if (s.accumulate)
            parts.push_back(fmt::format("partial results in {} inside of {}", s.accumulate->level, s.accumulate->loop));
        if (!s.finished_into.empty()) parts.push_back("computes " + s.finished_into + " at its end");
        if (s.streamed) parts.push_back("non-temporal stores");
        all.push_back({s.name(), loops && !s.is_copy ? sketch_of(s) : "", fmt::format("{}", fmt::join(parts, "; "))});
    }
    return all;
}

} // namespace kumiko
