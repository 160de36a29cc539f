#include "ops/conv.h"

#include "ops/elementwise.h"
#include "support/error.h"

namespace kumiko::ops {

namespace {

void check(const char *op, int KH, int KW, const Conv2dOptions &o) {
    const auto at_least = [&](const char *name, int value, int low) {
        if (value < low) {
            throw UserError(std::string(op) + ": " + name + " is " + std::to_string(value) + "; legal is " +
                            std::to_string(low) + " or more");
        }
    };
    at_least("the height of the weights", KH, 1);
    at_least("the width of the weights", KW, 1);
    at_least("stride_y", o.stride_y, 1);
    at_least("stride_x", o.stride_x, 1);
    at_least("dilation_y", o.dilation_y, 1);
    at_least("dilation_x", o.dilation_x, 1);
    at_least("groups", o.groups, 1);
    for (int p : {o.pad_top, o.pad_left, o.pad_bottom, o.pad_right}) at_least("a padding", p, 0);
}

Expr out_extent(const char *what, const Expr &in, int before, int after, int kernel, int dilation, int stride) {
    const int covered = dilation * (kernel - 1) + 1;
    if (const auto n = Halide::Internal::as_const_int(in); n && *n + before + after < covered) {
        throw UserError(
            fmt::format("the {} of the input is {}, and {} with its padding, but the weights cover {}; legal "
                        "is an input no smaller than that",
                        what, *n, *n + before + after, covered));
    }
    const Expr last = in + (before + after - dilation * (kernel - 1) - 1);
    return stride == 1 ? last + 1 : last / stride + 1;
}

Expr scaled(const Axis &a, int factor) { return factor == 1 ? Expr(a) : a * factor; }

// y * stride + ky * dilation − padding, without the parts that do nothing.
Expr source(const Axis &out, int stride, const Axis &k, int dilation, int before) {
    Expr e = scaled(out, stride) + scaled(k, dilation);
    return before ? e - before : e;
}

// What all convolutions share: the axes of the image, how X is read, and the end.
struct Parts {
    const Conv2dOptions &o;
    Type t, acc, out;
    Axis n, y, x, ky, kx, in_y, in_x;

    Parts(Type t, const Expr &N, const Expr &H, const Expr &W, int KH, int KW, const Conv2dOptions &o)
        : o(o), t(t), acc(accumulator_type(t)), out(t.is_float() ? t : acc), n("n", N),
          y("y", out_extent("height", H, o.pad_top, o.pad_bottom, KH, o.dilation_y, o.stride_y)),
          x("x", out_extent("width", W, o.pad_left, o.pad_right, KW, o.dilation_x, o.stride_x)), ky("ky", KH),
          kx("kx", KW), in_y("y", H), in_x("x", W) {}

    bool nhwc() const { return o.layout == ImageLayout::NHWC; }

    // The axes of an image: the channels (with their group, if any) before or after y and x.
    std::vector<Axis> image(const std::vector<Axis> &channels, const Axis &y, const Axis &x) const {
        std::vector<Axis> axes = {n};
        if (!nhwc()) axes.insert(axes.end(), channels.begin(), channels.end());
        axes.push_back(y);
        axes.push_back(x);
        if (nhwc()) axes.insert(axes.end(), channels.begin(), channels.end());
        return axes;
    }

    // The element of X that output (y, x) takes at weight (ky, kx), in the type of the sum.
    Expr read(const Tensor &X, const std::vector<Axis> &channels) const {
        const bool padded = o.pad_top || o.pad_left || o.pad_bottom || o.pad_right;
        const Tensor from = padded ? zero_padded(X, {in_y, in_x}) : X;
        std::vector<Expr> index = {n};
        if (!nhwc()) index.insert(index.end(), channels.begin(), channels.end());
        index.push_back(source(y, o.stride_y, ky, o.dilation_y, o.pad_top));
        index.push_back(source(x, o.stride_x, kx, o.dilation_x, o.pad_left));
        if (nhwc()) index.insert(index.end(), channels.begin(), channels.end());
        return widened(from.at(index));
    }

    Expr widened(const Element &e) const { return e.type() == acc ? Expr(e) : cast(acc, e); }

    Op finish(const std::string &name, std::vector<Tensor> inputs, const std::vector<Axis> &channels,
              Expr value) const {
        const std::vector<Axis> axes = image(channels, y, x);
        if (o.bias) {
            Tensor bias = input("bias", out, channels);
            inputs.push_back(bias);
            value = value + widened(bias.at(std::vector<Expr>(channels.begin(), channels.end())));
        }
        if (o.residual) {
            Tensor residual = input("residual", out, axes);
            inputs.push_back(residual);
            value = value + widened(residual.at(std::vector<Expr>(axes.begin(), axes.end())));
        }
        value = activated(o.activation, value);
        if (value.type() != out) value = cast(out, value);
        return Op(name, inputs, {compute("Y", axes, value)});
    }
};

Expr divided(const Expr &channels, int groups, const char *what) {
    if (const auto n = Halide::Internal::as_const_int(channels); n && *n % groups != 0) {
        throw UserError("conv2d: " + std::to_string(groups) + " groups do not divide the " + std::to_string(*n) + " " +
                        what + " channels");
    }
    return channels / groups;
}

} // namespace

Conv2dOptions &Conv2dOptions::stride(int s) {
    stride_y = stride_x = s;
    return *this;
}
Conv2dOptions &Conv2dOptions::padding(int p) {
    pad_top = pad_left = pad_bottom = pad_right = p;
    return *this;
}
Conv2dOptions &Conv2dOptions::dilation(int d) {
    dilation_y = dilation_x = d;
    return *this;
}

Op conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, const Expr &O, int KH, int KW,
          const Conv2dOptions &options) {
    check("conv2d", KH, KW, options);
    if (options.groups > 1) {
        const auto c = Halide::Internal::as_const_int(C), o = Halide::Internal::as_const_int(O);
        if (c && o && *c == options.groups && *o == options.groups)
            return depthwise_conv2d(t, N, C, H, W, KH, KW, options);
    }
    const Parts p(t, N, H, W, KH, KW, options);
    Axis c("c", divided(C, options.groups, "input")), o("o", divided(O, options.groups, "output"));
    std::vector<Axis> in_channels = {c}, out_channels = {o};
    std::vector<Axis> weights = p.nhwc() ? std::vector<Axis>{p.ky, p.kx, c, o} : std::vector<Axis>{o, c, p.ky, p.kx};
    if (options.groups > 1) {
        Axis g("g", options.groups);
        in_channels.insert(in_channels.begin(), g);
        out_channels.insert(out_channels.begin(), g);
        weights.insert(p.nhwc() ? weights.end() - 1 : weights.begin(), g); // o runs over g, then o, in both layouts
    }
    Tensor X = input("X", t, p.image(in_channels, p.in_y, p.in_x)), K = input("W", t, weights);
    const Expr product = p.read(X, in_channels) * p.widened(K.at(std::vector<Expr>(weights.begin(), weights.end())));
    const AxisList over = p.nhwc() ? AxisList{p.ky, p.kx, c} : AxisList{c, p.ky, p.kx};
    return p.finish("conv2d", {X, K}, out_channels, sum(product, over));
}

Op depthwise_conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int KH, int KW,
                    const Conv2dOptions &options) {
    check("depthwise_conv2d", KH, KW, options);
    const Parts p(t, N, H, W, KH, KW, options);
    Axis c("c", C);
    const std::vector<Axis> weights = p.nhwc() ? std::vector<Axis>{p.ky, p.kx, c} : std::vector<Axis>{c, p.ky, p.kx};
    Tensor X = input("X", t, p.image({c}, p.in_y, p.in_x)), K = input("W", t, weights);
    const Expr product = p.read(X, {c}) * p.widened(K.at(std::vector<Expr>(weights.begin(), weights.end())));
    return p.finish("depthwise_conv2d", {X, K}, {c}, sum(product, {p.ky, p.kx}));
}

} // namespace kumiko::ops
