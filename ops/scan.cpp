#include "ops/scan.h"

#include "dsl/scan.h"
#include "ops/elementwise.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::ops {

Op cumulative_sum(Type t, const std::vector<Expr> &extents, int axis, bool exclusive) {
    const int rank = static_cast<int>(extents.size()), at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank)
        throw UserError(fmt::format("cumulative_sum: axis {} is not one of the {} axes", axis, rank));
    std::vector<Axis> axes;
    for (int d = 0; d < rank; d++) axes.emplace_back(fmt::format("i{}", d), extents[d]);
    const Type acc = accumulator_type(t), out = t.is_float() ? t : acc;
    const Tensor X = input("X", t, axes);
    std::vector<Expr> index(axes.begin(), axes.end());
    if (exclusive) index[at] = axes[at] - 1;
    const Element x = (exclusive ? zero_padded(X, {axes[at]}) : X).at(index);
    const Element sum = scan([](Expr a, Expr b) { return a + b; }, 0, acc == t ? x : cast(acc, x), axes[at]);
    return Op("cumulative_sum", {X}, {compute("Y", axes, acc == out ? sum : cast(out, sum))});
}

} // namespace kumiko::ops
