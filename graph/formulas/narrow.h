// Elements of types that formulas do not compute with (dsl/narrow_types.h). Views of such a type
// have elements as they are in memory.
#pragma once

#include "dsl/narrow_types.h"
#include "graph/formulas/formula.h"

namespace kumiko::graph {

// Whether inputs of the operator may be of this type. Few operators take the types with which
// formulas do not compute: narrow ones (dsl/narrow_types.h) and strings (graph/ir/strings.h).
bool takes(const Operator &op, Type type);

// How numbers become elements of a narrow type.
struct Encoding {
    Type type;
    bool saturate = true;          // numbers beyond the largest become it, else infinity or NaN
    std::string round_mode = "up"; // of f8e8m0: "up", "down" or "nearest"; else always to nearest
};

// The numbers that the elements mean: of narrow floats in f32, of narrow integers in i8 or u8. A
// view of another type is unchanged.
View numbers_of(const View &v);
// The bits of numbers: floats are rounded to the nearest, ties to even; integers keep low bits.
View encoded(const View &numbers, const Encoding &to);
// The same of one number of f32 as a narrow float.
Element encoded(const Element &number, const Encoding &to);
// The least and the largest integer of a type of up to 16 bits.
std::pair<double, double> integer_range(Type type);

} // namespace kumiko::graph
