// Rows of a pointwise stage that are computed together.
#pragma once

#include "schedules/schedule.h"

#include <optional>

namespace kumiko::library {

// The axis of the rows, their number, and where their loop is.
struct RowsOfBlock {
    std::string axis;
    int64_t rows;
    bool unrolled;
    bool inside = true; // inside the loop over blocks of the last axis; else outside
    int vectors = 1;    // per row in a block, if unrolled inside
};

// Finds rows that share reads: neighbours in a stencil, which are unrolled so that each element is
// loaded once, or rows that all read the same places, at least two, along the last axis. Otherwise
// finds rows that take different branches, such as even and odd rows, which are unrolled outside
// the column loop, so that each reads only what its branch needs. Nothing for other stages, and for
// stages in whose loops others are computed.
std::optional<RowsOfBlock> rows_of_block(const Schedule &s, const Stage &stage);

} // namespace kumiko::library
