// Which elements the reads of a stage reach, and what has to hold of the sizes so that they exist.
#pragma once

#include "dsl/definition.h"
#include "dsl/op.h"

#include <functional>
#include <set>

namespace kumiko {

// The axes of a tensor, null for those beyond which it may be read.
using AxesInside = std::function<std::vector<const Axis *>(const std::string &tensor)>;

// Whether a padding stage may be read beyond axis d: it chooses by, or clamps, the index of that axis.
bool pads(const Stage &stage, size_t d);

// The tensors that an expression reads.
std::set<std::string> tensors_read(const Expr &e);

// Whether a value that is read decides what the expression is.
bool reads_data(const Expr &e);

// How far the reads of a stage go that no border's choice guards, by the range of the index. Where data decide it there have to be elements.
// Texts show parts of the stage that are in `written` as theirs.
struct Reach {
    std::vector<Requirement> requirements; // so that they stay inside, without what is proved
    // The first that is outside whatever the sizes, "stage Y reads X outside: its index i + 1 goes from 1 to 10, but axis a
    // has 10 elements"; "" when there is none.
    std::string outside;
};
Reach reach_of(const Stage &stage, const AxesInside &axes_of, const std::vector<WrittenPart> &written = {});

// So that there is an element to which `padding`, a stage that `stage` reads, clamps each index; empty where it is not clamped.
std::vector<Requirement> clamp_requirements(const Stage &stage, const Stage &padding);

} // namespace kumiko
