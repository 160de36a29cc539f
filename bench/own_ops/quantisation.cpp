// Conversions to and from integers of few bits with scales.
#include "bench/own_ops/own_ops.h"

#include "dsl/math.h"
#include "dsl/reduction.h"

namespace kumiko::bench {

namespace {

// Rows to i8, each by its largest absolute value.
Op quantise_rows(const Extents &e) {
    Axis i("i", e["M"]), j("j", e["N"]);
    Tensor X = input("X", f32, {i, j});
    Tensor most = compute("most", {i}, max(maximum(abs(X(i, j)), j), 1e-8f));
    return Op("quantise_rows", {X},
              {compute("Q", {i, j}, cast(i8, clamp(round(X(i, j) * (127.f / most(i))), -127.f, 127.f))),
               compute("scale", {i}, most(i) / 127.f)});
}
const char *quantise_rows_loop = R"(
    for (int i = 0; i < M; i++) {
        float most = 1e-8f;
        for (int j = 0; j < N; j++) most = max(most, fabs(X[i][j]));
        scale[i] = most / 127;
        const float r = 127 / most;
        for (int j = 0; j < N; j++) Q[i][j] = int8_t(min(max(nearbyint(X[i][j] * r), -127.f), 127.f));
    }
)";
void quantise_rows_hand(Schedule &s) {
    s.stage("most.maximum").vectorize("j", 4 * lanes(s));
    s.stage("Q").vectorize("j", lanes(s));
}

// Two weights of 4 bits in each byte, the low one first, to f16. Each block of 64 weights has a
// scale and a zero point.
Op int4_unpack(const Extents &e) {
    Axis i("i", e["M"]), k("k", e["K"]), h("h", e["K"] / 2), b("b", e["K"] / 64);
    Tensor W = input("W", u8, {i, h}), scale = input("scale", f16, {i, b}), zero = input("zero", u8, {i, b});
    const Element q = select(k % 2 == 0, W(i, k / 2) & 15, W(i, k / 2) >> 4);
    return Op(
        "int4_unpack", {W, scale, zero},
        {compute("Y", {i, k}, cast(f16, (cast(f32, q) - cast(f32, zero(i, k / 64))) * cast(f32, scale(i, k / 64))))});
}
const char *int4_unpack_loop = R"(
    for (int i = 0; i < M; i++)
        for (int b = 0; b < K / 64; b++) {
            const float s = scale[i][b], z = zero[i][b];
            for (int k = 0; k < 32; k++) {
                const uint8_t w = W[i][b * 32 + k];
                Y[i][b * 64 + 2 * k] = _Float16((float(w & 15) - z) * s);
                Y[i][b * 64 + 2 * k + 1] = _Float16((float(w >> 4) - z) * s);
            }
        }
)";

} // namespace

std::vector<OwnOp> quantisation_ops() {
    return {
        {"quantise_rows", {{"M", 300}, {"N", 517}}, quantise_rows, quantise_rows_loop, quantise_rows_hand, {}, {0, 1}},
        {"int4_unpack", {{"M", 256}, {"K", 640}}, int4_unpack, int4_unpack_loop, {}, {{"zero", {0, 16}}}, {2e-3, 1e-3}},
    };
}

} // namespace kumiko::bench
