#include "ops/attention.h"

#include "dsl/types.h"
#include "ops/elementwise.h"
#include "support/error.h"

#include <cmath>
#include <fmt/format.h>

namespace kumiko::ops {

namespace {

Expr scale_of(Type t, const Expr &D, double stated) {
    if (stated != 0) return Halide::Internal::make_const(t, stated);
    if (const auto n = Halide::Internal::as_const_int(D))
        return Halide::Internal::make_const(t, 1 / std::sqrt(static_cast<double>(*n)));
    return rsqrt(cast(t, Element(D)));
}

void check(Type t, int heads, int groups, const Expr &D, double scale) {
    if (!t.is_float()) throw UserError("attention takes floats, not " + type_name(t));
    if (heads < 1) throw UserError(fmt::format("attention: heads is {}; legal is 1 or more", heads));
    if (groups < 1 || heads % groups)
        throw UserError(fmt::format("attention: {} groups of keys do not divide the {} heads", groups, heads));
    if (const auto n = Halide::Internal::as_const_int(D); n && *n < 1)
        throw UserError(fmt::format("attention: keys have {} elements; legal is 1 or more", *n));
    if (!std::isfinite(scale)) throw UserError(fmt::format("attention: the scale is {}; legal is a number", scale));
}

} // namespace

Op attention(Type t, const Expr &B, int heads, const Expr &S, const Expr &T, const Expr &D, const AttentionOptions &o) {
    const int groups = o.groups ? o.groups : heads;
    check(t, heads, groups, D, o.scale);
    const Type f = accumulator_type(t);
    const auto in = [&](const Element &e) { return e.type() == f ? Expr(e) : cast(f, e); };
    Axis b("b", B), g("g", groups), r("r", heads / groups), i("i", S), j("j", T), d("d", D),
        v("v", o.values.defined() ? o.values : D);
    Tensor Q = input("Q", t, {b, g, r, i, d}), K = input("K", t, {b, g, j, d}), V = input("V", t, {b, g, j, v});

    // Keys are outside of queries, so that max and sum over keys are vectorized over queries.
    Tensor score = compute("score", {b, g, r, j, i}, sum(in(Q(b, g, r, i, d)) * in(K(b, g, j, d)), d));
    const Element s = score(b, g, r, j, i) * scale_of(f, D, o.scale);
    const Expr none = Halide::Internal::FloatImm::make(f, -std::numeric_limits<double>::infinity());
    const Expr seen = o.causal ? Expr(select(j <= i + T - S, s, none)) : Expr(s);
    Tensor top = compute("max", {b, g, r, i}, maximum(seen, j));
    Tensor e = compute("e", {b, g, r, j, i}, exp(Element(seen - top(b, g, r, i))));
    Tensor total = compute("sum", {b, g, r, i}, sum(e(b, g, r, j, i), j));
    Tensor share = compute("share", {b, g, r, i}, 1 / total(b, g, r, i)); // one division per row
    Tensor mixed = compute("mixed", {b, g, r, i, v}, sum(e(b, g, r, j, i) * in(V(b, g, j, v)), j));
    const Expr value = mixed(b, g, r, i, v) * share(b, g, r, i);
    return Op("attention", {Q, K, V}, {compute("Y", {b, g, r, i, v}, cast(t, Element(value)))});
}

} // namespace kumiko::ops
