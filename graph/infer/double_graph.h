// A graph in double precision.
#pragma once

#include "graph/infer/fixed_graph.h"

namespace kumiko::graph {

// The same graph with f64 in the place of all other floats: of values, constants and the types that
// nodes state. Attributes keep their f32 numbers, so that both graphs compute the same function.
FixedGraph in_double(const FixedGraph &graph);

// The array in f64 if its elements are floats; else the array.
Buffer<> in_double(const Buffer<> &array);

} // namespace kumiko::graph
