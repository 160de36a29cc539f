// The reads of elementwise stages, through inlined stages.
#pragma once

#include "schedules/schedule.h"

#include <set>

namespace kumiko::library {

using Reads = std::vector<std::pair<std::string, std::vector<Expr>>>; // a tensor, its indices

// The reads of the stage once the stages that are not kept are inlined.
Reads reads_of(const Op &op, const Stage &stage, const std::set<std::string> &kept);

// The stages that are not inlined, and the tensors of their components.
std::set<std::string> kept_tensors(const ScheduleState &state);

// Stages with fewer axes than the output, such as the scale of a channel, that are computed once
// for the elements that share them. They are read at axes of the output that are also theirs.
std::set<std::string> kept_stages(const Op &op, const Stage &out);

// How axes d and d + 1 of the stage can be joined. Plain: every read has both as adjacent axes, or
// neither. Rows: also, for the last axis, reads of one row shared by all rows.
enum class Join { No, Plain, Rows };
Join joins(const Op &op, const Stage &out, const Reads &reads, size_t d);

// The divisor c, if all divisions of the axis in the stage are axis / c and axis % c; else 1.
int64_t divisor_of(const Stage &stage, const Axis &axis);

// The length of equal runs of the axis, from its beginning on, in which all of axis / n, axis % n
// and comparisons with numbers step by one or stay, as in the halves of rotary embeddings. They are
// at least `shortest` elements long, and few; nothing if the stage does not divide the axis or has
// no such runs.
std::optional<int64_t> run_of(const Stage &stage, const Axis &axis, int64_t shortest);

// The stage's values at the indices n * axis + offset, 0 <= offset < n.
Stage at_multiples(Stage stage, const std::string &axis, int64_t n, int64_t offset = 0);

} // namespace kumiko::library
