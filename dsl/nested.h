// Tensors that a function of the language makes inside of an expression, where the axes around the
// expression are not known yet.
//
//   NestedTensor row("row", {j}, e);
//   sum(row.at({t * 8}), t); // with i around it, a stage "Y.row" over i, if e uses it, and j
#pragma once

#include "dsl/axis.h"

namespace kumiko {

// A tensor over the axes around the expression that `value` uses, then over `axes`. Op makes it a
// stage, named "<tensor>.<name>" after the first tensor that reads it, and numbered where that is
// taken. Equal ones share a stage.
struct NestedTensor {
    std::string name;
    std::vector<Axis> axes;
    Expr value;

    // The element at the indices of `axes`.
    Expr at(const std::vector<Expr> &indices) const;
};

// Whether the call is an element of a nested tensor; its tensor, and the indices.
bool is_nested(const Halide::Internal::Call *call);
NestedTensor decode_nested(const Halide::Internal::Call *call);
std::vector<Expr> nested_indices(const Halide::Internal::Call *call);

} // namespace kumiko
