// The layout of a stored region: a storage order as extents, and the offset of an element.
#pragma once

#include "schedules/state.h"

namespace kumiko {

// One storage dimension: its extent, and the position of an axis index in it. Indices count from
// the region's first.
Expr storage_extent(const LayoutTerm &term, const Expr &axis_extent);
Expr storage_index(const LayoutTerm &term, const Expr &index);

// The terms of a layout; for an empty layout, the axes in order.
std::vector<LayoutTerm> storage_terms(const std::vector<LayoutTerm> &layout, const std::vector<std::string> &axes);

// The storage order of a stage's accumulators: the axis of the innermost non-reduction loop comes
// last, so that vector lanes are adjacent. Empty: axes in order.
std::vector<LayoutTerm> accumulator_layout(const StageState &stage);

// The non-reduction loops from `depth` on, if one of them runs through several axes or vectors
// extend into the next block. The touched elements are then not a box, so accumulators are indexed
// by these loops instead of by axes. Empty otherwise.
std::vector<std::string> accumulator_loops(const StageState &stage, size_t depth);

// Extents of all storage dimensions, outermost first, for axes of the given extents.
std::vector<Expr> storage_extents(const std::vector<LayoutTerm> &layout, const std::vector<std::string> &axes,
                                  const std::vector<Expr> &extents);

// The offset of an element in elements. `indices` count from the region's first, one per axis.
// Computed in `type` (32 or 64 bits).
Expr storage_offset(const std::vector<LayoutTerm> &layout, const std::vector<std::string> &axes,
                    const std::vector<Expr> &extents, const std::vector<Expr> &indices, Type type = Int(32));

} // namespace kumiko
