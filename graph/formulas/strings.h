// Operators of strings. They are computed when the formula is made, so strings are constants there.
#pragma once

#include "graph/formulas/formula.h"
#include "graph/ir/strings.h"

namespace kumiko::graph {

// The strings of an input. Throws Unsupported if they are not known, UserError if it has numbers.
std::vector<std::string> strings_of(const Call &call, size_t input);
// A Cast from strings or to strings. Throws UserError for a string that is no number of the type.
Results cast_strings(Call &call, Type to);

} // namespace kumiko::graph
