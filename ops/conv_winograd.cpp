#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/winograd.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::ops {

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
    Axis image("n", N), c("c", C), filter("o", O), yi("y", H), xi("x", W);
    const bool last = o.layout == ImageLayout::NHWC;
    // Indices of an element of an image, or its axes.
    const auto of_image = [&]<typename T>(const T &channel, const T &y, const T &x) {
        return last ? std::vector<T>{image, y, x, channel} : std::vector<T>{image, channel, y, x};
    };
    Tensor X = input("X", t, of_image(c, yi, xi));
    const Axis ky("ky", 3), kx("kx", 3);
    Tensor K = input("W", t, last ? std::vector<Axis>{ky, kx, c, filter} : std::vector<Axis>{filter, c, ky, kx});
    const Tensor P = zero_padded(X, {yi, xi});
    const Tensor tiles = winograd_tiles(
        {t, image, c, filter, height, width, tile, stride,
         [&](const Expr &y, const Expr &x) { return P.at(of_image(Expr(c), y - o.pad_top, x - o.pad_left)); },
         [&](int dy, int dx) -> Expr { return last ? K(dy, dx, c, filter) : K(filter, c, dy, dx); },
         [](const std::string &stage) { return stage; }});
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
