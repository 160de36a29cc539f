// Attention as users write it: the schedule finds the axes by the indices of reads, whatever their
// names and order.
// Links: driver
#include "driver/default_schedule.h"
#include "driver/kernel.h"
#include "dsl/interpret.h"
#include "dsl/math.h"
#include "dsl/reduction.h"
#include "ops/ops.h"
#include "schedules/library/attention.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

enum class Scores { Plain, Bias, Window, Heads };

// Each reduction over keys has an axis of its own.
Op own_attention(int64_t queries, int64_t keys, Scores scores, bool queries_last) {
    constexpr int features = 24, heads = 3;
    const int n = static_cast<int>(queries), m = static_cast<int>(keys);
    const Axis h("head", heads), i("query", n), j("key", m), j1("j1", m), j2("j2", m), j3("j3", m), k("k", features),
        v("v", features);
    const bool by_heads = scores == Scores::Heads;
    const auto axes = [&](std::vector<Axis> rest) {
        if (by_heads) rest.insert(rest.begin(), h);
        return AxisList(rest);
    };
    const auto at = [&](const Tensor &t, const auto &...index) { return by_heads ? t(h, index...) : t(index...); };
    const auto both = [&](const Axis &i, const Axis &j) {
        return queries_last ? std::vector<Axis>{j, i} : std::vector<Axis>{i, j};
    };
    const auto both_at = [&](const Tensor &t, const Expr &i, const Expr &j) {
        return queries_last ? at(t, j, i) : at(t, i, j);
    };
    const Tensor Q = input("Q", f32, axes({i, k})), K = input("K", f32, axes({j, k})),
                 V = input("V", f32, axes({j, v})), B = input("B", f32, {i, j});
    Element s = sum(at(Q, i, k) * at(K, j, k), k) * 0.125f;
    if (scores == Scores::Bias) s = s + B(i, j);
    if (scores == Scores::Window) s = select(i - j < 6 && j <= i, s, -1e30f);
    if (by_heads) s = s - cast(f32, i - j) * 0.01f;
    const Tensor S = compute("S", axes(both(i, j)), s);
    const Tensor top = compute("top", axes({i}), maximum(both_at(S, i, j1), j1));
    const Tensor e = compute("e", axes(both(i, j)), exp(both_at(S, i, j) - at(top, i)));
    const Tensor total = compute("total", axes({i}), sum(both_at(e, i, j2), j2));
    const Tensor O = compute("O", axes({i, v}), sum(both_at(e, i, j3) * at(V, j3, v), j3) / at(total, i));
    std::vector<Tensor> inputs = {Q, K, V};
    if (scores == Scores::Bias) inputs.push_back(B);
    return Op("own_attention", inputs, {O});
}

} // namespace

TEST_CASE("attention of one's own gets the library's schedule, and computes what interpret does") {
    for (const auto &[queries, keys] : {std::pair(40, 40), {33, 50}, {7, 100}, {100, 7}, {1, 20}}) {
        for (const Scores scores : {Scores::Plain, Scores::Bias, Scores::Window, Scores::Heads}) {
            for (const bool queries_last : {false, true}) {
                const Op op = own_attention(queries, keys, scores, queries_last);
                CAPTURE(op.to_string());
                std::string name;
                std::vector<PassedOver> passed_over;
                const Schedule s = default_schedule(op, Machine::host(), PackedBy::Kernel, &passed_over, &name);
                CHECK(name == "attention");
                CHECK(passed_over.empty());
                CAPTURE(s.nest());
                std::vector<Buffer<>> inputs;
                for (const Input &in : op.inputs()) {
                    inputs.push_back(make_input(in, {}));
                    fill_random(inputs.back(), inputs.size(), -1, 1);
                }
                std::vector<Buffer<>> all = inputs;
                all.push_back(make_output(op, "O", {}));
                fill_unwritten(all.back());
                compile(s)(all);
                CHECK_NOTHROW(check_close(all.back(), interpret(op, inputs)[0], {.relative = 1e-4, .absolute = 1e-5}));
            }
        }
    }
}

TEST_CASE("scores without features to sum along in both operands are no attention") {
    const Axis i("i", 20), j("j", 20), k("k", 8), v("v", 8), t("t", 20);
    const Tensor Q = input("Q", f32, {i}), K = input("K", f32, {j, k}), V = input("V", f32, {j, v});
    const auto mixed = [&](const Element &score, const std::vector<Tensor> &inputs) {
        const Tensor S = compute("S", {i, j}, score), e = compute("e", {i, j}, S(i, j) * 0.5f),
                     z = compute("z", {i}, sum(S(i, t), t));
        return Op("mixed", inputs, {compute("O", {i, v}, sum(e(i, j) * V(j, v), j) / z(i))});
    };
    CHECK(!library::is_attention(mixed(sum(Q(i) * K(j, k), k), {Q, K, V})));
    compile(mixed(sum(Q(i) * K(j, k), k), {Q, K, V}));
}

TEST_CASE("ops that resemble attention do not get its schedule") {
    const Axis i("i", 20), j("j", 20), k("k", 8), v("v", 8), t("t", 20);
    const Tensor Q = input("Q", f32, {i, k}), K = input("K", f32, {j, k}), V = input("V", f32, {j, v});
    const Tensor S = compute("S", {i, j}, sum(Q(i, k) * K(j, k), k));
    const auto mixed = [&](const Element &divisor) {
        const Tensor e = compute("e", {i, j}, S(i, j) * 0.5f);
        return Op("mixed", {Q, K, V}, {compute("O", {i, v}, sum(e(i, j) * V(j, v), j) / divisor)});
    };
    const Tensor over_keys = compute("z", {i}, sum(S(i, t), t)), over_queries = compute("z", {j}, sum(S(t, j), t));
    CHECK(library::is_attention(mixed(over_keys(i))));
    CHECK(!library::is_attention(mixed(over_queries(i)))); // the keys' sums, read at queries
    const Tensor turned = compute("turned", {i, j}, S(j, i));
    const Tensor z = compute("z", {i}, sum(turned(i, t), t));
    CHECK(!library::is_attention(mixed(z(i)))); // S has queries in two places
}
