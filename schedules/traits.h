// Traits: properties of a stage beyond its loops, most of them made by directives. The data of a
// trait are fields of StageState (schedules/state.h); own_traits() in schedules/traits.cpp is the
// only place that derives traits from fields. One table there has all pairs of traits that exclude
// each other. Schedule::apply consults it after each directive, and records ask it before they
// change a stage.
#pragma once

#include "schedules/primitive.h"

namespace kumiko {

enum class Trait {
    // Of the formula.
    Output,
    Reduction,
    Recurrence,
    Extern,
    Padding,
    // The place of its computation and storage.
    Inlined,
    AtLoop,       // compute_at, and not moved there by finish_in
    Stored,       // store_at
    KeptApart,    // stored at one loop, computed at another
    FirstReader,  // a stage that is kept apart is computed in its loops, part by part
    RingHost,     // a stage that is kept apart is kept in a ring at its loops
    SharesLoops,  // compute_with, of either stage
    FinishedInto, // a reduction with a consumer in its epilogue
    FinishedBy,   // that consumer
    Online,
    Part,    // made by region
    Divided, // a part, or a stage that has parts
    // Memory.
    Copy,
    Prepacked,
    InLevel, // place_in without a consumer
    InRegisters,
    Laid,     // layout
    Buffered, // double_buffer, pipeline
    HostsBuffered,
    Accumulating,
    Waiting,
    Prefetching,
    Streamed,
    // Loops.
    Scattered,
    Tensorized,
    Peeled,
    PaddedTail,
    WritesBack,
    // Requests of a directive, which leave no field in the stage.
    Placed,     // compute_at, compute_root
    Moved,      // compute_at
    Inlining,   // inline_into
    Dividing,   // region
    ReadsCopy,  // the consumer of place_in and reindex
    WholeArray, // an extern function reads or writes it
};

// Why a stage cannot have the trait, by the table; empty if it can. The text calls the stage `who`,
// or "stage C" if `who` is empty.
struct Exclusion {
    std::string reason, remedy;
    explicit operator bool() const { return !reason.empty(); }
};
Exclusion excluded(const ScheduleState &state, const StageState &stage, Trait wanted, const std::string &who = "");
// Refuses the directive if the table excludes the trait. The text has the remedy of the table, or
// `legal` if it has none.
void refuse_excluded(const ScheduleState &state, const Directive &d, const StageState &stage, Trait wanted,
                     const std::string &legal = "");

// Two traits of one stage that the table excludes; empty if there are none. `before` is the state
// without the last directive: the text names the older trait.
Exclusion conflict(const ScheduleState &state, const ScheduleState &before);

// Whether the stage is as the op states it: no directive has given it a trait, split or ordered its
// loops, or computes another stage in them.
bool is_untouched(const ScheduleState &state, const StageState &stage);

// Whether a directive made the stage, and it only reads elements of another tensor: a reindexed
// view, whose elements may be held in another type.
bool is_view(const ScheduleState &state, const StageState &stage);

} // namespace kumiko
