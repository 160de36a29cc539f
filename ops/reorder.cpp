#include "ops/reorder.h"

#include "dsl/padding.h"
#include "dsl/scatter.h"
#include "dsl/types.h"
#include "ops/elementwise.h"
#include "ops/positions.h"
#include "support/error.h"

#include <cmath>
#include <fmt/format.h>

namespace kumiko::ops {

Op transpose(Type t, const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", t, {i, j});
    return Op("transpose", {X}, {compute("Y", {j, i}, X(i, j))});
}

namespace {

void need_rows(const char *op, const Expr &N) {
    if (const auto n = Halide::Internal::as_const_int(N); n && *n < 1)
        throw UserError(std::string(op) + ": its table has n = " + std::to_string(*n) + " rows; at least 1 is needed");
}

} // namespace

Op gather(Type t, const Expr &M, const Expr &N, const Expr &W) {
    need_rows("gather", N);
    Axis i("i", M), j("j", W), row("row", N);
    Tensor X = input("X", t, {row, j}), index = input("index", Int(32), {i});
    return Op("gather", {X, index}, {compute("Y", {i, j}, X(clamp(index(i), 0, N - 1), j))});
}

Op embedding(Type t, const Expr &B, const Expr &S, const Expr &N, const Expr &W) {
    need_rows("embedding", N);
    Axis b("b", B), s("s", S), j("j", W), row("row", N);
    Tensor table = input("table", t, {row, j}), token = input("token", Int(32), {b, s});
    return Op("embedding", {table, token}, {compute("Y", {b, s, j}, table(clamp(token(b, s), 0, N - 1), j))});
}

Op embedding_gradient(Type t, const Expr &B, const Expr &S, const Expr &N, const Expr &W) {
    need_rows("embedding_gradient", N);
    Axis b("b", B), s("s", S), j("j", W), row("row", N);
    Tensor dY = input("dY", t, {b, s, j}), token = input("token", Int(32), {b, s});
    const Type acc = accumulator_type(t);
    const Element d = acc == t ? dY(b, s, j) : cast(acc, dY(b, s, j));
    const Element sums = scatter(sum, d, row, clamp(token(b, s), 0, N - 1), {b, s});
    const bool narrow = t.is_float() && acc != t;
    return Op("embedding_gradient", {dY, token}, {compute("dtable", {row, j}, narrow ? cast(t, sums) : sums)});
}

namespace {

using std::vector;

vector<Expr> indices_of(const vector<Axis> &axes) { return vector<Expr>(axes.begin(), axes.end()); }

template<typename T>
vector<T> of_each_axis(const char *op, const char *what, const vector<T> &list, size_t rank, const T &otherwise) {
    if (list.empty()) return vector<T>(rank, otherwise);
    if (list.size() != rank)
        throw UserError(
            fmt::format("{}: {} has {} numbers, but the array has {} axes; legal is one for each axis, or none", op,
                        what, list.size(), rank));
    return list;
}

void need_axes(const char *op, size_t rank) {
    if (rank == 0) throw UserError(fmt::format("{}: the array needs at least one axis", op));
}

void need(const char *op, const char *what, size_t d, int value, bool good, const char *legal) {
    if (!good) throw UserError(fmt::format("{}: {} of axis {} is {}; legal is {}", op, what, d, value, legal));
}

// The number as a constant of the type.
Expr constant(const char *op, const char *what, Type t, double value) {
    const bool whole = t.is_float() || value == std::floor(value);
    const double low = t.is_uint() ? 0 : -std::ldexp(1.0, t.bits() - 1), end = std::ldexp(1.0, t.bits() - t.is_int());
    if (!whole || (!t.is_float() && !(value >= low && value < end)))
        throw UserError(fmt::format("{}: {} is {}; legal are values of {}", op, what, value, type_name(t)));
    return Halide::Internal::make_const(t, value);
}

} // namespace

Op permute(Type t, const vector<Expr> &extents, const vector<int> &order) {
    need_axes("permute", extents.size());
    const vector<Axis> axes = numbered_axes(extents);
    vector<Axis> to;
    vector<bool> taken(axes.size(), false);
    for (const int d : order) {
        if (d < 0 || d >= static_cast<int>(axes.size()) || taken[d])
            throw UserError(fmt::format("permute: order has {}{}; legal is each position from 0 to {} once", d,
                                        d >= 0 && d < static_cast<int>(axes.size()) ? " twice" : "", axes.size() - 1));
        taken[d] = true;
        to.push_back(axes[d]);
    }
    if (to.size() != axes.size())
        throw UserError(fmt::format("permute: order has {} positions, but the array has {} axes; legal is each once",
                                    to.size(), axes.size()));
    const Tensor X = input("X", t, axes);
    return Op("permute", {X}, {compute("Y", to, X.at(indices_of(axes)))});
}

Op pad(Type t, const vector<Expr> &extents, const vector<int> &before, const vector<int> &after, double value) {
    need_axes("pad", extents.size());
    const vector<int> low = of_each_axis("pad", "before", before, extents.size(), 0);
    const vector<int> high = of_each_axis("pad", "after", after, extents.size(), 0);
    vector<Expr> padded, index;
    vector<Axis> outside; // the padded axes
    const vector<Axis> source = numbered_axes(extents);
    for (size_t d = 0; d < extents.size(); d++) {
        need("pad", "before", d, low[d], low[d] >= 0, "0 or more");
        need("pad", "after", d, high[d], high[d] >= 0, "0 or more");
        padded.push_back(extents[d] + (low[d] + high[d]));
        if (low[d] || high[d]) outside.push_back(source[d]);
    }
    const vector<Axis> axes = numbered_axes(padded);
    for (size_t d = 0; d < axes.size(); d++) index.push_back(low[d] ? axes[d] - low[d] : Expr(axes[d]));
    const Tensor X = input("X", t, source);
    const Expr around = constant("pad", "value", t, value);
    return Op("pad", {X}, {compute("Y", axes, (outside.empty() ? X : constant_padded(X, around, outside)).at(index))});
}

Op slice(Type t, const vector<Expr> &extents, const vector<Expr> &taken, const vector<int> &begin,
         const vector<int> &step) {
    need_axes("slice", extents.size());
    if (taken.size() != extents.size())
        throw UserError(fmt::format("slice: {} extents are taken of an array of {} axes; legal is one for each axis",
                                    taken.size(), extents.size()));
    const vector<int> first = of_each_axis("slice", "begin", begin, extents.size(), 0);
    const vector<int> by = of_each_axis("slice", "step", step, extents.size(), 1);
    const vector<Axis> axes = numbered_axes(taken);
    vector<Expr> index;
    for (size_t d = 0; d < axes.size(); d++) {
        need("slice", "begin", d, first[d], first[d] >= 0, "0 or more");
        need("slice", "step", d, by[d], by[d] != 0, "any number but 0");
        const auto size = Halide::Internal::as_const_int(extents[d]), n = Halide::Internal::as_const_int(taken[d]);
        const int64_t last = n ? first[d] + (*n - 1) * by[d] : 0;
        if (size && n && *n > 0 && (first[d] >= *size || last < 0 || last >= *size))
            throw UserError(fmt::format("slice: {} elements from {} by {} of axis {} end at {}, but it has {} elements",
                                        *n, first[d], by[d], d, last, *size));
        const Expr run = by[d] == 1 ? Expr(axes[d]) : axes[d] * by[d];
        index.push_back(first[d] ? run + first[d] : run);
    }
    const Tensor X = input("X", t, numbered_axes(extents));
    return Op("slice", {X}, {compute("Y", axes, X.at(index))});
}

Op concat(Type t, const vector<Expr> &shared, const vector<Expr> &parts, int axis) {
    if (parts.empty()) throw UserError("concat: of no array; legal are one or more");
    const int at = axis_position("concat", axis, shared.size() + 1, " of the result");
    const auto with = [&](const Expr &extent) {
        vector<Expr> all = shared;
        all.insert(all.begin() + at, extent);
        return numbered_axes(all);
    };
    Expr whole = 0;
    for (const Expr &p : parts) whole = Halide::Internal::simplify(whole + p);
    const vector<Axis> axes = with(whole);
    vector<Tensor> inputs;
    vector<Expr> values, ends;
    Expr begin = 0;
    for (size_t n = 0; n < parts.size(); n++) {
        const vector<Axis> own = with(parts[n]);
        inputs.push_back(input(fmt::format("X{}", n), t, own));
        vector<Expr> index = indices_of(axes);
        index[at] = Halide::Internal::simplify(index[at] - begin);
        values.push_back(zero_padded(inputs.back(), {own[at]}).at(index));
        ends.push_back(begin = Halide::Internal::simplify(begin + parts[n]));
    }
    Expr value = values.back();
    for (size_t n = parts.size() - 1; n-- > 0;) value = select(axes[at] < ends[n], values[n], value);
    return Op("concat", inputs, {compute("Y", axes, value)});
}

Op one_hot(Type t, const Expr &M, const Expr &N, double on, double off) {
    Axis i("i", M), j("j", N);
    Tensor index = input("index", Int(32), {i});
    const Expr hot = constant("one_hot", "on", t, on), cold = constant("one_hot", "off", t, off);
    return Op("one_hot", {index}, {compute("Y", {i, j}, select(index(i) == j, hot, cold))});
}

} // namespace kumiko::ops
