// Which rows of a pointwise stage stand inside of a block of its columns.
#pragma once

#include "schedules/schedule.h"

#include <optional>

namespace kumiko::library {

// Rows of a block that is computed inside of the loop over blocks of the last axis.
struct RowsOfBlock {
    std::string axis;
    int64_t rows;
    bool unrolled; // because rows read some of the same elements
};

// The rows that share what they read: neighbours in a stencil, which are unrolled so that each
// element is loaded once, or rows that all read the same two places or more along the last axis.
// Nothing for other stages, and for those in whose loops others are computed.
std::optional<RowsOfBlock> rows_of_block(const Schedule &s, const Stage &stage);

} // namespace kumiko::library
