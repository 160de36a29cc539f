// Bounds of the reads of a stage, and the conditions on the sizes under which they are in bounds.
#pragma once

#include "dsl/definition.h"
#include "dsl/op.h"

#include <functional>
#include <set>

namespace kumiko {

// The axes of a tensor; null for an axis beyond which the tensor may be read.
using AxesInside = std::function<std::vector<const Axis *>(const std::string &tensor)>;

// Whether a padding stage has a boundary condition (select or clamp) along axis d.
bool pads(const Stage &stage, size_t d);

// The tensors that an expression reads.
std::set<std::string> tensors_read(const Expr &e);

// Whether the expression depends on a value read from a tensor.
bool reads_data(const Expr &e);

// Index ranges of all reads that are not guarded by a boundary condition. If an index is
// data-dependent, the tensor must be non-empty. Texts print the expressions in `written` by their
// source texts.
struct Reach {
    // Conditions for in-bounds reads, without those that are proved.
    std::vector<Requirement> requirements;
    // The first read that is out of bounds for all sizes: "stage Y reads X outside: its index i + 1
    // goes from 1 to 10, but axis a has 10 elements"; "" if there is none.
    std::string outside;
};
Reach reach_of(const Stage &stage, const AxesInside &axes_of, const std::vector<WrittenPart> &written = {});

// Conditions under which `padding`, a stage that `stage` reads, has an element to clamp each index
// to. Empty if it does not clamp.
std::vector<Requirement> clamp_requirements(const Stage &stage, const Stage &padding);

} // namespace kumiko
