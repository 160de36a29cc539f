// Attention against loops.
#include "tests/unit/op_reference.h"

using namespace kumiko;

namespace {

void check_attention(int B, int heads, int S, int T, int D, const ops::AttentionOptions &o) {
    const Op op = ops::attention(f64, B, heads, S, T, D, o);
    const std::vector<Buffer<>> in = random_inputs(op);
    const int groups = o.groups ? o.groups : heads, served = heads / groups;
    const int64_t E = in[2].extents().back();
    const double scale = o.scale != 0 ? o.scale : 1 / std::sqrt(D);
    check_elements(op, in, {B, groups, served, S, E}, [&](const Index &y) {
        const int64_t b = y[0], g = y[1], i = y[3];
        double total = 0, mixed = 0;
        for (int64_t j = 0; j < T; j++) {
            if (o.causal && j > i + T - S) continue;
            double score = 0;
            for (int64_t d = 0; d < D; d++) score += at(in[0], {b, g, y[2], i, d}) * at(in[1], {b, g, j, d});
            const double e = std::exp(score * scale);
            total += e;
            mixed += e * at(in[2], {b, g, j, y[4]});
        }
        return total == 0 ? NAN : mixed / total;
    });
}

} // namespace

TEST_CASE("attention: plain, causal, grouped queries") {
    check_attention(1, 1, 4, 4, 3, {});
    check_attention(2, 3, 5, 7, 4, {});
    check_attention(1, 2, 6, 6, 5, {.causal = true});
    check_attention(2, 2, 3, 8, 4, {.causal = true});
    check_attention(1, 2, 1, 9, 4, {.causal = true}); // one token after others
    check_attention(1, 1, 5, 3, 2, {.causal = true}); // the first two queries see nothing
    check_attention(2, 6, 4, 5, 3, {.scale = 0.3, .groups = 2});
    check_attention(1, 4, 3, 5, 3, {.causal = true, .groups = 1, .values = 7});
}

TEST_CASE("attention in narrow types is computed in f32") {
    for (const Type t : {f16, bf16}) {
        const Op op = ops::attention(t, 1, 2, 3, 4, 8);
        CHECK(op.stage("score").type == f32);
        CHECK(op.stage("Y").type == t);
    }
}
