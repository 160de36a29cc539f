// A proof that the steps of a program do not destroy each other's values.
#pragma once

#include "graph/build/program.h"

namespace kumiko::graph {

// Checks, with no code of the planner, for each step in their order: all bytes that it reads have
// last been written by steps that make what its task reads; what it writes, and its workspace,
// overlap neither what it reads nor each other. The lists of a branch are checked one after the
// other, a loop for two iterations. A slice of an iteration counts as its whole array. States are
// written before the first step. `workspaces`: as of place(). Throws InternalError that names the
// nodes. Cost: n · log n for n steps, twice for each loop around them.
void check_program(const Program &program, const std::vector<int64_t> &workspaces = {});

} // namespace kumiko::graph
