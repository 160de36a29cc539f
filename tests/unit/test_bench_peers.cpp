// The peers compute what the cases say: otherwise a ratio to them means nothing. A missing peer is passed over.
#include "bench/peak.h"
#include "bench/peers.h"
#include "bench/timer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>

using namespace kumiko::bench;

namespace {

std::vector<float> numbers(int64_t count, int step) {
    std::vector<float> out(count);
    for (int64_t i = 0; i < count; i++) out[i] = static_cast<float>(i * step % 17 - 8) / 4;
    return out;
}

void check_near(const std::vector<float> &found, const std::vector<float> &expected) {
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); i++) {
        INFO("element " << i);
        REQUIRE(found[i] == doctest::Approx(expected[i]).epsilon(1e-4));
    }
}

std::vector<float> naive_conv(const ConvCase &s, const std::vector<float> &src, const std::vector<float> &weights,
                              const std::vector<float> &bias) {
    std::vector<float> dst(s.n * s.filters * s.out_h() * s.out_w());
    int64_t per_group = s.filters / s.groups, channels = s.c / s.groups;
    size_t at = 0;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t f = 0; f < s.filters; f++)
            for (int64_t y = 0; y < s.out_h(); y++)
                for (int64_t x = 0; x < s.out_w(); x++, at++) {
                    double sum = bias[f];
                    for (int64_t c = 0; c < channels; c++)
                        for (int64_t r = 0; r < s.r; r++)
                            for (int64_t t = 0; t < s.s; t++) {
                                int64_t iy = y * s.stride - s.pad + r * s.dilation,
                                        ix = x * s.stride - s.pad + t * s.dilation;
                                if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
                                int64_t ic = f / per_group * channels + c;
                                sum += double(src[((n * s.c + ic) * s.h + iy) * s.w + ix]) *
                                       weights[((f * channels + c) * s.r + r) * s.s + t];
                            }
                    dst[at] = static_cast<float>(sum);
                }
    return dst;
}

} // namespace

TEST_CASE("matmul") {
    MatmulCase s{5, 7, 9};
    std::vector<float> a = numbers(45, 3), b = numbers(63, 5), expected(35);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 7; j++)
            for (int k = 0; k < 9; k++) expected[i * 7 + j] += a[i * 9 + k] * b[k * 7 + j];
    for (Peer *peer : peers()) {
        for (bool prepack : {false, true}) {
            for (int threads : {1, 2}) {
                std::vector<float> c(35, NAN);
                auto kernel =
                    peer->matmul(s, a.data(), b.data(), c.data(), {.threads = threads, .prepack_weights = prepack});
                if (!kernel) continue;
                kernel->run();
                check_near(c, expected);
            }
        }
    }
}

TEST_CASE("convolutions, grouped, strided, dilated") {
    for (const ConvCase &s : {ConvCase{1, 4, 9, 8, 6, 3, 3, 1, 1}, ConvCase{2, 3, 11, 10, 8, 5, 3, 2, 2},
                              ConvCase{1, 8, 7, 7, 8, 3, 3, 1, 1, 1, 8}, ConvCase{1, 8, 9, 9, 4, 3, 3, 1, 0, 2, 2},
                              ConvCase{1, 16, 6, 6, 32, 1, 1}}) {
        std::vector<float> src = numbers(s.n * s.c * s.h * s.w, 3), bias = numbers(s.filters, 7);
        std::vector<float> weights = numbers(s.filters * s.c / s.groups * s.r * s.s, 5);
        std::vector<float> expected = naive_conv(s, src, weights, bias);
        for (Peer *peer : peers()) {
            for (bool own : {false, true}) {
                std::vector<float> dst(expected.size(), NAN);
                auto kernel = peer->conv2d(s, src.data(), weights.data(), bias.data(), dst.data(),
                                           {.prepack_weights = true, .own_activations = own});
                if (!kernel) continue;
                kernel->run();
                kernel->collect();
                check_near(dst, expected);
            }
        }
    }
}

TEST_CASE("rows and elements") {
    RowsCase s{3, 20};
    std::vector<float> x = numbers(60, 3), scale = numbers(20, 5), shift = numbers(20, 7);
    std::vector<float> softmax(60), norm(60), silu(60);
    for (int r = 0; r < 3; r++) {
        double sum = 0, mean = 0, variance = 0;
        for (int c = 0; c < 20; c++) {
            sum += std::exp(x[r * 20 + c]);
            mean += x[r * 20 + c] / 20;
        }
        for (int c = 0; c < 20; c++) variance += (x[r * 20 + c] - mean) * (x[r * 20 + c] - mean) / 20;
        for (int c = 0; c < 20; c++) {
            int i = r * 20 + c;
            softmax[i] = static_cast<float>(std::exp(x[i]) / sum);
            norm[i] = static_cast<float>((x[i] - mean) / std::sqrt(variance + 1e-5) * scale[c] + shift[c]);
            silu[i] = static_cast<float>(x[i] / (1 + std::exp(-x[i])));
        }
    }
    for (Peer *peer : peers()) {
        std::vector<float> y(60, NAN);
        if (auto kernel = peer->softmax(s, x.data(), y.data(), {})) {
            kernel->run();
            check_near(y, softmax);
        }
        if (auto kernel = peer->layer_norm(s, 1e-5f, x.data(), scale.data(), shift.data(), y.data(), {})) {
            kernel->run();
            check_near(y, norm);
        }
        if (auto kernel = peer->elementwise("silu", 60, x.data(), y.data(), {})) {
            kernel->run();
            check_near(y, silu);
        }
        CHECK_FALSE(peer->elementwise("no such function", 60, x.data(), y.data(), {}));
    }
}

TEST_CASE("peers say whether they are there") {
    for (Peer *peer : peers()) {
        CHECK(peer->available() == peer->reason().empty());
        CHECK(peer->available() == !peer->version().empty());
        CHECK(find_peer(peer->name()) == peer);
    }
    CHECK(find_peer("nobody") == nullptr);
}

TEST_CASE("the timer counts what it runs") {
    int slow = 0, fast = 0;
    auto spin = [](int n, int &count) {
        count++;
        std::atomic<int> sink{0};
        for (int i = 0; i < n; i++) sink.store(i, std::memory_order_relaxed);
    };
    TimerOptions options{.sample_seconds = 1e-4, .budget_seconds = 0.01, .min_rounds = 3, .max_rounds = 5};
    std::vector<Timing> t = time_interleaved({[&] { spin(20000, slow); }, [&] { spin(2000, fast); }}, options);
    CHECK(t[0].samples.size() == t[1].samples.size());
    CHECK(t[0].samples.size() >= 3);
    CHECK(t[0].min <= t[0].median);
    CHECK(t[0].median <= t[0].p90);
    CHECK(slow > 3);
    CHECK(fast > 3);
    Timing s = summarize({4, 1, 3, 2});
    CHECK(s.median == doctest::Approx(2.5));
    CHECK(s.min == 1);
    CHECK(speedup(summarize({1, 2, 4}), summarize({2, 4, 4})) == doctest::Approx(2));
}

TEST_CASE("peaks run") {
    CountedWork copy = copy_bandwidth(2, 1 << 20);
    copy.run();
    CHECK(copy.bytes == 2 << 20);
    if (fma_vectors().empty()) return;
    CountedWork peak = fma_peak(2);
    peak.run();
    CHECK(peak.flops > 0);
}
