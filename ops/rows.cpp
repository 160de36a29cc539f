#include "ops/rows.h"

#include "dsl/top_k.h"
#include "ops/elementwise.h"
#include "ops/groups.h"
#include "ops/positions.h"
#include "support/error.h"
#include "support/names.h"

#include <cmath>
#include <fmt/format.h>

namespace kumiko::ops {

namespace {

// The type of the computation: f32 or wider.
Type compute_type(Type t, const char *op) {
    if (!t.is_float()) throw UserError(std::string(op) + " takes floats, not " + type_name(t));
    return accumulator_type(t);
}

Expr in(Type t, const Expr &e) { return e.type() == t ? e : cast(t, e); }

void need_eps(const char *op, double eps) {
    if (!(eps >= 0 && std::isfinite(eps)))
        throw UserError(
            fmt::format("{}: eps is {}; legal are 0 and more, for roots are taken of variances with it", op, eps));
}

} // namespace

const std::vector<std::string> &reduction_kinds() {
    static const std::vector<std::string> kinds = {"sum", "product", "max", "min", "mean", "argmax", "argmin"};
    return kinds;
}

Op reduction(const std::string &kind, Type t, const std::vector<Expr> &extents, std::vector<int> over) {
    if (std::find(reduction_kinds().begin(), reduction_kinds().end(), kind) == reduction_kinds().end()) {
        throw UserError("unknown reduction \"" + kind + "\"" + suggest(kind, reduction_kinds()));
    }
    const int rank = static_cast<int>(extents.size());
    if (rank == 0) throw UserError("reduction: the array needs at least one axis");
    if (over.empty()) {
        for (int d = 0; d < rank; d++) over.push_back(d);
    }
    std::vector<bool> reduced(extents.size(), false);
    for (int d : over) {
        const int axis = d < 0 ? d + rank : d;
        if (axis < 0 || axis >= rank) {
            throw UserError("reduction: axis " + std::to_string(d) + " is not one of the " + std::to_string(rank) +
                            " axes");
        }
        if (reduced[axis]) throw UserError("reduction: axis " + std::to_string(d) + " is named twice");
        reduced[axis] = true;
    }
    std::vector<Axis> all, kept, gone;
    Expr count = 1;
    for (int d = 0; d < rank; d++) {
        all.emplace_back(fmt::format("i{}", d), extents[d]);
        (reduced[d] ? gone : kept).push_back(all.back());
        if (reduced[d]) count = count * extents[d];
    }
    Tensor X = input("X", t, all);
    const Expr x = X.at(std::vector<Expr>(all.begin(), all.end()));
    const Type acc = kind == "sum" || kind == "mean" || kind == "product" ? accumulator_type(t) : t;
    const Type out = t.is_float() || kind == "max" || kind == "min" ? t : kind.starts_with("arg") ? Int(32) : acc;
    Expr value;
    if (kind == "sum") value = sum(in(acc, x), gone);
    if (kind == "product") value = product(in(acc, x), gone);
    if (kind == "max") value = maximum(x, gone);
    if (kind == "min") value = minimum(x, gone);
    if (kind == "argmax") value = argmax(x, gone);
    if (kind == "argmin") value = argmin(x, gone);
    if (kind == "mean") value = sum(in(acc, x), gone) / cast(acc, count);
    return Op("reduce_" + kind, {X}, {compute("Y", kept, kind.starts_with("arg") ? value : in(out, value))});
}

namespace {

// A tensor as rows along one axis. `k` runs along the row in reductions.
struct Rows {
    std::vector<Axis> axes, others;
    size_t at; // the position of the axis
    Axis k;
    // Indices of an element, of the element at k, and of a row.
    std::vector<Expr> element, step, row;

    Rows(const std::vector<Axis> &all, size_t along) : axes(all), at(along), k("k", all[along].extent()) {
        for (size_t d = 0; d < all.size(); d++) {
            element.push_back(all[d]);
            step.push_back(d == along ? Expr(k) : Expr(all[d]));
            if (d == along) continue;
            others.push_back(all[d]);
            row.push_back(all[d]);
        }
    }
    // Axes i0, i1, … with the given extents. Throws UserError unless `axis`, which counts from the
    // end if negative, is one of them.
    static Rows along(const char *op, const std::vector<Expr> &extents, int axis) {
        return {numbered_axes(extents), static_cast<size_t>(axis_position(op, axis, extents.size()))};
    }
};

Op softmax_of(Type t, const Rows &r) {
    const Type c = compute_type(t, "softmax");
    Tensor X = input("X", t, r.axes);
    Tensor top = compute("max", r.others, maximum(X.at(r.step), r.k));
    Tensor e = compute("e", r.axes, exp(in(c, X.at(r.element)) - in(c, top.at(r.row))));
    Tensor total = compute("sum", r.others, sum(e.at(r.step), r.k));
    Tensor share = compute("share", r.others, 1 / total.at(r.row)); // one division per row
    return Op("softmax", {X}, {compute("Y", r.axes, in(t, e.at(r.element) * share.at(r.row)))});
}

// log of the sum over k of exp(x(k) - top), where top is the maximum. Computed as log1p of the sum
// without one maximum, which keeps the relative accuracy if one element dominates. Elements equal
// to the maximum are counted separately.
Expr log_of_sum(const Type &c, const Tensor &X, const Tensor &top, const Rows &r) {
    const Expr x = in(c, X.at(r.step)), most = in(c, top.at(r.row)), zero = Halide::Internal::make_zero(c),
               one = Halide::Internal::make_one(c);
    Tensor ties = compute("ties", r.others, sum(select(x == most, one, zero), r.k));
    Tensor rest = compute("rest", r.others, sum(select(x == most, zero, exp(x - most)), r.k));
    return log1p(rest.at(r.row) + (ties.at(r.row) - one));
}

Op log_softmax_of(Type t, const Rows &r) {
    const Type c = compute_type(t, "log_softmax");
    Tensor X = input("X", t, r.axes);
    Tensor top = compute("max", r.others, maximum(X.at(r.step), r.k));
    Tensor shift = compute("shift", r.others, -log_of_sum(c, X, top, r));
    return Op("log_softmax", {X},
              {compute("Y", r.axes, in(t, shift.at(r.row) + (in(c, X.at(r.element)) - in(c, top.at(r.row)))))});
}

Rows rows_of(const Expr &M, const Expr &N) { return {{Axis("i", M), Axis("j", N)}, 1}; }

} // namespace

Op softmax(Type t, const Expr &M, const Expr &N) { return softmax_of(t, rows_of(M, N)); }
Op softmax(Type t, const std::vector<Expr> &extents, int axis) {
    return softmax_of(t, Rows::along("softmax", extents, axis));
}

Op log_softmax(Type t, const Expr &M, const Expr &N) { return log_softmax_of(t, rows_of(M, N)); }
Op log_softmax(Type t, const std::vector<Expr> &extents, int axis) {
    return log_softmax_of(t, Rows::along("log_softmax", extents, axis));
}

Op top_k(Type t, const std::vector<Expr> &extents, int axis, int k) {
    const Rows r = Rows::along("top_k", extents, axis);
    Tensor X = input("X", t, r.axes);
    std::vector<Axis> axes = r.axes;
    const Axis n("n", k);
    axes[r.at] = n;
    const Extreme best = kumiko::top_k(X.at(r.step), r.k, n);
    return Op("top_k", {X}, {compute("Y", axes, best.value), compute("P", axes, best)});
}

Op logsumexp(Type t, const Expr &M, const Expr &N) {
    const Type c = compute_type(t, "logsumexp");
    const Rows r = rows_of(M, N);
    Tensor X = input("X", t, r.axes);
    Tensor top = compute("max", r.others, maximum(X.at(r.step), r.k));
    return Op("logsumexp", {X}, {compute("Y", r.others, in(t, in(c, top.at(r.row)) + log_of_sum(c, X, top, r)))});
}

Op layer_norm(Type t, const Expr &M, const Expr &N, double eps) {
    const Type c = compute_type(t, "layer_norm");
    need_eps("layer_norm", eps);
    Axis i("i", M), j("j", N), k("k", N);
    Tensor X = input("X", t, {i, j}), gamma = input("gamma", t, {j}), beta = input("beta", t, {j});
    Tensor mean = compute("mean", {i}, sum(in(c, X(i, k)), k) / cast(c, N));
    Tensor variance = compute("variance", {i}, sum(square(in(c, X(i, k)) - mean(i)), k) / cast(c, N));
    const Expr z = (in(c, X(i, j)) - mean(i)) * rsqrt(variance(i) + Halide::Internal::make_const(c, eps));
    return Op("layer_norm", {X, gamma, beta}, {compute("Y", {i, j}, in(t, z * in(c, gamma(j)) + in(c, beta(j))))});
}

Op rms_norm(Type t, const Expr &M, const Expr &N, double eps) {
    const Type c = compute_type(t, "rms_norm");
    need_eps("rms_norm", eps);
    Axis i("i", M), j("j", N), k("k", N);
    Tensor X = input("X", t, {i, j}), gamma = input("gamma", t, {j});
    Tensor mean = compute("mean", {i}, sum(square(in(c, X(i, k))), k) / cast(c, N));
    const Expr z = in(c, X(i, j)) * rsqrt(mean(i) + Halide::Internal::make_const(c, eps));
    return Op("rms_norm", {X, gamma}, {compute("Y", {i, j}, in(t, z * in(c, gamma(j))))});
}

Op batch_norm(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, double eps, bool channels_last) {
    const Type f = compute_type(t, "batch_norm");
    need_eps("batch_norm", eps);
    Axis n("n", N), c("c", C), y("y", H), x("x", W);
    const std::vector<Axis> axes = channels_last ? std::vector<Axis>{n, y, x, c} : std::vector<Axis>{n, c, y, x};
    Tensor X = input("X", t, axes), mean = input("mean", t, {c}), variance = input("variance", t, {c}),
           gamma = input("gamma", t, {c}), beta = input("beta", t, {c});
    Tensor scale =
        compute("scale", {c}, in(f, gamma(c)) * rsqrt(in(f, variance(c)) + Halide::Internal::make_const(f, eps)));
    Tensor shift = compute("shift", {c}, in(f, beta(c)) - in(f, mean(c)) * scale(c));
    const Expr value = in(f, X.at(std::vector<Expr>(axes.begin(), axes.end()))) * scale(c) + shift(c);
    return Op("batch_norm", {X, mean, variance, gamma, beta}, {compute("Y", axes, in(t, value))});
}

Op group_norm(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int groups, double eps,
              bool channels_last) {
    const Type f = compute_type(t, "group_norm");
    need_eps("group_norm", eps);
    const auto channels = Halide::Internal::as_const_int(C);
    if (groups < 1 || (channels && *channels % groups))
        throw UserError(fmt::format("group_norm: {} groups do not divide the {} channels", groups,
                                    channels ? std::to_string(*channels) : "given"));
    Axis n("n", N), g("g", groups), c("c", Halide::Internal::simplify(C / groups));
    // If H · W is symbolic, an array of that axis would not determine H and W.
    const Expr all = Halide::Internal::simplify(H * W);
    std::vector<Axis> over = {Axis("s", all)};
    if (!Halide::Internal::is_const(all)) over = {Axis("y", H), Axis("x", W)};
    std::vector<Axis> axes = over;
    axes.insert(channels_last ? axes.end() : axes.begin(), {g, c});
    axes.insert(axes.begin(), n);
    over.insert(channels_last ? over.end() : over.begin(), c);
    Tensor X = input("X", t, axes), gamma = input("gamma", t, {g, c}), beta = input("beta", t, {g, c});
    const Expr x = in(f, X.at(std::vector<Expr>(axes.begin(), axes.end()))), count = cast(f, c.extent() * all);
    Tensor mean = compute("mean", {n, g}, sum(x, over) / count);
    Tensor variance = compute("variance", {n, g}, sum(square(x - mean(n, g)), over) / count);
    const Expr z = (x - mean(n, g)) * rsqrt(variance(n, g) + Halide::Internal::make_const(f, eps));
    const Expr value = z * in(f, gamma(g, c)) + in(f, beta(g, c));
    return Op("group_norm", {X, gamma, beta}, {compute("Y", axes, in(t, value))}, whole_groups({C}, groups));
}

} // namespace kumiko::ops
