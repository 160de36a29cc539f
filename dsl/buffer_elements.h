// Access to elements of buffers of any type, one at a time: for filling and comparing, where speed
// does not matter.
#pragma once

#include "dsl/buffers.h"

#include <functional>

namespace kumiko {

// "[2, 3]"
std::string list_text(const std::vector<int64_t> &values);
// Strides in elements, outermost axis first.
std::vector<int64_t> strides_of(const halide_buffer_t *b);

// Calls f(index, pointer) for each element in row-major order. Indices are outermost first.
void for_each_element(const halide_buffer_t *b, const std::function<void(const std::vector<int64_t> &, uint8_t *)> &f);

// Converts a stored value of type t to double, and back: rounded for float types, truncated for
// integers.
double read_element(Type t, const uint8_t *p);
void write_element(Type t, uint8_t *p, double v);

} // namespace kumiko
