#include "ops/pool.h"

#include "dsl/types.h"
#include "ops/elementwise.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::ops {

namespace {

struct Pool {
    Axis n, c, y, x, ky, kx;
    std::vector<Axis> image, result;
    Tensor X;
    const PoolOptions &o;

    Pool(const char *op, Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int kh, int kw,
         const PoolOptions &options)
        : n("n", N), c("c", C), y("y", extent(op, H, kh, options)), x("x", extent(op, W, kw, options)), ky("ky", kh),
          kx("kx", kw), image(axes(options, Axis("in_y", H), Axis("in_x", W))), result(axes(options, y, x)),
          X(input("X", t, image)), o(options) {}

    static Expr extent(const char *op, const Expr &size, int k, const PoolOptions &o) {
        if (k < 1 || o.stride < 1 || o.padding < 0 || o.padding >= k)
            throw UserError(fmt::format(
                "{}: a window of {} with stride {} and padding {}; legal are a window and a stride of 1 or more, and "
                "a padding from 0 to the window less 1",
                op, k, o.stride, o.padding));
        const Expr room = Halide::Internal::simplify(size + 2 * o.padding - k);
        if (const auto left = Halide::Internal::as_const_int(room); left && *left < 0)
            throw UserError(
                fmt::format("{}: a window of {} is larger than the image with its padding, {}", op, k, *left + k));
        return Halide::Internal::simplify(room / o.stride + 1);
    }
    std::vector<Axis> axes(const PoolOptions &o, const Axis &rows, const Axis &columns) const {
        if (o.layout == ImageLayout::NHWC) return {n, rows, columns, c};
        return {n, c, rows, columns};
    }
    std::vector<Axis> rows_and_columns() const {
        const size_t first = o.layout == ImageLayout::NHWC ? 1 : 2;
        return {image[first], image[first + 1]};
    }
    Expr window(const Tensor &from) const {
        const Expr row = y * o.stride + ky - o.padding, column = x * o.stride + kx - o.padding;
        if (o.layout == ImageLayout::NHWC) return from.at({n, row, column, c});
        return from.at({n, c, row, column});
    }
};

} // namespace

Op max_pool(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int kh, int kw,
            const PoolOptions &options) {
    const Pool p("max_pool", t, N, C, H, W, kh, kw, options);
    // Clamping reads the nearest element of the image, which is in the window anyway.
    const Expr x = p.window(options.padding ? clamped(p.X, p.rows_and_columns()) : p.X);
    return Op("max_pool", {p.X}, {compute("Y", p.result, maximum(x, {p.ky, p.kx}))});
}

Op average_pool(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int kh, int kw,
                const PoolOptions &options) {
    if (!t.is_float()) throw UserError("average_pool takes floats, not " + type_name(t));
    const Pool p("average_pool", t, N, C, H, W, kh, kw, options);
    const Type c = accumulator_type(t);
    const Expr x = p.window(options.padding ? zero_padded(p.X) : p.X);
    const Expr mean = sum(c == t ? x : cast(c, x), {p.ky, p.kx}) * Halide::Internal::make_const(c, 1.0 / (kh * kw));
    return Op("average_pool", {p.X}, {compute("Y", p.result, c == t ? mean : cast(t, mean))});
}

} // namespace kumiko::ops
