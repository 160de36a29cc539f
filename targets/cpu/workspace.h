// Workspaces of kernels that allocate nothing: the caller passes one block for all of them.
//
// Workspaces are placed as on a stack. Iterations of a parallel loop that need workspaces run as
// the tasks of at most `threads` workers, each with a part of the block:
//
//   parallel for i in 0 … n:           →  parallel for t in 0 … min(n, threads):
//     w = allocate                           while (i = next++) < n:
//     …                                        w = block + t · bytes
//                                              …
//
// So a workspace is never shared, whatever threads the loop gets.
#pragma once

#include "targets/lower/nest.h"

#include <map>
#include <string>
#include <utility>

namespace kumiko {

// Replaces the sizes of all workspaces by numbers that are upper bounds. `ranges`: the least and
// the largest value of sizes. Throws Unsupported, naming the workspace, if a size has no bound: it
// then depends on a size without a range, or on data.
void bound_workspaces(Nest &nest, const std::map<std::string, std::pair<int64_t, int64_t>> &ranges = {});

// Bytes that the workspaces in a statement need, a multiple of 64. Their sizes are numbers.
int64_t workspace_bytes(const Halide::Internal::Stmt &body, int threads);

// The same of one workspace.
int64_t workspace_bytes(const Halide::Internal::Allocate *workspace);

// Whether the array is a workspace, and not on the stack.
bool is_workspace(const Halide::Internal::Allocate *array);

} // namespace kumiko
