// Constants as numbers, and numbers as constants.
#pragma once

#include "graph/rules/rewriter.h"

namespace kumiko::graph {

// The elements of f32, f64 or integers, in row-major order; nullopt for other types.
std::optional<std::vector<double>> numbers_of(const Buffer<> &constant);
// Elements of i64 or i32; nullopt for other types.
std::optional<std::vector<int64_t>> integers_of(const Buffer<> &constant);
// An array of `type`, f32 or f64, with these elements. Each is rounded once.
Buffer<> rounded_to(Type type, const Extents &extents, const std::vector<double> &numbers);
bool all_finite(const Buffer<> &constant); // of f32 or f64
Buffer<> transposed_copy(const Buffer<> &constant, const std::vector<size_t> &order);
// With other extents, which have the same number of elements.
Buffer<> reshaped_copy(const Buffer<> &constant, const Extents &extents);
// Type, extents and bits.
bool is_same_constant(const Buffer<> &a, const Buffer<> &b);

// The elements of a constant that is broadcast to `extents` and differs along one axis at most, one
// for each index of that axis; nothing if it differs along others, has more axes, or has a type
// that numbers_of() does not take.
std::optional<std::vector<double>> along_axis(const Buffer<> &constant, const Extents &extents, size_t axis);

// A constant input of integers, or the attribute that earlier versions of the operator have in its
// place; nullopt if the node has neither or the input is not constant.
std::optional<std::vector<int64_t>> integers_of(const Rewriter &graph, const Node &node, size_t input,
                                                const std::string &attribute);

Node make_node(const Node &like, const std::string &op, const std::vector<std::string> &inputs,
               const std::vector<std::string> &outputs);
// A Reshape of `from` to these extents, named `to`.
Node make_reshape(Rewriter &graph, const Node &like, const std::string &from, const std::string &to,
                  const Extents &extents);

} // namespace kumiko::graph
