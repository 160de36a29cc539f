#include "ops/resize.h"

#include "dsl/types.h"
#include "ops/elementwise.h"
#include "support/error.h"

#include <fmt/format.h>
#include <numeric>

namespace kumiko::ops {

namespace {

using Halide::Internal::as_const_int;
using Halide::Internal::simplify;

// A coordinate in X as the fraction above / below.
struct Coordinate {
    Expr above, below;
    Expr floor() const { return above / below; }
    Expr nearest() const { return (2 * above + below) / (2 * below); }
    // Fractional part.
    Expr fraction_part(Type t) const { return cast(t, Element(above % below)) / cast(t, Element(below)); }
};

// (y · step + begin) / below, in lowest terms if these are constants: they are short for integer
// scale factors.
Coordinate fraction(const Axis &y, const Expr &step, const Expr &begin, const Expr &below) {
    const auto a = as_const_int(simplify(step)), b = as_const_int(simplify(begin)), c = as_const_int(simplify(below));
    if (!a || !b || !c) return {y * step + begin, below};
    const int64_t all = std::gcd(std::gcd(*a, *b), *c);
    const auto term = [&](int64_t n) { return Expr(static_cast<int>(n / all)); };
    const Expr scaled = *a == all ? Expr(y) : y * term(*a);
    return {*b ? scaled + term(*b) : scaled, term(*c)};
}

Coordinate coordinate(const Axis &y, const Expr &size, Coordinates how) {
    const Expr out = y.extent();
    if (how == Coordinates::HalfPixel) return fraction(y, 2 * size, size - out, 2 * out);
    if (how == Coordinates::AlignCorners) return fraction(y, size - 1, 0, Halide::max(out - 1, 1));
    return fraction(y, size, 0, out);
}

void check(const char *op, const char *what, const Expr &in, const Expr &out) {
    const auto n = as_const_int(in), m = as_const_int(out);
    if (m && *m < 1) throw UserError(fmt::format("{}: the {} of the result is {}; legal is 1 or more", op, what, *m));
    if (n && *n < 1) throw UserError(fmt::format("{}: the {} of the input is {}; legal is 1 or more", op, what, *n));
    if (n && m && 4 * (*n + 1) * *m > INT32_MAX)
        throw UserError(
            fmt::format("{}: the {}s {} and {} make coordinates beyond 32 bits; legal is a product below {}", op, what,
                        *n, *m, INT32_MAX / 4));
}

// The conditions of `check` for symbolic sizes.
std::vector<Requirement> required(const Expr &H, const Expr &OH, const Expr &W, const Expr &OW) {
    std::vector<Requirement> all;
    const auto below = [&](const char *what, const Expr &in, const Expr &out) {
        if (as_const_int(in) && as_const_int(out)) return;
        all.push_back({simplify(in < INT32_MAX / 4 / Halide::max(out, 1)),
                       fmt::format("{}s whose coordinates are of 32 bits: a product below {}", what, INT32_MAX / 4)});
    };
    below("height", H, OH);
    below("width", W, OW);
    return all;
}

// Axes of images, and elements of them.
struct Images {
    bool last;
    Axis n, c, y, x, in_y, in_x;

    Images(const char *op, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &OH, const Expr &OW,
           const ResizeOptions &o)
        : last(o.layout == ImageLayout::NHWC), n("n", N), c("c", C), y("y", OH), x("x", OW), in_y("in_y", H),
          in_x("in_x", W) {
        check(op, "height", H, OH);
        check(op, "width", W, OW);
    }
    std::vector<Axis> axes(const Axis &rows, const Axis &columns) const {
        return last ? std::vector<Axis>{n, rows, columns, c} : std::vector<Axis>{n, c, rows, columns};
    }
    Element at(const Tensor &image, const Expr &row, const Expr &column) const {
        return image.at(last ? std::vector<Expr>{n, row, column, c} : std::vector<Expr>{n, c, row, column});
    }
};

} // namespace

Op resize_nearest(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &OH, const Expr &OW,
                  const ResizeOptions &options) {
    const Images i("resize_nearest", N, C, H, W, OH, OW, options);
    const Tensor X = input("X", t, i.axes(i.in_y, i.in_x));
    const auto source = [&](const Axis &y, const Expr &size) {
        const Coordinate at = coordinate(y, size, options.coordinates);
        return options.coordinates == Coordinates::Asymmetric ? at.floor() : at.nearest();
    };
    return Op("resize_nearest", {X},
              {compute("Y", i.axes(i.y, i.x), i.at(clamped(X, {i.in_y, i.in_x}), source(i.y, H), source(i.x, W)))},
              required(H, OH, W, OW));
}

Op resize_bilinear(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &OH, const Expr &OW,
                   const ResizeOptions &options) {
    if (!t.is_float()) throw UserError("resize_bilinear takes floats, not " + type_name(t));
    const Type f = accumulator_type(t);
    const Images i("resize_bilinear", N, C, H, W, OH, OW, options);
    const auto between = [](const Expr &a, const Expr &b, const Expr &weight) { return a + (b - a) * weight; };
    const Tensor X = input("X", t, i.axes(i.in_y, i.in_x)), above = clamped(X, {i.in_y});
    const auto row = [&](const Expr &y) { return cast(f, i.at(above, y, i.in_x)); };
    const Coordinate down = coordinate(i.y, H, options.coordinates), right = coordinate(i.x, W, options.coordinates);
    const Tensor rows =
        compute("rows", i.axes(i.y, i.in_x), between(row(down.floor()), row(down.floor() + 1), down.fraction_part(f)));
    const Tensor beside = clamped(rows, {i.in_x});
    const auto column = [&](const Expr &x) { return i.at(beside, i.y, x); };
    const Tensor left = compute("left", {i.x}, right.floor()), part = compute("part", {i.x}, right.fraction_part(f));
    const Expr value = between(column(left(i.x)), column(left(i.x) + 1), part(i.x));
    return Op("resize_bilinear", {X}, {compute("Y", i.axes(i.y, i.x), cast(t, Element(value)))},
              required(H, OH, W, OW));
}

} // namespace kumiko::ops
