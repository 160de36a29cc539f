// Tensors: what a formula reads and what it defines.
//
//   Axis i("i", M), j("j", N), k("k", K);
//   Tensor A = input("A", f32, {i, k});
//   Tensor B = input("B", f32, {k, j});
//   Tensor C = compute("C", {i, j}, sum(A(i, k) * B(k, j), k));
//
// A Tensor is an immutable value. Axis d is dimension d of the array, row-major: the last axis is
// contiguous.
#pragma once

#include "dsl/axis.h"
#include "dsl/element.h"
#include "dsl/types.h"

#include <memory>
#include <type_traits>

namespace kumiko {

struct TensorContents;

// An array that a formula reads, or a stage that it defines.
class Tensor {
public:
    Tensor() = default;
    explicit Tensor(std::shared_ptr<const TensorContents> contents) : contents_(std::move(contents)) {}

    bool defined() const { return contents_ != nullptr; }
    const std::string &name() const;
    Type type() const;
    const std::vector<Axis> &axes() const;
    size_t rank() const { return axes().size(); }
    const TensorContents &contents() const;

    // The element at the given int32 indices. Throws UserError if their count differs from rank().
    Element at(const std::vector<Expr> &indices, Place where = Place::current()) const;

    // A(i, j). A parameter pack cannot be followed by a default argument, so each count up to six
    // has an overload; errors in reads with more indices have no source location.
    Element operator()(Place where = Place::current()) const { return at({}, where); }
    Element operator()(const Expr &a, Place where = Place::current()) const { return at({a}, where); }
    Element operator()(const Expr &a, const Expr &b, Place where = Place::current()) const { return at({a, b}, where); }
    Element operator()(const Expr &a, const Expr &b, const Expr &c, Place where = Place::current()) const {
        return at({a, b, c}, where);
    }
    Element operator()(const Expr &a, const Expr &b, const Expr &c, const Expr &d,
                       Place where = Place::current()) const {
        return at({a, b, c, d}, where);
    }
    Element operator()(const Expr &a, const Expr &b, const Expr &c, const Expr &d, const Expr &e,
                       Place where = Place::current()) const {
        return at({a, b, c, d, e}, where);
    }
    Element operator()(const Expr &a, const Expr &b, const Expr &c, const Expr &d, const Expr &e, const Expr &f,
                       Place where = Place::current()) const {
        return at({a, b, c, d, e, f}, where);
    }
    template<typename... Index>
    requires(sizeof...(Index) > 6 && (std::is_convertible_v<Index, Expr> && ...)) Element
    operator()(const Index &...index) const {
        return at(std::vector<Expr>{Expr(index)...}, {});
    }

private:
    std::shared_ptr<const TensorContents> contents_;
};

// What a Tensor points to: its kind, type, axes, strides and value.
struct TensorContents {
    enum class Kind { Input, Compute, Padding, Inout, Update }; // the last two: dsl/inout.h
    Kind kind;
    std::string name;
    Type type;
    std::vector<Axis> axes;
    std::vector<Expr> strides; // of arrays: in elements, one per axis; empty: dense and row-major
    Expr value;                // Compute, Padding, Update: over the axes
};

// Options of input().
struct InputOptions {
    std::vector<Expr> strides; // in elements, one per axis; numbers or expressions of sizes
};

// Declares an array that the caller passes.
Tensor input(const std::string &name, Type type, const std::vector<Axis> &axes, const InputOptions &options = {},
             std::source_location where = std::source_location::current());

// Defines a stage: one value per index. `value` may contain reductions (dsl/reduction.h).
// Throws UserError if an axis repeats.
Tensor compute(const std::string &name, const std::vector<Axis> &axes, const Expr &value,
               std::source_location where = std::source_location::current());

// Options of compute().
struct ComputeOptions {
    // Strides of an output's array: in elements, one per axis; numbers or expressions of sizes.
    std::vector<Expr> strides;
};

// An output whose array has explicit strides, like BLAS's ldc:
//   compute("C", {i, j}, sum(A(i, k) * B(k, j), k), {.strides = {ldc, 1}})
// Op throws UserError if such a tensor is not an output, because the schedule decides the layout of
// intermediate tensors.
Tensor compute(const std::string &name, const std::vector<Axis> &axes, const Expr &value, const ComputeOptions &options,
               std::source_location where = std::source_location::current());

// X padded with zeros: a stage "X.padded" that may be read at any index, including negative ones.
// `axes` names the padded axes; empty means all. If an op pads X in two different ways, the second
// stage is "X.padded1". The second of two ways to clamp is "X.clamped1".
Tensor zero_padded(const Tensor &x, const std::vector<Axis> &axes = {},
                   std::source_location where = std::source_location::current());

// X with every index clamped into bounds: a stage "X.clamped". An axis of symbolic size must be
// non-empty when it is read (see Op::requirements()).
// Throws UserError if a clamped axis is empty.
Tensor clamped(const Tensor &x, const std::vector<Axis> &axes = {},
               std::source_location where = std::source_location::current());

} // namespace kumiko
