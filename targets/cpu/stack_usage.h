// How much stack compiled functions use.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kumiko {

// The most bytes of stack that `function` uses with all functions that it calls, or passes to
// others, through the objects {file name, bytes} of compile_object() and its like.
//
// Frames are those that LLVM states in the objects (.stack_sizes). Each has in addition the return
// address, and 64 bytes for the alignment of vectors. Functions that no object defines count as 0.
// Throws InternalError if no object defines `function`, or if it is recursive.
int64_t stack_bytes(const std::vector<std::pair<std::string, std::string>> &objects, const std::string &function);

} // namespace kumiko
