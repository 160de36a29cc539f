#include "ops/winograd.h"

#include "dsl/halide_passes.h"
#include "dsl/reduction.h"

#include <vector>

namespace kumiko::ops {

namespace {

using Matrix = std::vector<std::vector<double>>;

// Minimal filtering in one dimension, Y = Aᵀ ((G g) · (Bᵀ d)): one product per row of Bᵀ. If Bᵀ
// has more rows than G, the further rows use the last row of G.
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

Tensor winograd_tiles(const WinogradConvolution &w) {
    const Transforms &matrices = w.stride == 1 ? side_by_side(w.tile) : two_apart(w.tile);
    const int n = static_cast<int>(matrices.input.size()), distinct = static_cast<int>(matrices.weights.size());
    const Type t = w.type;
    const int tile = w.tile, step = w.tile * w.stride;
    const Axis &image = w.images, &c = w.channels, &filter = w.filters;
    // Transformed rows and columns; columns of a patch of the image; rows and columns of a tile.
    Axis u("u", n), v("v", n), j("j", n), a("a", tile), b("b", tile);
    Axis ty("ty", Halide::Internal::simplify((w.height + (tile - 1)) / tile));
    Axis tx("tx", Halide::Internal::simplify((w.width + (tile - 1)) / tile));
    const Axis wu("u", distinct), wv("v", distinct);
    const auto weights_of = [&](const Axis &point) { return distinct < n ? min(point, distinct - 1) : Expr(point); };
    Tensor U = compute(w.name("W_points"), {wu, wv, filter, c}, row_times(matrices.weights, wu, t, [&](int ky) {
                           return row_times(matrices.weights, wv, t, [&](int kx) { return w.weight(ky, kx); });
                       }));
    Tensor rows =
        compute(w.name("X_rows"), {image, ty, tx, u, j, c},
                row_times(matrices.input, u, t, [&](int k) { return w.image(ty * step + k, tx * step + j); }));
    Tensor V = compute(w.name("X_points"), {image, u, v, ty, tx, c},
                       row_times(matrices.input, v, t, [&](int k) { return rows(image, ty, tx, u, k, c); }));
    Tensor M = compute(w.name("products"), {image, u, v, ty, tx, filter},
                       sum(V(image, u, v, ty, tx, c) * U(weights_of(u), weights_of(v), filter, c), c));
    Tensor half = compute(w.name("Y_rows"), {image, ty, tx, a, v, filter},
                          row_times(matrices.output, a, t, [&](int k) { return M(image, k, v, ty, tx, filter); }));
    return compute(w.name("Y_tiles"), {image, ty, tx, a, b, filter},
                   row_times(matrices.output, b, t, [&](int k) { return half(image, ty, tx, a, k, filter); }));
}

int winograd_tile(int64_t images, int64_t channels, int64_t filters, int64_t height, int64_t width, int64_t stride) {
    if (stride < 1 || stride > 2 || channels < 16 || filters < 16) return 0;
    int64_t fewest = 9 * height * width * 3 / 4;
    int best = 0;
    for (const int tile : {2, 4}) {
        const int64_t tiles = ((height + tile - 1) / tile) * ((width + tile - 1) / tile),
                      side = stride * (tile - 1) + 3;
        if (tiles * images < 16 || tiles * side * side > fewest) continue;
        best = tile, fewest = tiles * side * side;
    }
    return best;
}

} // namespace kumiko::ops
