// Reductions of several values together: each step takes all accumulators and all terms and returns
// all new accumulators. Mean and variance in one pass (Welford's method):
//
//   // {count, mean, sum of squared deviations}
//   Tuple w = reduce([](Values a, Values b) -> Values {
//       Expr n = a[0] + b[0], d = b[1] - a[1], part = b[0] / max(n, 1.f);
//       return {n, a[1] + d * part, a[2] + b[2] + d * d * a[0] * part};
//   }, {0.f, 0.f, 0.f}, {1.f, X(i, j), 0.f}, j, {.associative = true, .commutative = true});
//   Tensor mean = compute("mean", {i}, w[1]), var = compute("var", {i}, w[2] / w[0]);
//
// The tuple becomes one stage, however many tensors read it. It is named after the first one
// ("mean.reduce", with further values "mean.reduce.1", …). Steps run in lexicographic order of the
// axes, the last fastest; the combiner decides ties. Schedules reorder the steps (lanes, threads,
// rfactor) only if the combiner is declared associative and commutative.
#pragma once

#include "dsl/reduction.h"

#include <vector>

namespace kumiko {

using Values = std::vector<Expr>;

// The results, in the order of the terms. Each may appear in any expression, like a sum.
class Tuple {
public:
    explicit Tuple(std::vector<Element> parts) : parts_(std::move(parts)) {}
    size_t size() const { return parts_.size(); }
    // Throws UserError if c >= size().
    Element operator[](size_t c) const;

private:
    std::vector<Element> parts_;
};

// `identities` are numbers, which adapt to the types of the terms. The combiner returns as many
// values, of the same types. The terms may have different types. Throws UserError if counts or
// types do not match.
Tuple reduce(const std::function<Values(const Values &, const Values &)> &combiner, const Values &identities,
             const Values &terms, const AxisList &axes, CombinerProperties properties = {},
             Place where = Place::current());

} // namespace kumiko
