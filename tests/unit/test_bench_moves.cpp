// The peers' pools, resizing, norms of images, and moves compute the same as the cases. A missing
// peer is skipped.
// Sanitized: no
#include "bench/peers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

using namespace kumiko::bench;

namespace {

std::vector<float> numbers(int64_t count, int step) {
    std::vector<float> out(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; i++) out[static_cast<size_t>(i)] = static_cast<float>(i * step % 17 - 8) * 0.25f;
    return out;
}

// Runs each peer that supports the case on an output with other contents, and checks the result;
// counts the peers.
template<typename T>
int each(const std::vector<T> &expected, const std::function<Peer::Result(Peer &, T *)> &ask) {
    int asked = 0;
    for (Peer *peer : peers()) {
        if (!peer->available()) continue;
        std::vector<T> out(expected.size(), T(77));
        auto kernel = ask(*peer, out.data());
        if (!kernel) continue;
        asked++;
        for (int time = 0; time < 2; time++) kernel->work.run();
        kernel->collect();
        for (size_t i = 0; i < out.size(); i++) {
            INFO(peer->name() << ", element " << i);
            REQUIRE(static_cast<double>(out[i]) == doctest::Approx(static_cast<double>(expected[i])).epsilon(1e-4));
        }
    }
    return asked;
}

bool there(const char *peer) { return find_peer(peer)->available(); }

// Positions of pixels in an image.
struct Images {
    int64_t c, h, w;
    bool last;
    size_t at(int64_t n, int64_t k, int64_t y, int64_t x) const {
        return static_cast<size_t>(last ? ((n * h + y) * w + x) * c + k : ((n * c + k) * h + y) * w + x);
    }
};

std::vector<float> naive_pool(const PoolCase &s, const std::vector<float> &src) {
    const Images from{s.c, s.h, s.w, s.channels_last}, to{s.c, s.out_h(), s.out_w(), s.channels_last};
    std::vector<float> dst(static_cast<size_t>(s.n * s.c * s.out_h() * s.out_w()));
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t c = 0; c < s.c; c++)
            for (int64_t y = 0; y < s.out_h(); y++)
                for (int64_t x = 0; x < s.out_w(); x++) {
                    float greatest = -INFINITY, sum = 0;
                    for (int64_t ky = 0; ky < s.kh; ky++)
                        for (int64_t kx = 0; kx < s.kw; kx++) {
                            const int64_t iy = y * s.stride + ky - s.pad, ix = x * s.stride + kx - s.pad;
                            if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
                            const float v = src[from.at(n, c, iy, ix)];
                            greatest = std::max(greatest, v), sum += v;
                        }
                    dst[to.at(n, c, y, x)] = s.kind == "max" ? greatest : sum / static_cast<float>(s.kh * s.kw);
                }
    return dst;
}

double coordinate(const ResizeCase &s, int64_t at, int64_t in, int64_t out) {
    const double i = static_cast<double>(in), o = static_cast<double>(out), x = static_cast<double>(at);
    if (s.coordinates == "half_pixel") return (x + 0.5) * i / o - 0.5;
    return s.coordinates == "align_corners" ? x * (i - 1) / (o - 1) : x * i / o;
}

std::vector<float> naive_resize(const ResizeCase &s, const std::vector<float> &src) {
    const Images from{s.c, s.h, s.w, s.channels_last}, to{s.c, s.out_h, s.out_w, s.channels_last};
    std::vector<float> dst(static_cast<size_t>(s.n * s.c * s.out_h * s.out_w));
    const auto pixel = [&](int64_t n, int64_t c, int64_t y, int64_t x) {
        return src[from.at(n, c, std::clamp<int64_t>(y, 0, s.h - 1), std::clamp<int64_t>(x, 0, s.w - 1))];
    };
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t c = 0; c < s.c; c++)
            for (int64_t y = 0; y < s.out_h; y++)
                for (int64_t x = 0; x < s.out_w; x++) {
                    const double down = coordinate(s, y, s.h, s.out_h), right = coordinate(s, x, s.w, s.out_w);
                    float &result = dst[to.at(n, c, y, x)];
                    if (s.kind == "nearest") {
                        const double up = s.coordinates == "asymmetric" ? 0 : 0.5;
                        result = pixel(n, c, static_cast<int64_t>(std::floor(down + up)),
                                       static_cast<int64_t>(std::floor(right + up)));
                        continue;
                    }
                    const auto iy = static_cast<int64_t>(std::floor(down)),
                               ix = static_cast<int64_t>(std::floor(right));
                    const double dy = down - std::floor(down), dx = right - std::floor(right);
                    result = static_cast<float>(
                        (1 - dy) * ((1 - dx) * pixel(n, c, iy, ix) + dx * pixel(n, c, iy, ix + 1)) +
                        dy * ((1 - dx) * pixel(n, c, iy + 1, ix) + dx * pixel(n, c, iy + 1, ix + 1)));
                }
    return dst;
}

} // namespace

TEST_CASE("pools of windows and of complete images, in both layouts") {
    int asked = 0;
    for (const char *kind : {"max", "mean"})
        for (const bool last : {false, true})
            for (PoolCase s : {PoolCase{kind, 2, 8, 9, 11, 3, 3, 2, 1}, PoolCase{kind, 1, 16, 8, 8, 2, 2, 2, 0},
                               PoolCase{kind, 1, 3, 7, 10, 3, 3, 2, 0}, PoolCase{kind, 2, 12, 7, 5, 7, 5}}) {
                s.channels_last = last;
                const std::vector<float> src = numbers(s.n * s.c * s.h * s.w, 3);
                asked +=
                    each<float>(naive_pool(s, src), [&](Peer &p, float *y) { return p.pool(s, src.data(), y, {}); });
            }
    if (there("ONNX Runtime")) CHECK(asked >= 8);
}

TEST_CASE("images of other sizes") {
    int asked = 0;
    for (const char *kind : {"nearest", "bilinear"})
        for (const char *coordinates : {"half_pixel", "align_corners", "asymmetric"})
            for (const bool last : {false, true})
                for (const int64_t out : {10, 13}) {
                    const ResizeCase s{kind, coordinates, 2, 8, 5, 5, out, 2 * out, last};
                    const std::vector<float> src = numbers(s.n * s.c * s.h * s.w, 3);
                    asked += each<float>(naive_resize(s, src),
                                         [&](Peer &p, float *y) { return p.resize(s, src.data(), y, {}); });
                }
    if (there("ONNX Runtime")) CHECK(asked >= 12);
}

TEST_CASE("norms of images") {
    const int64_t n = 2, c = 8, h = 5, w = 6, pixels = h * w;
    const std::vector<float> src = numbers(n * c * pixels, 3), mean = numbers(c, 5), scale = numbers(c, 7),
                             shift = numbers(c, 11), variance(static_cast<size_t>(c), 2.25f);
    for (const bool last : {false, true}) {
        const Images at{c, h, w, last};
        std::vector<float> batch(src.size()), group(src.size());
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < c; k++)
                for (int64_t q = 0; q < pixels; q++) {
                    const size_t here = at.at(i, k, q / w, q % w), ch = static_cast<size_t>(k);
                    batch[here] = (src[here] - mean[ch]) / std::sqrt(2.25f + 1e-5f) * scale[ch] + shift[ch];
                    double sum = 0, squares = 0;
                    const int64_t first = k / 4 * 4, count = 4 * pixels; // two groups
                    for (int64_t m = 0; m < count; m++) {
                        const double v = src[at.at(i, first + m / pixels, m % pixels / w, m % w)];
                        sum += v, squares += v * v;
                    }
                    const double average = sum / static_cast<double>(count),
                                 spread = squares / static_cast<double>(count) - average * average;
                    group[here] =
                        static_cast<float>((src[here] - average) / std::sqrt(spread + 1e-5) * scale[ch] + shift[ch]);
                }
        const auto norm = [&](const char *kind, int64_t groups, const std::vector<float> &expected, bool given) {
            return each<float>(expected, [&](Peer &p, float *y) {
                return p.image_norm({kind, n, c, h, w, groups, 1e-5f, last}, src.data(), given ? mean.data() : nullptr,
                                    given ? variance.data() : nullptr, scale.data(), shift.data(), y, {});
            });
        };
        const int batches = norm("batch", 1, batch, true), groups = norm("group", 2, group, false);
        if (there("ONNX Runtime") && !last) CHECK(batches + groups >= 2);
    }
}

TEST_CASE("rows by number, and numbers as rows") {
    const std::vector<float> table = numbers(7 * 5, 3);
    const std::vector<int32_t> index = {6, 0, 3, 3, 5, 1};
    std::vector<float> rows, hot;
    for (int32_t i : index) {
        rows.insert(rows.end(), table.begin() + i * 5, table.begin() + i * 5 + 5);
        for (int32_t j = 0; j < 7; j++) hot.push_back(i == j ? 2.0f : -1.0f);
    }
    const int plain = each<float>(rows, [&](Peer &p, float *y) {
        return p.gather({{6}, 7, 5}, table.data(), index.data(), y, {});
    });
    const int twice = each<float>(rows, [&](Peer &p, float *y) {
        return p.gather({{2, 3}, 7, 5}, table.data(), index.data(), y, {});
    });
    const int ones = each<float>(hot, [&](Peer &p, float *y) { return p.one_hot({6, 7, 2, -1}, index.data(), y, {}); });
    if (there("ONNX Runtime")) CHECK((plain && twice && ones));
}

TEST_CASE("arrays joined, padded and cut") {
    const std::vector<float> a = numbers(24, 3), b = numbers(36, 5);
    std::vector<float> joined, padded, cut;
    for (size_t i = 0; i < 4; i++) { // rows of 6 and of 9
        joined.insert(joined.end(), a.begin() + 6 * static_cast<int>(i), a.begin() + 6 * static_cast<int>(i) + 6);
        joined.insert(joined.end(), b.begin() + 9 * static_cast<int>(i), b.begin() + 9 * static_cast<int>(i) + 9);
    }
    for (int i = -1; i < 6; i++)
        for (int j = -2; j < 7; j++)
            padded.push_back(i < 0 || i >= 4 || j < 0 || j >= 6 ? 0.5f : a[static_cast<size_t>(i * 6 + j)]);
    const auto slice = [&](const SliceCase &s) {
        cut.clear();
        for (int64_t i = 0; i < s.extents[0]; i++)
            for (int64_t j = 0; j < s.extents[1]; j++)
                cut.push_back(a[static_cast<size_t>((s.begin[0] + i * s.step[0]) * 6 + s.begin[1] + j * s.step[1])]);
        return each<float>(cut, [&](Peer &p, float *y) { return p.slice(s, a.data(), y, {}); });
    };
    const int concats = each<float>(joined, [&](Peer &p, float *y) {
        return p.concat({{{4, 6}, {4, 9}}, 1}, {a.data(), b.data()}, y, {});
    });
    const int pads = each<float>(padded, [&](Peer &p, float *y) {
        return p.pad({{4, 6}, {1, 2}, {2, 1}, 0.5f}, a.data(), y, {});
    });
    const int slices = slice({{4, 6}, {2, 3}, {1, 2}, {1, 1}}), steps = slice({{4, 6}, {2, 3}, {0, 1}, {2, 2}}),
              mirrored = slice({{4, 6}, {4, 6}, {0, 5}, {1, -1}});
    if (there("ONNX Runtime")) CHECK((concats && pads && slices && steps && mirrored));
}

TEST_CASE("running sums") {
    const std::vector<float> a = numbers(60, 3);
    for (const int64_t axis : {0, 1, 2})
        for (const bool exclusive : {false, true}) {
            const int64_t step = axis == 0 ? 20 : axis == 1 ? 5 : 1, extent = axis == 0 ? 3 : axis == 1 ? 4 : 5;
            std::vector<float> sums(60);
            for (int64_t i = 0; i < 60; i++) {
                const int64_t place = i / step % extent;
                for (int64_t k = exclusive ? 1 : 0; k <= place; k++)
                    sums[static_cast<size_t>(i)] += a[static_cast<size_t>(i - k * step)];
            }
            const int asked = each<float>(sums, [&](Peer &p, float *y) {
                return p.cumulative_sum({{3, 4, 5}, axis, exclusive}, a.data(), y, {});
            });
            if (there("ONNX Runtime")) CHECK(asked > 0);
        }
}

TEST_CASE("numbers to bytes and back") {
    const std::vector<float> x = numbers(50, 3);
    for (const bool is_signed : {false, true})
        for (const int zero : {0, 5}) {
            const Dtype type = is_signed ? Dtype::S8 : Dtype::U8;
            std::vector<int> exact;
            std::vector<float> back;
            for (float v : x) {
                // up to 128 + 5: some saturate
                const int q = static_cast<int>(std::nearbyint(v * 64)) + zero;
                exact.push_back(is_signed ? std::clamp(q, -128, 127) : std::clamp(q, 0, 255));
                back.push_back(static_cast<float>(exact.back() - zero) / 64);
            }
            const std::vector<uint8_t> bytes(exact.begin(), exact.end()); // of s8 the same bits
            const int forth = each<uint8_t>(bytes, [&](Peer &p, uint8_t *y) {
                return p.quantise({50, Dtype::F32, type, 1.0f / 64, zero}, x.data(), y, {});
            });
            const int from = each<float>(back, [&](Peer &p, float *y) {
                return p.quantise({50, type, Dtype::F32, 1.0f / 64, zero}, bytes.data(), y, {});
            });
            if (there("ONNX Runtime")) CHECK((forth && from));
        }
    std::vector<int32_t> whole(50);
    for (Peer *p : peers()) {
        if (p->available()) CHECK_FALSE(p->quantise({50, Dtype::F32, Dtype::S32, 1, 0}, x.data(), whole.data(), {}));
    }
}
