#include "ops/conv.h"
#include "ops/elementwise.h"
#include "support/error.h"

#include <fmt/format.h>

#include <functional>

namespace kumiko::ops {

namespace {

using Matrix = std::vector<std::vector<double>>;

// Minimal filtering in one dimension, Y = Aᵀ ((G g) · (Bᵀ d)): one product per row of Bᵀ. Rows of
// Bᵀ beyond those of G use the last row of G.
struct Transforms {
    Matrix input, weights, output; // Bᵀ, G, Aᵀ
};

// Winograd's F(m, 3), Lavin and Gray 2015: m results of adjacent windows of 3, with m + 2 products.
const Transforms &side_by_side(int tile) {
    static const Transforms two = {{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
                                   {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
                                   {{1, 1, 1, 0}, {0, 1, -1, -1}}};
    static const Transforms four = {
        {{4, 0, -5, 0, 1, 0},
         {0, -4, -4, 1, 1, 0},
         {0, 4, -4, -1, 1, 0},
         {0, -2, -1, 2, 1, 0},
         {0, 2, -1, -2, 1, 0},
         {0, 4, 0, -5, 0, 1}},
        {{1.0 / 4, 0, 0},
         {-1.0 / 6, -1.0 / 6, -1.0 / 6},
         {-1.0 / 6, 1.0 / 6, -1.0 / 6},
         {1.0 / 24, 1.0 / 12, 1.0 / 6},
         {1.0 / 24, -1.0 / 12, 1.0 / 6},
         {0, 0, 1}},
        {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}}};
    return tile == 2 ? two : four;
}

// m results of windows of 3 with stride 2, with 2 m + 1 products. Even pixels multiply the outer
// two weights, which is F(m, 2) at the points 0, 1, infinity, and for four results also -1 and 2.
// Odd pixels multiply the middle weight, one product each.
const Transforms &two_apart(int tile) {
    static const Transforms two = {
        {{1, 0, -1, 0, 0}, {0, 0, 1, 0, 0}, {0, 0, -1, 0, 1}, {0, 1, 0, 0, 0}, {0, 0, 0, 1, 0}},
        {{1, 0, 0}, {1, 0, 1}, {0, 0, 1}, {0, 1, 0}},
        {{1, 1, 0, 1, 0}, {0, 1, 1, 0, 1}}};
    static const Transforms four = {
        {{2, 0, -1, 0, -2, 0, 1, 0, 0},
         {0, 0, -2, 0, -1, 0, 1, 0, 0},
         {0, 0, 2, 0, -3, 0, 1, 0, 0},
         {0, 0, -1, 0, 0, 0, 1, 0, 0},
         {0, 0, 2, 0, -1, 0, -2, 0, 1},
         {0, 1, 0, 0, 0, 0, 0, 0, 0},
         {0, 0, 0, 1, 0, 0, 0, 0, 0},
         {0, 0, 0, 0, 0, 1, 0, 0, 0},
         {0, 0, 0, 0, 0, 0, 0, 1, 0}},
        {{1.0 / 2, 0, 0}, {-1.0 / 2, 0, -1.0 / 2}, {-1.0 / 6, 0, 1.0 / 6}, {1.0 / 6, 0, 1.0 / 3}, {0, 0, 1}, {0, 1, 0}},
        {{1, 1, 1, 1, 0, 1, 0, 0, 0},
         {0, 1, -1, 2, 0, 0, 1, 0, 0},
         {0, 1, 1, 4, 0, 0, 0, 1, 0},
         {0, 1, -1, 8, 1, 0, 0, 0, 1}}};
    return tile == 2 ? two : four;
}

// The product of row `row` of m with the vector at(0), at(1), …: an expression per row, so that
// each unrolled copy of the loop over rows keeps only its own.
Expr row_times(const Matrix &m, const Expr &row, Type t, const std::function<Expr(int)> &at) {
    Expr all;
    for (size_t r = m.size(); r-- > 0;) {
        Expr sum;
        for (size_t k = 0; k < m[r].size(); k++) {
            const double factor = m[r][k];
            if (factor == 0) continue;
            const Expr term = at(int(k));
            if (!sum.defined())
                sum = factor == 1 ? term : term * Halide::Internal::make_const(t, factor);
            else if (factor == 1)
                sum = sum + term;
            else if (factor == -1)
                sum = sum - term;
            else
                sum = sum + term * Halide::Internal::make_const(t, factor);
        }
        all = all.defined() ? select(row == int(r), sum, all) : sum;
    }
    return all;
}

} // namespace

Op winograd_conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &O, int tile,
                   const Conv2dOptions &o) {
    const auto legal = [&](bool good, const std::string &what, const char *range) {
        if (!good) throw UserError(fmt::format("winograd_conv2d: {}; legal is {}", what, range));
    };
    legal(t == f32 || t == f64, fmt::format("the type is {}", type_name(t)), "f32 or f64, conv2d for others");
    legal(tile == 2 || tile == 4, fmt::format("tile is {}", tile), "2 or 4");
    const int stride = o.stride_y;
    legal(o.stride_x == stride && (stride == 1 || stride == 2),
          fmt::format("the stride is {} down and {} across", o.stride_y, o.stride_x),
          "1 or 2 both ways, conv2d for others");
    legal(o.dilation_y == 1 && o.dilation_x == 1, "the dilation is not 1", "1, conv2d for others");
    legal(o.groups == 1, "there are groups", "one group, conv2d for others");
    const auto own = [&](Type of) { return of.bits() == 0 || of == t; };
    legal(own(o.w_type) && own(o.output) && !o.requantise && !o.zero_point, "W or Y is of another type than X",
          "one type, conv2d for others");
    legal(o.pool.empty(), "there is a pool", "none, conv2d for others");
    legal(std::min({o.pad_top, o.pad_left, o.pad_bottom, o.pad_right}) >= 0, "a padding is below 0", "0 or more");
    const auto results = [&](const char *what, const Expr &size, int before, int after) {
        if (const auto n = Halide::Internal::as_const_int(size); n && *n + before + after < 3)
            throw UserError(
                fmt::format("winograd_conv2d: the {} of the input is {} with its padding; legal is 3 or more", what,
                            *n + before + after));
        return Halide::Internal::simplify((size + (before + after - 3)) / stride + 1);
    };
    const Expr height = results("height", H, o.pad_top, o.pad_bottom);
    const Expr width = results("width", W, o.pad_left, o.pad_right);
    const Transforms &matrices = stride == 1 ? side_by_side(tile) : two_apart(tile);
    const int n = static_cast<int>(matrices.input.size()), distinct = static_cast<int>(matrices.weights.size());

    Axis image("n", N), c("c", C), filter("o", O), yi("y", H), xi("x", W);
    Axis u("u", n), v("v", n), i("i", n), j("j", n), a("a", tile),
        b("b", tile); // transformed rows and columns; those of a tile
    Axis ty("ty", Halide::Internal::simplify((height + (tile - 1)) / tile));
    Axis tx("tx", Halide::Internal::simplify((width + (tile - 1)) / tile));
    const bool last = o.layout == ImageLayout::NHWC;
    // Indices of an element of an image, or its axes.
    const auto of_image = [&]<typename T>(const T &channel, const T &y, const T &x) {
        return last ? std::vector<T>{image, y, x, channel} : std::vector<T>{image, channel, y, x};
    };
    Tensor X = input("X", t, of_image(c, yi, xi));
    const Axis ky("ky", 3), kx("kx", 3);
    Tensor K = input("W", t, last ? std::vector<Axis>{ky, kx, c, filter} : std::vector<Axis>{filter, c, ky, kx});
    const auto weight = [&](int dy, int dx) -> Expr { return last ? K(dy, dx, c, filter) : K(filter, c, dy, dx); };

    const Axis wu("u", distinct), wv("v", distinct);
    const auto weights_of = [&](const Axis &point) { return distinct < n ? min(point, distinct - 1) : Expr(point); };
    Tensor U = compute("W_points", {wu, wv, filter, c}, row_times(matrices.weights, wu, t, [&](int ky) {
                           return row_times(matrices.weights, wv, t, [&](int kx) { return weight(ky, kx); });
                       }));
    Tensor P = zero_padded(X, {yi, xi});
    Tensor rows = compute(
        "X_rows", {image, ty, tx, u, j, c}, row_times(matrices.input, u, t, [&](int k) {
            return P.at(of_image(Expr(c), ty * (tile * stride) + k - o.pad_top, tx * (tile * stride) + j - o.pad_left));
        }));
    Tensor V = compute("X_points", {image, u, v, ty, tx, c},
                       row_times(matrices.input, v, t, [&](int k) { return rows(image, ty, tx, u, k, c); }));
    Tensor M = compute("products", {image, u, v, ty, tx, filter},
                       sum(V(image, u, v, ty, tx, c) * U(weights_of(u), weights_of(v), filter, c), c));
    Tensor half = compute("Y_rows", {image, ty, tx, a, v, filter},
                          row_times(matrices.output, a, t, [&](int k) { return M(image, k, v, ty, tx, filter); }));
    Tensor tiles = compute("Y_tiles", {image, ty, tx, a, b, filter},
                           row_times(matrices.output, b, t, [&](int k) { return half(image, ty, tx, a, k, filter); }));
    Axis y("y", height), x("x", width);
    Expr value = tiles(image, y / tile, x / tile, y % tile, x % tile, filter);
    std::vector<Tensor> inputs = {X, K};
    if (o.bias) {
        Tensor bias = input("bias", t, {filter});
        inputs.push_back(bias);
        value = value + bias(filter);
    }
    if (o.residual) {
        Tensor residual = input("residual", t, of_image(filter, y, x));
        inputs.push_back(residual);
        value = value + residual.at(of_image(Expr(filter), Expr(y), Expr(x)));
    }
    return Op("winograd_conv2d", inputs, {compute("Y", of_image(filter, y, x), activated(o.activation, value))});
}

} // namespace kumiko::ops
