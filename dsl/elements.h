// Elements of buffers of any type, one at a time: for filling and comparing, where speed does not matter.
#pragma once

#include "dsl/buffers.h"

#include <functional>

namespace kumiko {

// "[2, 3]"
std::string list_text(const std::vector<int64_t> &values);
std::vector<int64_t> strides_of(const halide_buffer_t *b);

// Calls f(index, pointer) for every element in row-major order; indices outermost first.
void for_each_element(const halide_buffer_t *b, const std::function<void(const std::vector<int64_t> &, uint8_t *)> &f);

// A value of type t in memory as double, and back: rounded to a float type, cut to an integer one.
double read_element(Type t, const uint8_t *p);
void write_element(Type t, uint8_t *p, double v);

} // namespace kumiko
