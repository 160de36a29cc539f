// Where the rules for any op compute stages: at loops of their readers, in rings of rows, or in the
// nest of another stage.
#pragma once

#include "schedules/library/elementwise.h"
#include "schedules/library/register_tile.h"

#include <optional>

namespace kumiko::library {

// A stage that is padded, and the loop of the padding's only reader at which it is computed.
struct BelowSharedLoops {
    std::string stage, reader, loop;
};

// Finds the innermost loop of the reader such that the axes up to it have the same value in all
// reads of the padding: reader(…, y, …) reads padding(…, y, …).
std::optional<BelowSharedLoops> below_shared_loops(const Schedule &s, const Stage &stage, const Stage &padding);

// Computes stages in the loops of the op's largest output, or of the reduction that it is an
// epilogue of, if their results would not stay in L2. If `where` bounds the steps of that reduction
// by its row, as in causal attention, the stages are computed for a block of rows at a time, and
// only at the elements that the block reads. Stages in `apart` stay in place. Returns the stages
// that are computed in such blocks.
std::map<std::string, RowsOfPart> hold_stages(Schedule &s, const std::set<std::string> &apart,
                                              const std::set<std::string> &unfinished, bool parallel);

// Whether one iteration of the loop at which the stage is computed, or of the innermost loop that
// it shares, needs one element of it: all its axes are loops outside, with the same names.
bool one_element_of_iteration(const Schedule &s, const StageState &stage);

// Whether iterations of the loop compute consecutive planes of another stage.
bool computes_planes(const Schedule &s, const std::string &stage, const LoopName &loop);

// Keeps padding of narrow types in a ring of rows of its reader if the reader reads neighbours
// along rows. A load with missing lanes is done lane by lane: then once per row instead of once per
// read. Not worthwhile if few vectors of a row have missing lanes and rows of a block share loads.
void roll_padding(Schedule &s, const Stage &padding, const ElementwiseParameters &p);

// Pointwise stages that are read only by stages at the root and only at their own axes. The readers
// get their loops first.
std::set<std::string> stages_read_in_place(const Schedule &s, const StageDecisions &decided);

// Computes a stage in the nest of its reader, or in the nest that all its readers share, for each
// block of vectors before the readers. Returns false and leaves it at the root if there is no such
// nest.
bool compute_before_readers(Schedule &s, const Stage &stage);

} // namespace kumiko::library
