#include "ops/conv.h"
#include "ops/elementwise.h"
#include "support/error.h"

#include <fmt/format.h>

#include <functional>

namespace kumiko::ops {

namespace {

using Matrix = std::vector<std::vector<double>>;

// The transforms of Winograd's minimal filtering F(m, 3), Lavin and Gray 2015: m results of a window of 3 by m + 2 products,
// Y = Aᵀ ((G g) · (Bᵀ d)).
struct Transforms {
    Matrix input, weights, output; // Bᵀ, G, Aᵀ
};

const Transforms &transforms_of(int tile) {
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

// The row of m that `row` says, times the vector whose elements are at(0), at(1), …: one expression for each row, of which a copy
// of the loop over rows keeps its own.
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
    legal(o.stride_y == 1 && o.stride_x == 1, "the stride is not 1", "1, conv2d for others");
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
        return Halide::Internal::simplify(size + (before + after - 2));
    };
    const Expr height = results("height", H, o.pad_top, o.pad_bottom);
    const Expr width = results("width", W, o.pad_left, o.pad_right);
    const Transforms &matrices = transforms_of(tile);
    const int n = tile + 2;

    Axis image("n", N), c("c", C), filter("o", O), yi("y", H), xi("x", W);
    Axis u("u", n), v("v", n), i("i", n), j("j", n), a("a", tile),
        b("b", tile); // transformed rows and columns; those of a tile
    Axis ty("ty", Halide::Internal::simplify((height + (tile - 1)) / tile));
    Axis tx("tx", Halide::Internal::simplify((width + (tile - 1)) / tile));
    const bool last = o.layout == ImageLayout::NHWC;
    // What stands at a place of an image, or its axes.
    const auto of_image = [&]<typename T>(const T &channel, const T &y, const T &x) {
        return last ? std::vector<T>{image, y, x, channel} : std::vector<T>{image, channel, y, x};
    };
    Tensor X = input("X", t, of_image(c, yi, xi));
    const Axis ky("ky", 3), kx("kx", 3);
    Tensor K = input("W", t, last ? std::vector<Axis>{ky, kx, c, filter} : std::vector<Axis>{filter, c, ky, kx});
    const auto weight = [&](int dy, int dx) -> Expr { return last ? K(dy, dx, c, filter) : K(filter, c, dy, dx); };

    Tensor U = compute("W_points", {u, v, filter, c}, row_times(matrices.weights, u, t, [&](int ky) {
                           return row_times(matrices.weights, v, t, [&](int kx) { return weight(ky, kx); });
                       }));
    Tensor P = zero_padded(X, {yi, xi});
    Tensor rows = compute("X_rows", {image, ty, tx, u, j, c}, row_times(matrices.input, u, t, [&](int k) {
                              return P.at(of_image(Expr(c), ty * tile + k - o.pad_top, tx * tile + j - o.pad_left));
                          }));
    Tensor V = compute("X_points", {image, u, v, ty, tx, c},
                       row_times(matrices.input, v, t, [&](int k) { return rows(image, ty, tx, u, k, c); }));
    Tensor M =
        compute("products", {image, u, v, ty, tx, filter}, sum(V(image, u, v, ty, tx, c) * U(u, v, filter, c), c));
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
