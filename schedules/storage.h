// Where the elements of a stored region lie: a storage order as extents and as an offset in elements.
#pragma once

#include "schedules/state.h"

namespace kumiko {

// One storage dimension: how many there are, and which of them the index of its axis (counted from the region's first) is in.
Expr storage_extent(const LayoutTerm &term, const Expr &axis_extent);
Expr storage_index(const LayoutTerm &term, const Expr &index);

// The terms of a layout, or of the axes in order where there is none.
std::vector<LayoutTerm> storage_terms(const std::vector<LayoutTerm> &layout, const std::vector<std::string> &axes);

// The order in which the accumulators of a stage are stored: the axis of its innermost loop that does not reduce comes last, so that
// a vector's lanes are neighbours. Empty: the axes in order.
std::vector<LayoutTerm> accumulator_layout(const StageState &stage);

// The loops from `depth` on that do not reduce, where one of them runs through several axes, or
// vectors reach into the next block: what they touch is no box, so they, and not the axes, are the
// index of accumulators kept inside. Empty elsewhere.
std::vector<std::string> accumulator_loops(const StageState &stage, size_t depth);

// Extents of all storage dimensions, outermost first, for axes of these extents.
std::vector<Expr> storage_extents(const std::vector<LayoutTerm> &layout, const std::vector<std::string> &axes,
                                  const std::vector<Expr> &extents);

// The offset of an element; `indices` count from the region's first, one per axis. Computed in the type `type` (32 or 64 bits).
Expr storage_offset(const std::vector<LayoutTerm> &layout, const std::vector<std::string> &axes,
                    const std::vector<Expr> &extents, const std::vector<Expr> &indices, Type type = Int(32));

} // namespace kumiko
