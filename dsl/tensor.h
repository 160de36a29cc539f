// Tensors: what a formula reads and what it defines.
//
//   Axis i("i", M), j("j", N), k("k", K);
//   Tensor A = input("A", f32, {i, k});
//   Tensor B = input("B", f32, {k, j});
//   Tensor C = compute("C", {i, j}, sum(A(i, k) * B(k, j), k));
//
// A Tensor is an immutable value. Axis d is dimension d of the array, row-major: the last axis is contiguous.
#pragma once

#include "dsl/axis.h"
#include "dsl/element.h"
#include "dsl/types.h"

#include <memory>
#include <type_traits>

namespace kumiko {

struct TensorContents;

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

    // The element at the given indices, int32 expressions. Throws UserError when the count differs from rank().
    Element at(const std::vector<Expr> &indices, Place where = Place::current()) const;

    // A(i, j). No default argument may follow a pack of indices, so that each count up to six has an
    // overload; errors of an element that is read with more indices name no place.
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

struct TensorContents {
    enum class Kind { Input, Compute, Padding, Inout, Update }; // the last two: dsl/inout.h
    Kind kind;
    std::string name;
    Type type;
    std::vector<Axis> axes;
    std::vector<Expr> strides; // of arrays: in elements, one per axis; empty means row-major and dense
    Expr value;                // Compute, Padding, Update: over the axes
};

struct InputOptions {
    std::vector<Expr> strides; // in elements, one per axis; numbers or expressions of sizes
};

// An array that the caller passes.
Tensor input(const std::string &name, Type type, const std::vector<Axis> &axes, const InputOptions &options = {},
             std::source_location where = std::source_location::current());

// A stage: one value for each index. A reduction (dsl/reduction.h) may stand anywhere in `value`.
// Throws UserError when an axis repeats.
Tensor compute(const std::string &name, const std::vector<Axis> &axes, const Expr &value,
               std::source_location where = std::source_location::current());

struct ComputeOptions {
    std::vector<Expr> strides; // of an output's array, in elements, one per axis; numbers or expressions of sizes
};

// An output whose array has stated strides, as with BLAS's ldc:
//   compute("C", {i, j}, sum(A(i, k) * B(k, j), k), {.strides = {ldc, 1}})
// Op throws UserError for such a tensor that is not among its outputs: the layout of others belongs to the schedule.
Tensor compute(const std::string &name, const std::vector<Axis> &axes, const Expr &value, const ComputeOptions &options,
               std::source_location where = std::source_location::current());

// X with zeros around it: a stage "X.padded" that may be read at any index, also a negative one.
// `axes` names the axes that may be read outside; empty means all. If an op pads X in two different
// ways, the second stage is "X.padded1". The second of two ways to clamp is "X.clamped1".
Tensor zero_padded(const Tensor &x, const std::vector<Axis> &axes = {},
                   std::source_location where = std::source_location::current());

// X with every index clamped to the nearest legal one: a stage "X.clamped". An axis of a symbolic size has to have elements where
// it is read, as Op::requirements() says.
// Throws UserError where a clamped axis has none.
Tensor clamped(const Tensor &x, const std::vector<Axis> &axes = {},
               std::source_location where = std::source_location::current());

} // namespace kumiko
