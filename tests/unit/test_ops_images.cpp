// Convolutions in other dimensions, transposed ones, group norms and image resizing, compared with
// loops.
#include "tests/unit/op_reference.h"

using namespace kumiko;

namespace {

constexpr auto first = ops::ImageLayout::NCHW, last = ops::ImageLayout::NHWC;

struct Along { // one axis of a convolution
    int n, k, stride, pad, dilation;
    int out() const { return (n + 2 * pad - dilation * (k - 1) - 1) / stride + 1; }
};

// A convolution over any number of axes, of two images. Arrays are read by position as if they had
// one channel axis.
void check_conv(const std::vector<Along> &axes, int C, int O, const ops::ConvOptions &o) {
    const Op op = axes.size() == 1
                      ? ops::conv1d(f64, 2, C, axes[0].n, O, axes[0].k, o)
                      : ops::conv3d(f64, 2, C, axes[0].n, axes[1].n, axes[2].n, O, axes[0].k, axes[1].k, axes[2].k, o);
    const std::vector<Buffer<>> in = random_inputs(op);
    const Buffer<> y = interpret(op, in);
    const bool channels_last = o.layout == last;
    const int groups = o.groups, Cg = C / groups, Og = O / groups;
    Index out, window, image;
    for (const Along &a : axes) out.push_back(a.out()), window.push_back(a.k), image.push_back(a.n);
    // The position of a channel's pixel in an image of these extents; −1 if out of bounds.
    const auto position = [&](int n, int c, int channels, const Index &pixel, const Index &extents) {
        int64_t p = n, size = 1;
        if (!channels_last) p = p * channels + c;
        for (size_t d = 0; d < pixel.size(); d++) {
            if (pixel[d] < 0 || pixel[d] >= extents[d]) return int64_t(-1);
            p = p * extents[d] + pixel[d], size *= extents[d];
        }
        return channels_last ? p * channels + c : p;
    };
    CAPTURE(op.to_string());
    double worst = 0;
    for (int n = 0; n < 2; n++)
        for (int oc = 0; oc < O; oc++)
            for_each_index(out, [&](const Index &pixel) {
                double acc = 0;
                for (int c = 0; c < Cg; c++)
                    for_each_index(window, [&](const Index &k) {
                        Index source;
                        int64_t tap = 0;
                        for (size_t d = 0; d < k.size(); d++) {
                            source.push_back(pixel[d] * axes[d].stride + k[d] * axes[d].dilation - axes[d].pad);
                            tap = tap * window[d] + k[d];
                        }
                        int64_t taps = 1;
                        for (const int64_t w : window) taps *= w;
                        const int64_t w = channels_last ? (tap * Cg + c) * O + oc : (int64_t(oc) * Cg + c) * taps + tap;
                        const int64_t x = position(n, oc / Og * Cg + c, C, source, image);
                        if (x >= 0) acc += at_position(in[0], x) * at_position(in[1], w);
                    });
                const int64_t p = position(n, oc, O, pixel, out);
                if (o.bias) acc += at_position(in[2], oc);
                if (o.residual) acc += at_position(in.back(), p);
                if (o.activation == "relu") acc = std::max(acc, 0.0);
                worst = std::max(worst, std::abs(acc - at_position(y, p)));
            });
    CHECK(worst < 1e-12);
}

void check_transposed(int C, int H, int W, int O, int KH, int KW, const ops::ConvTransposeOptions &o) {
    const Op op = ops::conv_transpose2d(f64, 2, C, H, W, O, KH, KW, o);
    const std::vector<Buffer<>> in = random_inputs(op);
    const bool channels_last = o.layout == last;
    const int OH = (H - 1) * o.stride_y - 2 * o.padding_y + KH + o.output_padding_y,
              OW = (W - 1) * o.stride_x - 2 * o.padding_x + KW + o.output_padding_x;
    // As a scatter: each pixel adds its weights.
    std::vector<double> y(static_cast<size_t>(2 * O * OH * OW), 0.0);
    const auto place = [&](int64_t n, int64_t c, int64_t r, int64_t s) { return ((n * O + c) * OH + r) * OW + s; };
    for (int n = 0; n < 2; n++)
        for (int c = 0; c < C; c++)
            for (int p = 0; p < H; p++)
                for (int q = 0; q < W; q++)
                    for (int oc = 0; oc < O; oc++)
                        for (int ky = 0; ky < KH; ky++)
                            for (int kx = 0; kx < KW; kx++) {
                                const int r = p * o.stride_y + ky - o.padding_y, s = q * o.stride_x + kx - o.padding_x;
                                if (r < 0 || r >= OH || s < 0 || s >= OW) continue;
                                const double x = channels_last ? at(in[0], {n, p, q, c}) : at(in[0], {n, c, p, q});
                                const double w =
                                    channels_last ? at(in[1], {ky, kx, c, oc}) : at(in[1], {c, oc, ky, kx});
                                y[place(n, oc, r, s)] += x * w;
                            }
    check_elements(op, in, channels_last ? Index{2, OH, OW, O} : Index{2, O, OH, OW}, [&](const Index &i) {
        const int64_t c = channels_last ? i[3] : i[1];
        double v = channels_last ? y[place(i[0], c, i[1], i[2])] : y[place(i[0], c, i[2], i[3])];
        if (o.bias) v += at(in[2], {c});
        return o.activation == "relu" ? std::max(v, 0.0) : v;
    });
}

// The coordinate of pixel y of `out` in `in`.
double coordinate(int64_t y, int64_t in, int64_t out, ops::Coordinates how) {
    const double n = static_cast<double>(in), m = static_cast<double>(out), p = static_cast<double>(y);
    if (how == ops::Coordinates::HalfPixel) return (p + 0.5) * n / m - 0.5;
    if (how == ops::Coordinates::AlignCorners) return out == 1 ? 0 : p * (n - 1) / (m - 1);
    return p * n / m;
}

void check_resize(int H, int W, int OH, int OW, const ops::ResizeOptions &o) {
    const bool channels_last = o.layout == last;
    const auto pixel = [&](const Buffer<> &x, const Index &i, int64_t r, int64_t s) {
        r = std::clamp<int64_t>(r, 0, H - 1), s = std::clamp<int64_t>(s, 0, W - 1);
        return channels_last ? at(x, {i[0], r, s, i[3]}) : at(x, {i[0], i[1], r, s});
    };
    const auto place = [&](const Index &i) {
        return std::pair(coordinate(i[channels_last ? 1 : 2], H, OH, o.coordinates),
                         coordinate(i[channels_last ? 2 : 3], W, OW, o.coordinates));
    };
    const Index extents = channels_last ? Index{2, OH, OW, 3} : Index{2, 3, OH, OW};
    const Op nearest = ops::resize_nearest(f32, 2, 3, H, W, OH, OW, o);
    const std::vector<Buffer<>> x = random_inputs(nearest);
    check_elements(nearest, x, extents, [&](const Index &i) {
        const auto [r, s] = place(i);
        // Coordinates that are halves come out as such in double, or a little less.
        const double half = o.coordinates == ops::Coordinates::Asymmetric ? 1e-9 : 0.5 + 1e-9;
        return pixel(x[0], i, std::floor(r + half), std::floor(s + half));
    });
    const Op bilinear = ops::resize_bilinear(f64, 2, 3, H, W, OH, OW, o);
    const std::vector<Buffer<>> in = random_inputs(bilinear);
    check_elements(bilinear, in, extents, [&](const Index &i) {
        const auto [r, s] = place(i);
        const int64_t r0 = std::floor(r), s0 = std::floor(s);
        const double a = r - static_cast<double>(r0), b = s - static_cast<double>(s0);
        const double top = pixel(in[0], i, r0, s0) * (1 - b) + pixel(in[0], i, r0, s0 + 1) * b;
        const double bottom = pixel(in[0], i, r0 + 1, s0) * (1 - b) + pixel(in[0], i, r0 + 1, s0 + 1) * b;
        return top * (1 - a) + bottom * a;
    });
}

} // namespace

TEST_CASE("conv1d and conv3d in both layouts") {
    for (const auto layout : {first, last}) {
        ops::ConvOptions o;
        o.layout = layout;
        check_conv({{9, 3, 1, 0, 1}}, 3, 4, o);
        check_conv({{3, 2, 1, 0, 1}, {4, 3, 1, 0, 1}, {5, 1, 1, 0, 1}}, 2, 3, o);
        o.stride = {2}, o.padding = {1}, o.dilation = {2};
        check_conv({{10, 3, 2, 1, 2}}, 2, 5, o);
        check_conv({{5, 3, 2, 1, 2}, {4, 2, 2, 1, 2}, {5, 3, 2, 1, 2}}, 2, 2, o);
        o.groups = 2, o.bias = true, o.activation = "relu", o.residual = true;
        check_conv({{10, 3, 2, 1, 2}}, 4, 6, o);
        o.stride = {1, 2, 3}, o.padding = {0, 2, 1}, o.dilation = {1, 1, 2};
        check_conv({{3, 3, 1, 0, 1}, {4, 3, 2, 2, 1}, {6, 2, 3, 1, 2}}, 4, 2, o);
        o.groups = 4;
        o.stride = {1}, o.padding = {0}, o.dilation = {1};
        check_conv({{5, 2, 1, 0, 1}}, 4, 4, o);
    }
}

TEST_CASE("transposed convolutions in both layouts") {
    for (const auto layout : {first, last}) {
        for (const int stride : {1, 2, 3, 4}) {
            for (const int kernel : {1, 2, 3, 4, 5}) {
                for (const int padding : {0, 1, 2}) {
                    const int out = (3 - 1) * stride - 2 * padding + kernel;
                    if (out < 1) continue;
                    ops::ConvTransposeOptions o{layout, stride, stride, padding, padding};
                    check_transposed(2, 3, 4, 3, kernel, kernel, o);
                    o.output_padding_y = stride - 1;
                    o.bias = true, o.activation = "relu";
                    check_transposed(1, 3, 3, 2, kernel, kernel, o);
                }
            }
        }
        check_transposed(3, 2, 5, 2, 3, 2, {layout, 2, 3, 1, 0, 1, 2, true});
    }
}

TEST_CASE("group_norm in both layouts") {
    for (const bool channels_last : {false, true}) {
        for (const auto &[C, groups] : std::vector<std::pair<int, int>>{{6, 1}, {6, 3}, {6, 6}, {5, 1}}) {
            const int H = 3, W = 5, Cg = C / groups;
            const Op op = ops::group_norm(f64, 2, C, H, W, groups, 1e-3, channels_last);
            const std::vector<Buffer<>> in = random_inputs(op);
            const auto x = [&](int64_t n, int64_t g, int64_t c, int64_t s) {
                return channels_last ? at(in[0], {n, s, g, c}) : at(in[0], {n, g, c, s});
            };
            const Index extents = channels_last ? Index{2, H * W, groups, Cg} : Index{2, groups, Cg, H * W};
            check_elements(op, in, extents, [&](const Index &i) {
                const int64_t g = i[channels_last ? 2 : 1], c = i[channels_last ? 3 : 2], s = i[channels_last ? 1 : 3];
                double mean = 0, variance = 0;
                for (int k = 0; k < Cg * H * W; k++) mean += x(i[0], g, k / (H * W), k % (H * W)) / (Cg * H * W);
                for (int k = 0; k < Cg * H * W; k++)
                    variance += std::pow(x(i[0], g, k / (H * W), k % (H * W)) - mean, 2) / (Cg * H * W);
                return (x(i[0], g, c, s) - mean) / std::sqrt(variance + 1e-3) * at(in[1], {g, c}) + at(in[2], {g, c});
            });
        }
    }
}

TEST_CASE("images of another size") {
    for (const auto layout : {first, last}) {
        for (const auto how :
             {ops::Coordinates::HalfPixel, ops::Coordinates::AlignCorners, ops::Coordinates::Asymmetric}) {
            const ops::ResizeOptions o{layout, how};
            check_resize(4, 5, 8, 10, o);
            check_resize(7, 3, 3, 7, o);
            check_resize(5, 4, 5, 4, o);
            check_resize(1, 6, 4, 1, o);
            check_resize(9, 8, 2, 3, o);
        }
    }
}
