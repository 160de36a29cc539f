// The peers must compute the same as the cases, otherwise ratios to them mean nothing. A missing
// peer is skipped.
// Sanitized: no
#include "bench/peers.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

using namespace kumiko::bench;

namespace {

template<typename T = float>
std::vector<T> numbers(int64_t count, int step, double scale = 0.25) {
    std::vector<T> out(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; i++)
        out[static_cast<size_t>(i)] = static_cast<T>(static_cast<double>(i * step % 17 - 8) * scale);
    return out;
}

template<typename T>
void check_near(const std::string &who, const std::vector<T> &found, const std::vector<T> &expected) {
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); i++) {
        INFO(who << ", element " << i);
        REQUIRE(static_cast<double>(found[i]) == doctest::Approx(static_cast<double>(expected[i])).epsilon(1e-4));
    }
}

// Runs each peer that supports the case on an output of `count` elements that holds other values
// before.
template<typename T>
void each(const std::vector<T> &expected, const std::function<Peer::Result(Peer &, T *)> &ask) {
    for (Peer *peer : peers()) {
        std::vector<T> out(expected.size(), T(77));
        auto kernel = ask(*peer, out.data());
        if (!kernel) continue;
        // Twice: results must not accumulate.
        for (int time = 0; time < 2; time++) kernel->work.run();
        kernel->collect();
        check_near(peer->name(), out, expected);
    }
}

// C of the case, from operands in double.
std::vector<double> naive_matmul(const MatmulCase &s, const std::function<double(int64_t)> &a,
                                 const std::function<double(int64_t)> &b) {
    const int64_t batch = s.batch ? s.batch : 1;
    std::vector<double> c(static_cast<size_t>(batch * s.m * s.n));
    size_t at = 0;
    for (int64_t q = 0; q < batch; q++)
        for (int64_t i = 0; i < s.m; i++)
            for (int64_t j = 0; j < s.n; j++, at++) {
                for (int64_t k = 0; k < s.k; k++)
                    c[at] += a(q * s.m * s.k + (s.transpose_a ? k * s.m + i : i * s.k + k)) *
                             b((s.shared_b ? 0 : q) * s.k * s.n + (s.transpose_b ? j * s.k + k : k * s.n + j));
                if (s.epilogue.bias) c[at] += s.epilogue.bias[j];
                if (s.epilogue.residual) c[at] += s.epilogue.residual[at];
                if (s.epilogue.activation == "relu") c[at] = std::max(c[at], 0.0);
            }
    return c;
}

template<typename A, typename B, typename C>
void check_matmul(
    const MatmulCase &s, const std::vector<A> &a, const std::vector<B> &b,
    const std::function<double(A)> &read = [](A x) { return static_cast<double>(x); }) {
    const std::vector<double> exact = naive_matmul(
        s, [&](int64_t i) { return read(a[static_cast<size_t>(i)]); },
        [&](int64_t i) {
            if constexpr (std::is_same_v<A, B>) return read(b[static_cast<size_t>(i)]);
            return static_cast<double>(b[static_cast<size_t>(i)]);
        });
    const std::vector<C> expected(exact.begin(), exact.end());
    for (bool prepack : {false, true})
        for (int threads : {1, 2})
            each<C>(expected, [&](Peer &peer, C *c) {
                return peer.matmul(s, a.data(), b.data(), c, {.threads = threads, .prepack_weights = prepack});
            });
}

std::vector<float> naive_conv(const ConvCase &s, const std::vector<float> &src, const std::vector<float> &weights) {
    std::vector<float> dst(static_cast<size_t>(s.n * s.filters * s.out_h() * s.out_w()));
    const int64_t per_group = s.filters / s.groups, channels = s.c / s.groups;
    size_t at = 0;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t f = 0; f < s.filters; f++)
            for (int64_t y = 0; y < s.out_h(); y++)
                for (int64_t x = 0; x < s.out_w(); x++, at++) {
                    double sum = s.epilogue.bias ? s.epilogue.bias[f] : 0;
                    for (int64_t c = 0; c < channels; c++)
                        for (int64_t r = 0; r < s.r; r++)
                            for (int64_t t = 0; t < s.s; t++) {
                                const int64_t iy = y * s.stride - s.pad + r * s.dilation,
                                              ix = x * s.stride - s.pad + t * s.dilation;
                                if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
                                const int64_t ic = f / per_group * channels + c;
                                sum += double(src[static_cast<size_t>(((n * s.c + ic) * s.h + iy) * s.w + ix)]) *
                                       weights[static_cast<size_t>(((f * channels + c) * s.r + r) * s.s + t)];
                            }
                    if (s.epilogue.residual) sum += s.epilogue.residual[at];
                    if (s.epilogue.activation == "relu") sum = std::max(sum, 0.0);
                    dst[at] = static_cast<float>(sum);
                }
    return dst;
}

float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

} // namespace

TEST_CASE("matmul, transposed and in batches") {
    for (bool ta : {false, true})
        for (bool tb : {false, true})
            for (int64_t batch : {0, 1, 3})
                for (bool shared : {false, true}) {
                    if (shared && !batch) continue;
                    MatmulCase s{5, 7, 9};
                    s.transpose_a = ta, s.transpose_b = tb, s.batch = batch, s.shared_b = shared;
                    const int64_t count = batch ? batch : 1;
                    check_matmul<float, float, float>(s, numbers(count * 45, 3), numbers(count * 63, 5));
                    s.a = s.b = s.c = Dtype::F64;
                    check_matmul<double, double, double>(s, numbers<double>(count * 45, 3),
                                                         numbers<double>(count * 63, 5));
                }
}

TEST_CASE("matrix times vector, either side") {
    for (bool ta : {false, true})
        for (bool tb : {false, true})
            for (bool tall : {false, true}) {
                MatmulCase s{tall ? 13 : 1, tall ? 1 : 13, 9};
                s.transpose_a = ta, s.transpose_b = tb;
                check_matmul<float, float, float>(s, numbers(s.m * s.k, 3), numbers(s.k * s.n, 5));
            }
}

TEST_CASE("matmul of bytes and of bf16") {
    check_matmul<uint8_t, int8_t, int32_t>({5, 7, 9, Dtype::U8, Dtype::S8, Dtype::S32}, numbers<uint8_t>(45, 3, 0.5),
                                           numbers<int8_t>(63, 5, 1));
    std::vector<uint16_t> a, b; // multiples of 1/4 up to 2 are exact
    for (float x : numbers(45, 3)) a.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16));
    for (float x : numbers(63, 5)) b.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16));
    check_matmul<uint16_t, uint16_t, float>({5, 7, 9, Dtype::BF16, Dtype::BF16, Dtype::F32}, a, b, from_bf16);
}

TEST_CASE("matmul with an epilogue") {
    const std::vector<float> bias = numbers(7, 7), residual = numbers(35, 11);
    for (const Epilogue &e : {Epilogue{bias.data(), nullptr, ""}, Epilogue{bias.data(), nullptr, "relu"},
                              Epilogue{nullptr, residual.data(), ""}, Epilogue{bias.data(), residual.data(), "relu"}}) {
        MatmulCase s{5, 7, 9};
        s.epilogue = e;
        check_matmul<float, float, float>(s, numbers(45, 3), numbers(63, 5));
    }
}

TEST_CASE("convolutions, grouped, strided, dilated, with epilogues") {
    for (ConvCase s : {ConvCase{1, 4, 9, 8, 6, 3, 3, 1, 1}, ConvCase{2, 3, 11, 10, 8, 5, 3, 2, 2},
                       ConvCase{1, 8, 7, 7, 8, 3, 3, 1, 1, 1, 8}, ConvCase{1, 8, 9, 9, 4, 3, 3, 1, 0, 2, 2},
                       ConvCase{1, 16, 6, 6, 32, 1, 1}}) {
        const std::vector<float> src = numbers(s.n * s.c * s.h * s.w, 3), bias = numbers(s.filters, 7),
                                 weights = numbers(s.filters * s.c / s.groups * s.r * s.s, 5),
                                 residual = numbers(s.n * s.filters * s.out_h() * s.out_w(), 11);
        for (const Epilogue &e :
             {Epilogue{}, Epilogue{bias.data(), nullptr, ""}, Epilogue{bias.data(), residual.data(), "relu"}})
            for (bool own : {false, true}) {
                if (own && e.residual) continue; // it would have to be in the peer's layout too
                s.epilogue = e;
                each<float>(naive_conv(s, src, weights), [&](Peer &peer, float *dst) {
                    return peer.conv2d(s, src.data(), weights.data(), dst,
                                       {.prepack_weights = true, .own_activations = own});
                });
            }
    }
}

TEST_CASE("convolutions of bytes") {
    ConvCase s{1, 8, 7, 7, 16, 3, 3, 1, 1};
    s.src = s.weights = Dtype::S8, s.dst = Dtype::S32;
    const std::vector<float> src = numbers(8 * 49, 3, 1), weights = numbers(16 * 8 * 9, 5, 2),
                             exact = naive_conv(s, src, weights);
    const std::vector<int8_t> x(src.begin(), src.end()), w(weights.begin(), weights.end());
    // Weights are even: without byte instructions, oneDNN halves them.
    for (bool own : {false, true})
        each<int32_t>({exact.begin(), exact.end()}, [&](Peer &peer, int32_t *dst) {
            return peer.conv2d(s, x.data(), w.data(), dst, {.prepack_weights = true, .own_activations = own});
        });
}

TEST_CASE("rows and elements") {
    const int rows = 3, columns = 20, count = rows * columns;
    const std::vector<float> x = numbers(count, 3), scale = numbers(columns, 5), shift = numbers(columns, 7);
    std::vector<float> softmax(count), logs(count), norm(count), root(count), silu(count), square(count);
    for (int r = 0; r < rows; r++) {
        double sum = 0, mean = 0, variance = 0, squares = 0;
        for (int c = 0; c < columns; c++) {
            const double v = x[r * columns + c];
            sum += std::exp(v), mean += v / columns, squares += v * v / columns;
        }
        for (int c = 0; c < columns; c++) variance += std::pow(x[r * columns + c] - mean, 2) / columns;
        for (int c = 0; c < columns; c++) {
            const int i = r * columns + c;
            softmax[i] = static_cast<float>(std::exp(x[i]) / sum);
            logs[i] = static_cast<float>(x[i] - std::log(sum));
            norm[i] = static_cast<float>((x[i] - mean) / std::sqrt(variance + 1e-5) * scale[c] + shift[c]);
            root[i] = static_cast<float>(x[i] / std::sqrt(squares + 1e-5) * scale[c]);
            silu[i] = static_cast<float>(x[i] / (1 + std::exp(-x[i])));
            square[i] = x[i] * x[i];
        }
    }
    const auto row = [&](const char *function, const std::vector<float> &expected, bool scaled, bool shifted) {
        each<float>(expected, [&](Peer &peer, float *y) {
            return peer.rows({function, rows, columns}, x.data(), scaled ? scale.data() : nullptr,
                             shifted ? shift.data() : nullptr, y, {});
        });
    };
    row("softmax", softmax, false, false);
    row("log_softmax", logs, false, false);
    row("layer_norm", norm, true, true);
    row("rms_norm", root, true, false);
    each<float>(silu, [&](Peer &p, float *y) { return p.elementwise("silu", count, x.data(), y, {}); });
    each<float>(square, [&](Peer &p, float *y) { return p.elementwise("square", count, x.data(), y, {}); });
    for (Peer *peer : peers()) CHECK_FALSE(peer->elementwise("no such function", count, x.data(), square.data(), {}));
}

TEST_CASE("two operands, reductions, transposition") {
    const std::vector<float> a = numbers(60, 3), b = numbers(60, 5);
    std::vector<float> both(60), row(60), sums(20), turned(60);
    for (size_t i = 0; i < 60; i++) both[i] = a[i] - b[i], row[i] = a[i] - b[i % 20];
    for (size_t i = 0; i < 60; i++) sums[i % 20] += a[i], turned[i % 20 * 3 + i / 20] = a[i];
    each<float>(both, [&](Peer &p, float *y) { return p.binary({"sub", 3, 20}, a.data(), b.data(), y, {}); });
    each<float>(row, [&](Peer &p, float *y) { return p.binary({"sub", 3, 20, true}, a.data(), b.data(), y, {}); });
    each<float>(sums, [&](Peer &p, float *y) { return p.reduce({"sum", {3, 20}, {0}}, a.data(), y, {}); });
    each<float>(turned, [&](Peer &p, float *y) { return p.transpose({{3, 20}, {1, 0}}, a.data(), y, {}); });
    std::vector<float> cubes(60); // axes 3, 4, 5 to 4, 5, 3
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 20; j++) cubes[j * 3 + i] = a[i * 20 + j];
    each<float>(cubes, [&](Peer &p, float *y) { return p.transpose({{3, 4, 5}, {1, 2, 0}}, a.data(), y, {}); });
}

TEST_CASE("attention: complete and step by step") {
    AttentionCase s{1, 4, 2, 5, 5, 8, 8, 0.35};
    const std::vector<float> q = numbers(4 * 5 * 8, 3), k = numbers(2 * 5 * 8, 5), v = numbers(2 * 5 * 8, 7);
    for (bool causal : {false, true}) {
        std::vector<float> expected(q.size());
        for (size_t h = 0; h < 4; h++)
            for (size_t i = 0; i < 5; i++) {
                double weights[5], total = 0;
                for (size_t j = 0; j < 5; j++) {
                    double score = 0;
                    for (size_t d = 0; d < 8; d++) score += double(q[(h * 5 + i) * 8 + d]) * k[(h / 2 * 5 + j) * 8 + d];
                    total += weights[j] = causal && j > i ? 0 : std::exp(score * s.scale);
                }
                for (size_t d = 0; d < 8; d++) {
                    double sum = 0;
                    for (size_t j = 0; j < 5; j++) sum += weights[j] / total * v[(h / 2 * 5 + j) * 8 + d];
                    expected[(h * 5 + i) * 8 + d] = static_cast<float>(sum);
                }
            }
        s.causal = causal;
        for (bool in_steps : {false, true})
            each<float>(expected, [&](Peer &p, float *y) {
                return p.attention(s, q.data(), k.data(), v.data(), y, {.in_steps = in_steps});
            });
    }
}

TEST_CASE("peers say whether they are there") {
    for (Peer *peer : peers()) {
        MESSAGE(peer->name() << " " << peer->version() << peer->reason());
        CHECK(peer->available() == peer->reason().empty());
        CHECK(peer->available() == !peer->version().empty());
        CHECK(find_peer(peer->name()) == peer);
    }
    CHECK(find_peer("nobody") == nullptr);
}

TEST_CASE("a peer in another process reports its own seconds") {
    Peer *peer = find_peer("ONNX Runtime");
    REQUIRE(peer);
    if (!peer->available()) return;
    const std::vector<float> x(1 << 16, 0.5f);
    std::vector<float> y(x.size());
    const auto kernel = peer->elementwise("exp", 1 << 16, x.data(), y.data(), {});
    REQUIRE(kernel);
    REQUIRE(kernel->work.timed);
    const double some = kernel->work.timed(10), many = kernel->work.timed(1000);
    CHECK(some > 0);
    CHECK(many > some);
}
