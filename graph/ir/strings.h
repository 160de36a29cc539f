// Strings as elements of tensors. An element is the number of its string in a table, in which equal
// strings are one. The table keeps all strings until the process ends, so numbers mean nothing in
// another process.
#pragma once

#include "dsl/buffers.h"

#include <string>
#include <vector>

namespace kumiko::graph {

// The element type. Formulas may move such elements and compare whether they are equal.
inline const Type string_type(halide_type_handle, 64, 1);

uint64_t string_number(const std::string &text);
Buffer<> string_tensor(const std::vector<std::string> &texts, const std::vector<int64_t> &extents);
// The elements in row-major order. Throws InternalError if the array has another type.
std::vector<std::string> strings_of(const Buffer<> &tensor);

} // namespace kumiko::graph
