// Tensors created inside an expression by a library function, before the enclosing axes are known.
//
//   NestedTensor row("row", {j}, e);
//   sum(row.at({t * 8}), t); // with i around it: a stage "Y.row" over i, if e uses it, and j
#pragma once

#include "dsl/axis.h"

namespace kumiko {

// A tensor over the enclosing axes that `value` uses, then over `axes`. Op turns it into a stage
// "<tensor>.<name>", after the first tensor that reads it, with a number appended if that name is
// taken. Equal nested tensors share a stage.
struct NestedTensor {
    std::string name;
    std::vector<Axis> axes;
    Expr value;

    // The element at the indices of `axes`.
    Expr at(const std::vector<Expr> &indices) const;
};

// Whether the call reads an element of a nested tensor. The other functions require that, and
// return its tensor and its indices.
bool is_nested(const Halide::Internal::Call *call);
NestedTensor decode_nested(const Halide::Internal::Call *call);
std::vector<Expr> nested_indices(const Halide::Internal::Call *call);

} // namespace kumiko
