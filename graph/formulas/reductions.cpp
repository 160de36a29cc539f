// Operators that reduce axes, and those along one axis: softmax, cumulative sums, the largest.
#include "dsl/math.h"
#include "dsl/reduction.h"
#include "dsl/scan.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"

#include <fmt/format.h>

namespace kumiko::graph {

namespace {

Element smallest(Type t) { return is_floating(t) ? number(t, -INFINITY) : Element(t.min()); }
Element largest(Type t) { return is_floating(t) ? number(t, INFINITY) : Element(t.max()); }

// The axes that a node reduces; all if it names none.
std::vector<size_t> reduced_axes(Call &c, int since) {
    const size_t rank = c.extents(0).size();
    const std::vector<int64_t> named =
        c.node.opset >= since ? (c.has(1) ? c.integers(1) : std::vector<int64_t>{}) : c.node.integers("axes");
    if (!named.empty()) return c.axes(named, rank);
    std::vector<size_t> all;
    if (c.node.integer("noop_with_empty_axes", 0) != 0) return all;
    for (size_t d = 0; d < rank; d++) all.push_back(d);
    return all;
}

// Gives the reduction of the view's elements over axes, kept with one element. `fold` makes the
// reduction of an element over loops; without loops `alone` of it is the result.
View reduced(
    Call &c, const View &v, Type type, const std::vector<size_t> &axes,
    const std::function<Element(const Element &, const std::vector<Axis> &)> &fold,
    const std::function<Element(const Element &)> &alone = [](const Element &e) { return e; }) {
    std::vector<Axis> loops;
    for (const size_t d : axes) loops.push_back(c.loop(v.extents[d]));
    Extents extents = v.extents;
    for (const size_t d : axes) extents[d] = 1;
    return {type, extents, [=](const Indices &indices) -> Element {
                Indices inner = indices;
                for (size_t n = 0; n < axes.size(); n++) inner[axes[n]] = loops[n];
                const Element e = v.at(inner);
                return loops.empty() ? alone(e) : fold(e, loops);
            }};
}

Extents without(const Extents &extents, const std::vector<size_t> &axes, bool keep) {
    if (keep) return extents;
    Extents left;
    for (size_t d = 0; d < extents.size(); d++) {
        if (std::find(axes.begin(), axes.end(), d) == axes.end()) left.push_back(extents[d]);
    }
    return left;
}

enum class Kind { Sum, Mean, Max, Min, Product, L1, L2, LogSum, LogSumExp, SumSquare };

// Maximum and minimum of the row with NaN, if there is one, as NumPy's.
Element extreme(const Element &e, const std::vector<Axis> &loops, bool max) {
    const Type t = e.type();
    if (t == boolean) {
        const Element wide = cast(u8, e);
        return cast(boolean, max ? maximum(wide, loops) : minimum(wide, loops));
    }
    if (!is_floating(t)) return max ? maximum(e, loops) : minimum(e, loops);
    const auto pick = [max](Expr a, Expr b) -> Expr {
        const Element x = a, y = b;
        return select(x != x, x, y != y, y, max ? Element(kumiko::max(x, y)) : Element(kumiko::min(x, y)));
    };
    return reduce(pick, max ? smallest(t) : largest(t), e, loops, {.associative = true, .commutative = true});
}

// Sums of elements of a type, which wrap.
View summed(Call &c, const View &v, Type type, const std::vector<size_t> &axes) {
    return reduced(c, converted(v, type), type, axes, [](const Element &e, const std::vector<Axis> &l) -> Element {
        const Type own = e.type(), bits = wrapping(own);
        return cast(own, sum(Element(cast(bits, e)), l));
    });
}

// log(Σ exp(x − m)) + m with the maximum m, so that no power overflows.
View log_sum_exp(Call &c, const View &x, Type type, const std::vector<size_t> &axes) {
    const View wide = converted(x, type);
    const View most = c.stored(
        reduced(c, wide, type, axes, [](const Element &e, const std::vector<Axis> &l) { return extreme(e, l, true); }),
        "most");
    const auto finite = [](const Element &m) -> Element { return select(is_inf(m), number(m.type(), 0), m); };
    const View shifted = zipped(c, wide, most, type, [=](const Element &e, const Element &m) -> Element {
        return exp(Element(e - finite(m)));
    });
    const View sums = reduced(c, shifted, type, axes,
                              [](const Element &e, const std::vector<Axis> &l) -> Element { return sum(e, l); });
    return zipped(c, sums, most, type,
                  [=](const Element &s, const Element &m) -> Element { return log(s) + finite(m); });
}

// The elements folded over the axes, each kept with one element.
View folded(Call &c, const View &x, Kind kind, const std::vector<size_t> &axes) {
    // In integers, roots and logarithms are rounded once at the end.
    const Type sum_type = accumulator(x.type), real = is_floating(x.type) ? sum_type : f64;
    const auto squared = [](const Element &e) { return multiply(e, e); };
    const auto plain_sum = [](const Element &e, const std::vector<Axis> &l) -> Element { return sum(e, l); };
    switch (kind) {
    case Kind::Sum:
        return summed(c, x, sum_type, axes);
    case Kind::Mean: {
        double count = 1;
        for (const size_t d : axes) count *= static_cast<double>(x.extents[d]);
        return mapped(summed(c, x, sum_type, axes), sum_type, [count](const Element &e) -> Element {
            if (is_floating(e.type())) return e / number(e.type(), count);
            return Element(Halide::div_round_to_zero(Expr(e), Expr(number(e.type(), count))));
        });
    }
    case Kind::Max:
    case Kind::Min:
        return reduced(c, x, x.type, axes, [kind](const Element &e, const std::vector<Axis> &l) {
            return extreme(e, l, kind == Kind::Max);
        });
    case Kind::Product:
        return reduced(c, converted(x, sum_type), sum_type, axes,
                       [](const Element &e, const std::vector<Axis> &l) -> Element {
                           const Type own = e.type(), bits = wrapping(own);
                           return cast(own, product(Element(cast(bits, e)), l)); // wraps
                       });
    case Kind::L1:
        return summed(c, mapped(x, x.type, absolute), sum_type, axes);
    case Kind::L2:
        return mapped(reduced(c, mapped(converted(x, real), real, squared), real, axes, plain_sum), real,
                      [](const Element &e) -> Element { return sqrt(e); });
    case Kind::SumSquare:
        return summed(c, mapped(converted(x, sum_type), sum_type, squared), sum_type, axes);
    case Kind::LogSum:
        return mapped(reduced(c, converted(x, real), real, axes, plain_sum), real,
                      [](const Element &e) -> Element { return log(e); });
    case Kind::LogSumExp:
        return log_sum_exp(c, x, real, axes);
    }
    return x;
}

Formula reduction(Kind kind, int since) {
    return [=](Call &c) -> Results {
        const std::vector<size_t> axes = reduced_axes(c, since);
        const bool keep = c.node.integer("keepdims", 1) != 0;
        const View x = c.in(0);
        const View made = folded(c, x, kind, axes);
        return {reshaped(converted(made, x.type), without(made.extents, axes, keep))};
    };
}

Formula index_of_extreme(bool max) {
    return [=](Call &c) -> Results {
        const View x = c.in(0);
        const size_t axis = c.axis(c.node.integer("axis", 0), x.rank());
        const bool last = c.node.integer("select_last_index", 0) != 0;
        const int64_t extent = x.extents[axis];
        if (extent == 0) c.fail(fmt::format("the index of an extreme of axis {}, which has no elements", axis));
        View from = x;
        if (last) { // the first of the reversed row
            from.at = [=](const Indices &i) {
                Indices reversed = i;
                reversed[axis] = static_cast<int>(extent - 1) - i[axis];
                return x.at(reversed);
            };
        }
        View made = reduced(c, from, i64, {axis}, [=](const Element &e, const std::vector<Axis> &l) -> Element {
            const Element at = max ? Element(argmax(e, l)) : Element(argmin(e, l));
            return cast(i64, last ? Element(Expr(static_cast<int>(extent - 1)) - Expr(at)) : at);
        });
        return {reshaped(made, without(made.extents, {axis}, c.node.integer("keepdims", 1) != 0))};
    };
}

// Softmax and its like along an axis, or before set 13 along that axis and all after it.
enum class Soft { Softmax, LogSoftmax, Hardmax };

Formula softmax(Soft kind) {
    return [=](Call &c) -> Results {
        const View x = c.in(0);
        const bool flattens = c.node.opset < 13;
        const size_t axis = x.rank() == 0 ? 0 : c.axis(c.node.integer("axis", flattens ? 1 : -1), x.rank());
        const Type t = x.type, in = accumulator(t);
        if (kind == Soft::Hardmax) {
            int64_t outside = 1, row = 1, inside = 1;
            for (size_t d = 0; d < x.rank(); d++)
                (d < axis ? outside : d == axis || flattens ? row : inside) *= x.extents[d];
            const View rows = reshaped(converted(x, in), {outside, row, inside});
            const View first =
                c.stored(reduced(c, rows, i32, {1},
                                 [](const Element &e, const std::vector<Axis> &l) -> Element { return argmax(e, l); }),
                         "first");
            const View made = {t, rows.extents, [=](const Indices &i) -> Element {
                                   const Element at = first.at({i[0], 0, i[2]});
                                   return select(at == Element(i[1]), number(t, 1), number(t, 0));
                               }};
            return {reshaped(made, x.extents)};
        }
        std::vector<size_t> axes;
        for (size_t d = axis; d < x.rank() && (d == axis || flattens); d++) axes.push_back(d);
        const View rows = converted(x, in);
        // A row with NaN has it in its sum, whatever its maximum.
        const View most =
            c.stored(reduced(c, rows, in, axes,
                             [](const Element &e, const std::vector<Axis> &l) -> Element { return maximum(e, l); }),
                     "most");
        const View powers = zipped(c, rows, most, in,
                                   [](const Element &e, const Element &m) -> Element { return exp(Element(e - m)); });
        const View sums =
            c.stored(reduced(c, powers, in, axes,
                             [](const Element &e, const std::vector<Axis> &l) -> Element { return sum(e, l); }),
                     "sums");
        View made = powers;
        if (kind == Soft::Softmax)
            made = zipped(c, powers, sums, in, [](const Element &p, const Element &s) -> Element { return p / s; });
        else
            made = zipped(c, zipped(c, rows, most, in, subtract), sums, in,
                          [](const Element &e, const Element &s) -> Element { return e - log(s); });
        return {reshaped(converted(made, t), x.extents)};
    };
}

Formula cumulative(bool products) {
    return [=](Call &c) -> Results {
        const View x = c.in(0);
        const size_t axis = c.axis(c.integers(1).at(0), x.rank());
        const bool exclusive = c.node.integer("exclusive", 0) != 0, reverse = c.node.integer("reverse", 0) != 0;
        const Type t = x.type, in = accumulator(t);
        const Type bits = wrapping(in);
        const int64_t extent = x.extents[axis];
        const std::vector<Axis> axes = c.ranging(x.extents);
        Indices at(axes.begin(), axes.end());
        const Expr own = at[axis];
        const Expr from = reverse ? static_cast<int>(extent - 1) - own : own;
        Element e = number(bits, products ? 1 : 0);
        if (exclusive) { // the term before; the first has none
            at[axis] = reverse ? clamp(from + 1, 0, static_cast<int>(extent - 1))
                               : clamp(from - 1, 0, static_cast<int>(extent - 1));
            e = select(own == 0, e, Element(cast(bits, x.at(at))));
        } else {
            at[axis] = from;
            e = cast(bits, x.at(at));
        }
        const auto join = [=](Expr a, Expr b) -> Expr { return products ? a * b : a + b; };
        const Tensor running =
            compute("running", axes, cast(t, scan(join, number(bits, products ? 1 : 0), e, axes[axis])));
        const View made = view_of(running);
        if (!reverse) return {made};
        return {View{t, x.extents, [=](const Indices &i) {
                         Indices reversed = i;
                         reversed[axis] = static_cast<int>(extent - 1) - i[axis];
                         return made.at(reversed);
                     }}};
    };
}

Element is_nan_of(const Element &e) {
    return is_floating(e.type()) ? Element(e != e) : Element(cast(boolean, Expr(0)));
}

// By counting the elements that come before each one: equal values in the order of their indices.
Results top_k_operator(Call &c) {
    const View x = c.in(0);
    const int64_t k = c.node.opset >= 10 ? c.integers(1).at(0) : c.node.integer("k", -1);
    const size_t axis = c.axis(c.node.integer("axis", -1), x.rank());
    const bool most = c.node.integer("largest", 1) != 0;
    const int64_t extent = x.extents[axis];
    if (k < 0 || k > extent) c.fail(fmt::format("the {} largest of {} elements", k, extent));
    const Axis other = c.loop(extent), place = c.loop(extent);
    const View rank =
        c.stored({i32, x.extents,
                  [=](const Indices &i) -> Element {
                      Indices j = i;
                      j[axis] = other;
                      const Element own = x.at(i), e = x.at(j);
                      // NaN is the largest, so that the order is total.
                      const Element nan = is_nan_of(e), own_nan = is_nan_of(own);
                      const Element earlier =
                          most ? Element(e > own || (nan && !own_nan)) : Element(e < own || (own_nan && !nan));
                      const Element equal = (e == own || (nan && own_nan)) && Element(Expr(other) < i[axis]);
                      return sum(Element(cast(i32, earlier || equal)), other);
                  }},
                 "place");
    Extents extents = x.extents;
    extents[axis] = k;
    // The position whose place is the index.
    const View position = c.stored({i32, extents,
                                    [=](const Indices &i) -> Element {
                                        Indices j = i;
                                        j[axis] = place;
                                        const Element here = rank.at(j) == Element(i[axis]);
                                        return sum(select(here, Element(Expr(place)), Element(Expr(0))), place);
                                    }},
                                   "position");
    const View values = {x.type, extents, [=](const Indices &i) {
                             Indices j = i;
                             j[axis] = clamp(position.at(i), 0, static_cast<int>(std::max<int64_t>(extent - 1, 0)));
                             return x.at(j);
                         }};
    return {values, converted(position, i64)};
}

} // namespace

std::vector<Operator> reduction_operators() {
    return {
        {"ReduceSum", 1, reduction(Kind::Sum, 13)},
        {"ReduceMean", 1, reduction(Kind::Mean, 18)},
        {"ReduceMax", 1, reduction(Kind::Max, 18)},
        {"ReduceMin", 1, reduction(Kind::Min, 18)},
        {"ReduceProd", 1, reduction(Kind::Product, 18)},
        {"ReduceL1", 1, reduction(Kind::L1, 18)},
        {"ReduceL2", 1, reduction(Kind::L2, 18)},
        {"ReduceLogSum", 1, reduction(Kind::LogSum, 18)},
        {"ReduceLogSumExp", 1, reduction(Kind::LogSumExp, 18)},
        {"ReduceSumSquare", 1, reduction(Kind::SumSquare, 18)},
        {"ArgMax", 1, index_of_extreme(true)},
        {"ArgMin", 1, index_of_extreme(false)},
        {"Softmax", 1, softmax(Soft::Softmax)},
        {"LogSoftmax", 1, softmax(Soft::LogSoftmax)},
        {"Hardmax", 1, softmax(Soft::Hardmax)},
        {"CumSum", 11, cumulative(false)},
        {"CumProd", 26, cumulative(true)},
        {"TopK", 1, top_k_operator},
    };
}

} // namespace kumiko::graph
