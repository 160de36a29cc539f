#include "ops/conv.h"

#include "ops/elementwise.h"
#include "ops/groups.h"
#include "ops/quantise.h"
#include "support/error.h"

#include <fmt/format.h>

namespace kumiko::ops {

namespace {

// One spatial axis: `size` input elements, `kernel` weights.
struct Dimension {
    std::string axis, what;
    Expr size;
    int kernel, stride, before, after, dilation;
};

struct PoolEnd {
    std::string kind; // "" for none
    int window = 1, stride = 1, padding = 0;
};

// Output types and epilogue, from the op's options.
struct End {
    bool bias, residual;
    std::string activation;
    Type w_type, output;
    bool requantise;
    int zero_point;
    PoolEnd pool;
};

template<typename Options>
End end_of(const Options &o) {
    return {o.bias, o.residual, o.activation, o.w_type, o.output, o.requantise, o.zero_point, {}};
}

struct Shape {
    const char *op;
    std::vector<Dimension> dimensions; // outermost first
    ImageLayout layout;
    int groups;
    End end;
};

bool stated(Type t) { return t.bits() != 0; }

Shape shape_of(const char *op, const Expr &H, const Expr &W, int KH, int KW, const Conv2dOptions &o) {
    Shape s{op,
            {{"y", "height", H, KH, o.stride_y, o.pad_top, o.pad_bottom, o.dilation_y},
             {"x", "width", W, KW, o.stride_x, o.pad_left, o.pad_right, o.dilation_x}},
            o.layout,
            o.groups,
            end_of(o)};
    s.end.pool = {o.pool, o.pool_window, o.pool_stride, o.pool_padding};
    return s;
}

// Converts options with one value for all axes, or one per axis.
Shape shape_of(const char *op, const std::vector<Dimension> &named, const ConvOptions &o) {
    Shape s{op, named, o.layout, o.groups, end_of(o)};
    const auto number = [&](const char *what, const std::vector<int> &list, size_t d) {
        if (list.size() != 1 && list.size() != named.size())
            throw UserError(fmt::format("{}: {} has {} numbers; legal is one{}", op, what, list.size(),
                                        named.size() == 1 ? "" : fmt::format(", or {}", named.size())));
        return list[list.size() == 1 ? 0 : d];
    };
    for (size_t d = 0; d < named.size(); d++) {
        Dimension &dim = s.dimensions[d];
        dim.stride = number("stride", o.stride, d);
        dim.before = dim.after = number("padding", o.padding, d);
        dim.dilation = number("dilation", o.dilation, d);
    }
    return s;
}

void check(const char *op, const PoolEnd &p) {
    if (p.kind.empty()) return;
    if (p.kind != "max" && p.kind != "average")
        throw UserError(fmt::format("{}: the pool is \"{}\"; legal is max, average, or none", op, p.kind));
    if (p.window < 1 || p.stride < 1 || p.padding < 0 || p.padding >= p.window)
        throw UserError(
            fmt::format("{}: a pool of windows of {} with stride {} and padding {}; legal are a window and a "
                        "stride of 1 or more, and a padding from 0 to the window less 1",
                        op, p.window, p.stride, p.padding));
    if (p.kind == "average" && p.padding)
        throw UserError(fmt::format("{}: an average pool with padding {}; legal is 0", op, p.padding));
}

void check(const Shape &s) {
    const auto at_least = [&](const std::string &name, int value, int low) {
        if (value < low) throw UserError(fmt::format("{}: {} is {}; legal is {} or more", s.op, name, value, low));
    };
    for (const Dimension &d : s.dimensions) at_least("the " + d.what + " of the weights", d.kernel, 1);
    for (const Dimension &d : s.dimensions) at_least("stride_" + d.axis, d.stride, 1);
    for (const Dimension &d : s.dimensions) at_least("dilation_" + d.axis, d.dilation, 1);
    at_least("groups", s.groups, 1);
    for (const Dimension &d : s.dimensions) at_least("a padding", std::min(d.before, d.after), 0);
    if (s.end.zero_point && !s.end.requantise)
        throw UserError(fmt::format("{}: zero_point is set without requantise; legal is 0, or requantise", s.op));
    if (s.end.requantise && s.end.residual)
        throw UserError(fmt::format("{} with requantise takes no residual; legal is one of them", s.op));
    check(s.op, s.end.pool);
}

Expr out_extent(const Dimension &d) {
    const int covered = d.dilation * (d.kernel - 1) + 1;
    if (const auto n = Halide::Internal::as_const_int(d.size); n && *n + d.before + d.after < covered) {
        throw UserError(
            fmt::format("the {} of the input is {}, and {} with its padding, but the weights cover {}; legal "
                        "is an input no smaller than that",
                        d.what, *n, *n + d.before + d.after, covered));
    }
    const Expr last = d.size + (d.before + d.after - d.dilation * (d.kernel - 1) - 1);
    return d.stride == 1 ? last + 1 : last / d.stride + 1;
}

Expr scaled(const Axis &a, int factor) { return factor == 1 ? Expr(a) : a * factor; }

// y * stride + ky * dilation − padding, without terms that have no effect.
Expr source(const Axis &out, const Axis &k, const Dimension &d) {
    const Expr e = scaled(out, d.stride) + scaled(k, d.dilation);
    return d.before ? e - d.before : e;
}

// Common to all convolutions: the axes of the image, the reads of X, and the epilogue.
struct Parts {
    const Shape &s;
    const End &end;
    Type weight, acc, out;
    Axis n;
    std::vector<Axis> in, pixel, window; // y and x of X, y and x of Y, ky and kx

    Parts(Type t, const Expr &N, const Shape &s)
        : s(s), end(s.end), weight(stated(end.w_type) ? end.w_type : t), acc(accumulator_type(t)),
          out(stated(end.output) ? end.output
              : t.is_float()     ? t
                                 : acc),
          n("n", N) {
        check(s);
        if (end.requantise && acc != i32)
            throw UserError(
                fmt::format("{} requantises sums of i32, not {}; legal are X and W of 8 bits", s.op, type_name(acc)));
        for (const Dimension &d : s.dimensions) {
            in.emplace_back(d.axis, d.size);
            pixel.emplace_back(d.axis, out_extent(d));
            window.emplace_back("k" + d.axis, d.kernel);
        }
    }

    bool channels_last() const { return s.layout == ImageLayout::NHWC; }

    // The axes of an image: the channels (with their group, if any) before or after the pixel axes.
    template<typename T>
    std::vector<T> image(const std::vector<Axis> &channels, const std::vector<T> &pixel) const {
        std::vector<T> all = {n};
        if (!channels_last()) all.insert(all.end(), channels.begin(), channels.end());
        all.insert(all.end(), pixel.begin(), pixel.end());
        if (channels_last()) all.insert(all.end(), channels.begin(), channels.end());
        return all;
    }

    // The element of X for a pixel and a window position, in the accumulator type.
    Expr read(const Tensor &X, const std::vector<Axis> &channels) const {
        bool padded = false;
        std::vector<Expr> at;
        for (size_t d = 0; d < s.dimensions.size(); d++) {
            padded = padded || s.dimensions[d].before || s.dimensions[d].after;
            at.push_back(source(pixel[d], window[d], s.dimensions[d]));
        }
        return widened((padded ? zero_padded(X, in) : X).at(image<Expr>(channels, at)));
    }

    Expr widened(const Element &e) const { return e.type() == acc ? Expr(e) : cast(acc, e); }

    Op finish(std::vector<Tensor> inputs, const std::vector<Axis> &channels, const Expr &sum,
              const std::vector<Requirement> &required = {}) const {
        const Type after = type_after(acc, out);
        const auto converted = [&](const Expr &e) { return e.type() == after ? e : cast(after, e); };
        Expr value = converted(sum);
        const std::vector<Axis> axes = image(channels, pixel);
        const std::vector<Expr> channel(channels.begin(), channels.end());
        if (end.bias) {
            inputs.push_back(input("bias", end.requantise ? acc : out, channels));
            value = value + converted(inputs.back().at(channel));
        }
        if (end.residual) {
            inputs.push_back(input("residual", out, axes));
            value = value + converted(inputs.back().at(std::vector<Expr>(axes.begin(), axes.end())));
        }
        if (end.requantise) {
            inputs.push_back(input("scale", f32, channels));
            value = requantised(s.op, out, value, inputs.back().at(channel), end.zero_point, end.activation);
        } else {
            value = activated(end.activation, value);
        }
        if (value.type() != out) value = cast(out, value);
        if (end.pool.kind.empty()) return Op(s.op, inputs, {compute("Y", axes, value)}, required);
        return Op(s.op, inputs, {pooled(compute("conv", axes, value), channels)}, required);
    }

    Tensor pooled(const Tensor &conv, const std::vector<Axis> &channels) const {
        const PoolEnd &p = end.pool;
        std::vector<Axis> places, window;
        std::vector<Expr> at;
        for (const Axis &a : pixel) {
            const Expr room = Halide::Internal::simplify(a.extent() + (2 * p.padding - p.window));
            if (const auto left = Halide::Internal::as_const_int(room); left && *left < 0)
                throw UserError(fmt::format("{}: a pool window of {} is larger than its input with padding, {}", s.op,
                                            p.window, *left + p.window));
            places.emplace_back(a.name(), Halide::Internal::simplify(room / p.stride + 1));
            window.emplace_back("p" + a.name(), p.window);
            // Outside the image, clamping reads the nearest element, which is in the window anyway.
            const Expr first = scaled(places.back(), p.stride) + window.back();
            at.push_back(p.padding ? max(min(first - p.padding, a.extent() - 1), 0) : first);
        }
        const Expr x = conv.at(image<Expr>(channels, at));
        const std::vector<Axis> axes = image(channels, places);
        if (p.kind == "max") return compute("Y", axes, maximum(x, window));
        if (!out.is_float())
            throw UserError(
                fmt::format("{}: an average pool takes floats, not {}; legal is max", s.op, type_name(out)));
        const Type c = accumulator_type(out);
        double all = 1;
        for (size_t d = 0; d < window.size(); d++) all *= p.window;
        const Expr mean = sum(c == out ? x : cast(c, Element(x)), window) * Halide::Internal::make_const(c, 1 / all);
        return compute("Y", axes, c == out ? mean : cast(out, Element(mean)));
    }
};

Expr divided(const Expr &channels, const Shape &s, const char *what) {
    if (const auto n = Halide::Internal::as_const_int(channels); n && *n % s.groups != 0) {
        throw UserError(fmt::format("{}: {} groups do not divide the {} {} channels", s.op, s.groups, *n, what));
    }
    return channels / s.groups;
}

Op dense(Type t, const Expr &N, const Expr &C, const Expr &O, const Shape &s) {
    const Parts p(t, N, s);
    Axis c("c", divided(C, s, "input")), o("o", divided(O, s, "output"));
    std::vector<Axis> in_channels = {c}, out_channels = {o}, weights = p.window, over = p.window;
    if (p.channels_last()) {
        weights.insert(weights.end(), {c, o});
        over.push_back(c);
    } else {
        weights.insert(weights.begin(), {o, c});
        over.insert(over.begin(), c);
    }
    if (s.groups > 1) {
        Axis g("g", s.groups);
        in_channels.insert(in_channels.begin(), g);
        out_channels.insert(out_channels.begin(), g);
        weights.insert(p.channels_last() ? weights.end() - 1 : weights.begin(),
                       g); // o runs over g, then o, in both layouts
    }
    Tensor X = input("X", t, p.image(in_channels, p.in)), K = input("W", p.weight, weights);
    const Expr product = p.read(X, in_channels) * p.widened(K.at(std::vector<Expr>(weights.begin(), weights.end())));
    return p.finish({X, K}, out_channels, sum(product, over), whole_groups({C, O}, s.groups));
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
    if (options.groups > 1) {
        const auto c = Halide::Internal::as_const_int(C), o = Halide::Internal::as_const_int(O);
        if (c && o && *c == options.groups && *o == options.groups)
            return depthwise_conv2d(t, N, C, H, W, KH, KW, options);
    }
    return dense(t, N, C, O, shape_of("conv2d", H, W, KH, KW, options));
}

Op depthwise_conv2d(Type t, const Expr &N, const Expr &C, const Expr &H, const Expr &W, int KH, int KW,
                    const Conv2dOptions &options) {
    const Shape s = shape_of("depthwise_conv2d", H, W, KH, KW, options);
    const Parts p(t, N, s);
    Axis c("c", C);
    std::vector<Axis> weights = p.window;
    weights.insert(p.channels_last() ? weights.end() : weights.begin(), c);
    Tensor X = input("X", t, p.image({c}, p.in)), K = input("W", p.weight, weights);
    const Expr product = p.read(X, {c}) * p.widened(K.at(std::vector<Expr>(weights.begin(), weights.end())));
    return p.finish({X, K}, {c}, sum(product, p.window));
}

Op conv1d(Type t, const Expr &N, const Expr &C, const Expr &W, const Expr &O, int KW, const ConvOptions &options) {
    return dense(t, N, C, O, shape_of("conv1d", {{"x", "width", W, KW}}, options));
}

Op conv3d(Type t, const Expr &N, const Expr &C, const Expr &D, const Expr &H, const Expr &W, const Expr &O, int KD,
          int KH, int KW, const ConvOptions &options) {
    return dense(t, N, C, O,
                 shape_of("conv3d", {{"z", "depth", D, KD}, {"y", "height", H, KH}, {"x", "width", W, KW}}, options));
}

} // namespace kumiko::ops
