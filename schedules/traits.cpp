#include "schedules/traits.h"

#include "dsl/extern.h"
#include "schedules/rolling.h"

#include <fmt/format.h>

namespace kumiko {

namespace {

// A set of traits.
class Traits {
public:
    void add(Trait t, bool has = true) { bits_ |= has ? bit(t) : 0; }
    bool has(Trait t) const { return bits_ & bit(t); }
    bool within(const Traits &other) const { return !(bits_ & ~other.bits_); }

private:
    uint64_t bits_ = 0;
    static uint64_t bit(Trait t) { return uint64_t(1) << static_cast<int>(t); }
};

// In texts, {stage} is the stage and {other} what partner() names.
struct Rule {
    Trait wanted, present;
    // Why a stage with the trait `present` cannot get `wanted`; null: only that it is present.
    const char *reason = nullptr;
    const char *remedy = nullptr; // null: the record has one
};

constexpr const char *step_by_step = "{stage} is a recurrence, so each part would compute all earlier elements";
constexpr const char *no_index = "{stage} is stored in registers, which need constant indices";
constexpr const char *buffered = "{stage} is multi-buffered";
constexpr const char *packed_by_caller = "{stage} is pre-packed, so the kernel does not compute it";
constexpr const char *copy_it = "place_in(…, consumer, loop), which copies it";
constexpr const char *in_finish_in = "{stage} is part of a finish_in";

// The compatibility table: the pairs of traits that one stage cannot have. All other pairs are
// legal as far as the conditions of their records hold. A pair is listed in both orders if each
// order has a reason of its own.
const std::vector<Rule> &rules() {
    using enum Trait;
    static const std::vector<Rule> table = {
        {SharesLoops, Inlined},
        {SharesLoops, FinishedBy, "{stage} is computed in the loops of {other}; name that stage"},
        {SharesLoops, Extern},
        {SharesLoops, Recurrence},
        {SharesLoops, Online},
        {SharesLoops, Scattered},
        {SharesLoops, Prepacked},
        {SharesLoops, KeptApart},
        {SharesLoops, RingHost},
        {SharesLoops, HostsBuffered},
        {SharesLoops, Divided},
        {SharesLoops, Tensorized},
        {SharesLoops, Buffered},

        {KeptApart, FinishedInto, "{stage} is not stored: it is finished in {other}"},
        {KeptApart, Prepacked},
        {KeptApart, Recurrence, step_by_step},
        {KeptApart, InRegisters, no_index},
        {KeptApart, Buffered, buffered},
        {KeptApart, Online},
        {KeptApart, Tensorized, "tensorize of {stage} needs blocks of one size"},
        {Stored, Copy},

        {FirstReader, FinishedInto, in_finish_in},
        {FirstReader, FinishedBy, in_finish_in},
        {FirstReader, Online},
        {FirstReader, Recurrence},
        {FirstReader, Padding},
        {FirstReader, Scattered},
        {FirstReader, Tensorized},
        {FirstReader, Buffered, buffered},
        {FirstReader, PaddedTail, "a padded split of {stage} computes elements past its end"},
        {RingHost, SharesLoops,
         "{stage} shares loops with another stage, but the first planes are computed before these loops"},
        {RingHost, Online},

        {Divided, Copy},
        {Divided, Prepacked},
        {Divided, AtLoop},
        {Divided, Inlined},
        {Divided, Recurrence, "{stage} is a recurrence, whose elements read each other"},
        {Divided, Padding, "{stage} is padding, whose size depends on its readers"},
        {Divided, FinishedInto, in_finish_in},
        {Divided, FinishedBy, in_finish_in},
        {Divided, PaddedTail, "the padded tail of loop {other} of {stage} writes into the next part"},
        {Dividing, Accumulating},
        {Dividing, Peeled, "its loop {other} is peeled"},
        {Dividing, Prefetching},
        {Dividing, Tensorized},

        {Online, Part},
        {Online, Prepacked},
        {Buffered, InRegisters, "{stage} is stored in registers, which an index cannot select"},
        {Buffered, FinishedInto, in_finish_in},
        {Buffered, FinishedBy, in_finish_in},
        {Scattered, Tensorized},
        {Streamed, Part},
        {Streamed, Reduction, "{stage} is a reduction, whose partial results are read again"},
        {Streamed, Recurrence, "{stage} is a recurrence, whose results are read again"},

        {Moved, Prepacked, packed_by_caller, copy_it},
        {Placed, FinishedInto, "{stage} is placed with {other}, which is finished in it"},
        {Inlining, Prepacked, packed_by_caller, copy_it},
        {Inlining, Output, "{stage} is an output, so it must be stored", "inline_into on internal stages"},
        {Inlining, Reduction, "{stage} is a reduction, which is not a single expression",
         "compute_at a loop of its consumer"},
        {ReadsCopy, Prepacked, "{stage} is pre-packed by a separate entry point",
         "a stage that is computed in the kernel"},
        {ReadsCopy, Inlined, "{stage} is inlined, so its loops do not run",
         "a stage that is computed; compute_root() or compute_at(…) it first"},
        {Laid, Output, "{stage} is an output; its layout belongs to the op",
         "layout on stages made by place_in, and on internal stages"},
        {Laid, Prepacked, "{stage} is pre-packed, in the order that prepack states", "another order in prepack(…)"},
        {InLevel, Output, "{stage} is an output, so the caller decides where it is stored",
         "place_in on internal stages"},
        {InLevel, Prepacked, "{stage} is pre-packed, so it stays where the caller put it",
         "place_in with a consumer and a loop, which copies it"},

        {WholeArray, Prepacked},
        {WholeArray, AtLoop, "{stage} is not computed at the root"},
        {WholeArray, Inlined, "{stage} is not computed at the root"},
        {WholeArray, FinishedInto, "{stage} is finished in {other} and so not stored"},
        {WholeArray, Laid},
        {WholeArray, InRegisters, "{stage} is stored in registers"},
    };
    return table;
}

// What a stage with the trait is, for rules without a reason.
const char *phrase(Trait t) {
    switch (t) {
    case Trait::Output:
        return "{stage} is an output";
    case Trait::Reduction:
        return "{stage} is a reduction";
    case Trait::Recurrence:
        return "{stage} is a recurrence";
    case Trait::Extern:
        return "{stage} is a call of an extern function";
    case Trait::Padding:
        return "{stage} is padding";
    case Trait::Inlined:
        return "{stage} is inlined, so it has no loops";
    case Trait::AtLoop:
        return "{stage} is computed at {other}";
    case Trait::Stored:
    case Trait::KeptApart:
        return "{stage} is stored at one loop and computed at another";
    case Trait::FirstReader:
        return "{stage} computes {other} part by part";
    case Trait::RingHost:
        return "{stage} has {other} in a circular buffer, whose first planes are computed before its loops";
    case Trait::SharesLoops:
        return "{stage} shares loops with another stage";
    case Trait::FinishedInto:
        return "{stage} is finished in {other}";
    case Trait::FinishedBy:
        return "{stage} is computed in the loops of {other}";
    case Trait::Online:
        return "{stage} is computed online";
    case Trait::Part:
        return "{stage} is a region of {other}";
    case Trait::Divided:
        return "{stage} is computed in parts";
    case Trait::Copy:
        return "{stage} is a copy";
    case Trait::Prepacked:
        return "{stage} is pre-packed";
    case Trait::InLevel:
    case Trait::InRegisters:
        return "{stage} is stored in {other}";
    case Trait::Laid:
        return "{stage} is stored in another order";
    case Trait::Buffered:
        return "{stage} is filled ahead of its use";
    case Trait::HostsBuffered:
        return "{stage} has the multi-buffered copy {other} in its loops";
    case Trait::Accumulating:
        return "{stage} accumulates in {other}";
    case Trait::Waiting:
        return "partial results of {stage} are spilled to {other}";
    case Trait::Prefetching:
        return "{stage} prefetches {other}";
    case Trait::Streamed:
        return "{stage} is written with non-temporal stores";
    case Trait::Scattered:
        return "{stage} visits the elements that its index selects";
    case Trait::Tensorized:
        return "{stage} is tensorized";
    case Trait::Peeled:
        return "loop {other} of {stage} is peeled";
    case Trait::PaddedTail:
        return "the tail of loop {other} of {stage} is padded";
    case Trait::WritesBack:
        return "the results of {stage} are stored during the next iteration of loop {other}";
    case Trait::Placed:
    case Trait::Moved:
    case Trait::Inlining:
    case Trait::Dividing:
    case Trait::ReadsCopy:
    case Trait::WholeArray:
        break;
    }
    throw InternalError("this trait has no phrase: no rule needs one");
}

// The traits that the stage's own state shows.
Traits own_traits(const ScheduleState &state, const StageState &s) {
    Traits t;
    t.add(Trait::Output, state.op.is_output(s.name()));
    t.add(Trait::Reduction, s.def.is_reduction());
    t.add(Trait::Recurrence, s.def.reads_itself());
    t.add(Trait::Extern, is_extern(s.def));
    t.add(Trait::Padding, s.def.kind == Stage::Kind::Padding);
    t.add(Trait::Inlined, s.placement.kind == Placement::Kind::Inline);
    t.add(Trait::AtLoop, s.placement.kind == Placement::Kind::At && s.finished_into.empty());
    t.add(Trait::Stored, s.stored);
    t.add(Trait::KeptApart, s.computed.has_value());
    t.add(Trait::SharesLoops, s.shared.has_value());
    t.add(Trait::FinishedInto, !s.finished_into.empty());
    t.add(Trait::FinishedBy, !s.finished_by.empty());
    t.add(Trait::Online, s.online.has_value());
    t.add(Trait::Part, s.part.has_value());
    t.add(Trait::Divided, s.part.has_value());
    t.add(Trait::Copy, s.is_copy);
    t.add(Trait::Prepacked, s.prepacked);
    t.add(Trait::InLevel, !s.level.empty() && !s.is_copy);
    t.add(Trait::InRegisters, s.level == "registers");
    t.add(Trait::Laid, !s.layout.empty() && !s.prepacked);
    t.add(Trait::Buffered, s.buffers > 1);
    t.add(Trait::Accumulating, s.accumulate.has_value());
    t.add(Trait::Waiting, s.waiting.has_value());
    t.add(Trait::Prefetching, !s.prefetches.empty());
    t.add(Trait::Streamed, s.streamed);
    t.add(Trait::Scattered, !s.scattered.empty());
    t.add(Trait::Tensorized, s.tensorize.has_value());
    t.add(Trait::Peeled, !s.peels.empty());
    t.add(Trait::PaddedTail, s.padded_split() != nullptr);
    t.add(Trait::WritesBack, !s.write_back.empty());
    return t;
}

// Calls give(stage, trait) for the traits that stage `s` gives to others.
template<typename Give>
void give_traits(const StageState &s, const Give &give) {
    if (s.computed) give(s.computed->consumer, rolls(s) ? Trait::RingHost : Trait::FirstReader);
    if (s.buffers > 1 && s.placement.kind == Placement::Kind::At) give(s.placement.consumer, Trait::HostsBuffered);
    if (s.part) give(s.part->of, Trait::Divided);
    if (s.shared) give(s.shared->stage, Trait::SharesLoops);
}

Traits traits_of(const ScheduleState &state, const StageState &stage) {
    Traits t = own_traits(state, stage);
    for (const StageState &s : state.stages) {
        give_traits(s, [&](const std::string &to, Trait trait) { t.add(trait, to == stage.name()); });
    }
    return t;
}

// The stage, loop or level that belongs to the trait; "" if none.
std::string partner(const ScheduleState &state, const StageState &stage, Trait trait) {
    switch (trait) {
    case Trait::AtLoop:
        return "loop " + stage.placement.loop + " of " + stage.placement.consumer;
    case Trait::FinishedInto:
        return stage.finished_into;
    case Trait::FinishedBy:
        return stage.finished_by;
    case Trait::Part:
        return stage.part->of;
    case Trait::InLevel:
    case Trait::InRegisters:
        return stage.level;
    case Trait::Accumulating:
        return stage.accumulate->level;
    case Trait::Waiting:
        return stage.waiting->level;
    case Trait::Prefetching:
        return stage.prefetches.front().tensor;
    case Trait::Peeled:
        return stage.peels.front().loop;
    case Trait::PaddedTail:
        return stage.padded_split()->parent;
    case Trait::WritesBack:
        return stage.write_back;
    default:
        break;
    }
    std::string name;
    for (const StageState &s : state.stages) {
        give_traits(s, [&](const std::string &to, Trait given) {
            if (given == trait && to == stage.name() && name.empty()) name = s.name();
        });
    }
    return name;
}

std::string text_of(const ScheduleState &state, const StageState &stage, const char *text, Trait present,
                    const std::string &who) {
    return fmt::format(fmt::runtime(text), fmt::arg("stage", who.empty() ? "stage " + stage.name() : who),
                       fmt::arg("other", partner(state, stage, present)));
}

Exclusion exclusion(const ScheduleState &state, const StageState &stage, const Rule &r, bool reversed,
                    const std::string &who) {
    const Trait present = reversed ? r.wanted : r.present;
    const char *text = r.reason && !reversed ? r.reason : phrase(present);
    return {text_of(state, stage, text, present, who), r.remedy && !reversed ? r.remedy : ""};
}

} // namespace

Exclusion excluded(const ScheduleState &state, const StageState &stage, Trait wanted, const std::string &who) {
    const Traits has = traits_of(state, stage);
    for (const Rule &r : rules()) {
        if (r.wanted == wanted && has.has(r.present)) return exclusion(state, stage, r, false, who);
    }
    return {};
}

void refuse_excluded(const ScheduleState &state, const Directive &d, const StageState &stage, Trait wanted,
                     const std::string &legal) {
    const Exclusion why = excluded(state, stage, wanted, stage.name());
    if (why) refuse(state, d, why.reason, &stage, "", why.remedy.empty() ? legal : why.remedy);
}

Exclusion conflict(const ScheduleState &state, const ScheduleState &before) {
    std::vector<Traits> all;
    for (const StageState &s : state.stages) all.push_back(own_traits(state, s));
    for (const StageState &s : state.stages) {
        give_traits(s, [&](const std::string &to, Trait trait) {
            if (const StageState *other = state.find(to)) all[other - state.stages.data()].add(trait);
        });
    }
    for (size_t s = 0; s < all.size(); s++) {
        for (const Rule &r : rules()) {
            if (!all[s].has(r.wanted) || !all[s].has(r.present)) continue;
            const StageState *old = before.find(state.stages[s].name());
            const bool reversed = old && traits_of(before, *old).has(r.wanted);
            return exclusion(state, state.stages[s], r, reversed, "");
        }
    }
    return {};
}

bool is_untouched(const ScheduleState &state, const StageState &s) {
    static const Traits of_formula = [] {
        Traits t;
        for (Trait one : {Trait::Output, Trait::Reduction, Trait::Recurrence, Trait::Extern, Trait::Padding})
            t.add(one);
        return t;
    }();
    std::vector<std::string> axes;
    for (const auto *list : {&s.def.axes, &s.def.reduction_axes}) {
        for (const Axis &a : *list) axes.push_back(a.name());
    }
    const bool serial = std::all_of(s.loops.begin(), s.loops.end(),
                                    [](const LoopState &l) { return l.kind == LoopKind::Serial && l.unit.empty(); });
    const bool around = std::any_of(state.stages.begin(), state.stages.end(), [&](const StageState &p) {
        return p.placement.kind == Placement::Kind::At && p.placement.consumer == s.name();
    });
    return serial && !around && s.order == axes && s.relations.empty() && s.placement.kind == Placement::Kind::Root &&
           traits_of(state, s).within(of_formula);
}

bool is_view(const ScheduleState &state, const StageState &stage) {
    const auto *read = stage.def.value.defined() ? stage.def.value.as<Halide::Internal::Call>() : nullptr;
    return !state.op.find_stage(stage.name()) && read && read->call_type == Halide::Internal::Call::Image;
}

} // namespace kumiko
