#include "ops/scan.h"

#include "dsl/scan.h"
#include "ops/elementwise.h"
#include "ops/positions.h"

namespace kumiko::ops {

Op cumulative_sum(Type t, const std::vector<Expr> &extents, int axis, bool exclusive) {
    const int at = axis_position("cumulative_sum", axis, extents.size());
    const std::vector<Axis> axes = numbered_axes(extents);
    const Type acc = accumulator_type(t), out = t.is_float() ? t : acc;
    const Tensor X = input("X", t, axes);
    std::vector<Expr> index(axes.begin(), axes.end());
    if (exclusive) index[at] = axes[at] - 1;
    const Element x = (exclusive ? zero_padded(X, {axes[at]}) : X).at(index);
    const Element sum = scan([](Expr a, Expr b) { return a + b; }, 0, acc == t ? x : cast(acc, x), axes[at]);
    return Op("cumulative_sum", {X}, {compute("Y", axes, acc == out ? sum : cast(out, sum))});
}

} // namespace kumiko::ops
