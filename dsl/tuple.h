// Reductions of several values together: each step takes all accumulators and all terms and gives all new accumulators. Mean and
// spread in one pass (Welford's method):
//
//   Tuple w = reduce([](Values a, Values b) -> Values {                      // {count, mean, sum of squares around it}
//       Expr n = a[0] + b[0], d = b[1] - a[1], part = b[0] / max(n, 1.f);
//       return {n, a[1] + d * part, a[2] + b[2] + d * d * a[0] * part};
//   }, {0.f, 0.f, 0.f}, {1.f, X(i, j), 0.f}, j, {.associative = true, .commutative = true});
//   Tensor mean = compute("mean", {i}, w[1]), var = compute("var", {i}, w[2] / w[0]);
//
// The tuple becomes one stage, named after the first tensor that reads it ("mean.reduce", with its further values as
// "mean.reduce.1", …), however many read it. Steps follow the order of the axes, last fastest; what a tie means, the combiner says.
// Schedules change the order, for lanes, threads and rfactor, only where the combiner is stated to be associative and commutative.
#pragma once

#include "dsl/reduction.h"

#include <vector>

namespace kumiko {

using Values = std::vector<Expr>;

// The results, in the order of the terms; each may stand in any expression, like a sum.
class Tuple {
public:
    explicit Tuple(std::vector<Element> parts) : parts_(std::move(parts)) {}
    size_t size() const { return parts_.size(); }
    // Throws UserError beyond size().
    Element operator[](size_t c) const;

private:
    std::vector<Element> parts_;
};

// `identities` are numbers, which adapt to the types of the terms; the combiner gives as many values, of the same types. The terms may
// be of several types. Throws UserError where these do not agree.
Tuple reduce(const std::function<Values(const Values &, const Values &)> &combiner, const Values &identities,
             const Values &terms, const AxisList &axes, CombinerProperties properties = {},
             Place where = Place::current());

} // namespace kumiko
