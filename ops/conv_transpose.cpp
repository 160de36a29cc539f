#include "ops/conv.h"
#include "ops/elementwise.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::ops {

namespace {

// One spatial axis: the split of a pixel index of Y into a phase and a position within it.
struct Side {
    int kernel, stride, padding, output_padding;
    Axis in, out, phase, place, tap;

    // `name`: "y"; `what`: "height".
    Side(const std::string &name, const char *what, const Expr &size, int kernel, int stride, int padding,
         int output_padding)
        : kernel(kernel), stride(stride), padding(padding), output_padding(output_padding), in(name, size),
          out(name, extent(name, what, size)), phase("r" + name, stride),
          place("q" + name, Halide::Internal::simplify((out.extent() - 1 + padding) / stride - first() + 1)),
          tap("t" + name, (kernel + stride - 1) / stride) {}

    int first() const { return padding / stride; } // the smallest position that Y uses

    Expr extent(const std::string &name, const char *what, const Expr &size) const {
        const auto need = [&](const std::string &of, int value, bool good, const std::string &legal) {
            if (!good) throw UserError(fmt::format("conv_transpose2d: {} is {}; legal is {}", of, value, legal));
        };
        need(fmt::format("the {} of the weights", what), kernel, kernel >= 1, "1 or more");
        need("stride_" + name, stride, stride >= 1, "1 or more");
        need("padding_" + name, padding, padding >= 0, "0 or more");
        need("output_padding_" + name, output_padding, output_padding >= 0 && output_padding < stride,
             fmt::format("0 to {}, the stride less 1", stride - 1));
        const Expr n = Halide::Internal::simplify((size - 1) * stride + (kernel + output_padding - 2 * padding));
        if (const auto known = Halide::Internal::as_const_int(n); known && *known < 1)
            throw UserError(
                fmt::format("conv_transpose2d: the {} of the result is {}; legal is a padding that leaves 1 or more",
                            what, *known));
        return n;
    }
    bool has_short_phases() const { return kernel % stride != 0; } // some phases have one tap less
    Expr pixel() const { return place + first() - tap; }
    Expr weight() const { return tap * stride + phase; }
    Expr phase_of_out() const { return (out + padding) % stride; }
    Expr place_of_out() const { return (out + padding) / stride - first(); }
};

} // namespace

Op conv_transpose2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &O, int KH, int KW,
                    const ConvTransposeOptions &options) {
    const Side v("y", "height", H, KH, options.stride_y, options.padding_y, options.output_padding_y);
    const Side h("x", "width", W, KW, options.stride_x, options.padding_x, options.output_padding_x);
    const bool last = options.layout == ImageLayout::NHWC;
    const Type acc = accumulator_type(t), out = t.is_float() ? t : acc;
    const auto widened = [&](const Element &e) { return e.type() == acc ? Expr(e) : cast(acc, e); };
    Axis n("n", N), c("c", C), o("o", O), ky("ky", KH), kx("kx", KW);
    const auto image = [&](const Expr &channel, const Expr &y, const Expr &x) {
        return last ? std::vector<Expr>{n, y, x, channel} : std::vector<Expr>{n, channel, y, x};
    };
    using Axes = std::vector<Axis>;
    Tensor X = input("X", t, last ? Axes{n, v.in, h.in, c} : Axes{n, c, v.in, h.in});
    Tensor K = input("W", t, last ? Axes{ky, kx, c, o} : Axes{c, o, ky, kx});
    const Tensor taps = v.has_short_phases() || h.has_short_phases() ? zero_padded(K, {ky, kx}) : K;
    const Expr x = widened(zero_padded(X, {v.in, h.in}).at(image(c, v.pixel(), h.pixel())));
    const Expr w = widened(last ? taps(v.weight(), h.weight(), c, o) : taps(c, o, v.weight(), h.weight()));
    const Tensor phase = compute(
        "phase", last ? Axes{n, v.phase, h.phase, v.place, h.place, o} : Axes{n, o, v.phase, h.phase, v.place, h.place},
        sum(x * w, last ? AxisList{v.tap, h.tap, c} : AxisList{c, v.tap, h.tap}));
    std::vector<Expr> at = {v.phase_of_out(), h.phase_of_out(), v.place_of_out(), h.place_of_out()};
    at.insert(last ? at.end() : at.begin(), o);
    at.insert(at.begin(), n);
    Expr value = phase.at(at);
    std::vector<Tensor> inputs = {X, K};
    if (options.bias) {
        inputs.push_back(input("bias", out, {o}));
        value = value + widened(inputs.back()(o));
    }
    value = activated(options.activation, value);
    if (value.type() != out) value = cast(out, value);
    return Op("conv_transpose2d", inputs,
              {compute("Y", last ? Axes{n, v.out, h.out, o} : Axes{n, o, v.out, h.out}, value)});
}

} // namespace kumiko::ops
