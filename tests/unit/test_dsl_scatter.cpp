// Scatters: their meaning, schedules in which each step visits one element, and refusals.
// Links: driver
#include "driver/default_schedule.h"
#include "driver/machines.h"
#include "dsl/scatter.h"
#include "schedules/examples.h"
#include "targets/chip/compile.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/op_reference.h"

using namespace kumiko;

namespace {

// Rows of G added to the rows of dW that `ids` selects.
Op gradient(const Expr &N, const Expr &V, const Expr &D, Type t = f32, Type index = i32) {
    Axis n("n", N), v("v", V), d("d", D);
    Tensor ids = input("ids", index, {n}), G = input("G", t, {n, d});
    return Op("gradient", {ids, G}, {compute("dW", {v, d}, scatter(sum, G(n, d), v, ids(n), n))});
}

std::vector<Buffer<>> arguments(const Op &op, int low, int high) {
    std::vector<Buffer<>> in = random_inputs(op);
    fill_random_integers(in[0], 7, low, high);
    return in;
}

} // namespace

TEST_CASE("values go to the selected elements, and nowhere if the index is outside") {
    for (const Type index : {i32, i64, u8, i8, u32, u64}) {
        const Op op = gradient(60, 9, 5, f64, index);
        const std::vector<Buffer<>> in = arguments(op, index.is_uint() ? 0 : -3, 12);
        INFO(op.to_string());
        check_elements(op, in, {9, 5}, [&](const Index &at_) {
            double sum = 0;
            for (int64_t n = 0; n < 60; n++) sum += at(in[0], {n}) == at_[0] ? at(in[1], {n, at_[1]}) : 0;
            return sum;
        });
    }
}

TEST_CASE("the interpreter looks steps up, to the bits of visiting every element") {
    Axis a("a", 6), n("n", 35), v("v", 11), d("d", 40), w("w", 3);
    Tensor ids = input("ids", i32, {a, n}), G = input("G", f32, {a, n, d}), X = input("X", f16, {a, n});
    const auto same = [&](const auto &form, const std::vector<Axis> &axes, const std::vector<Tensor> &inputs) {
        const Expr named = ids(a, n) == v, spelled = !(ids(a, n) != v);
        const Op looked("looked", inputs, {compute("Y", axes, form(named))}),
            visited("visited", inputs, {compute("Y", axes, form(spelled))});
        REQUIRE(scattered(looked.stages().front()));
        REQUIRE_FALSE(scattered(visited.stages().front()));
        std::vector<Buffer<>> in = random_inputs(looked);
        fill_random_integers(in[0], 9, -2, 12);
        CHECK(difference(Buffer<>(interpret(looked, in)), Buffer<>(interpret(visited, in))) == "");
        const Bounded x = interpret_with_bound(looked, in), y = interpret_with_bound(visited, in);
        for_each_index(Buffer<>(x.values[0]).extents(), [&](const Index &i) {
            CHECK(std::abs(at(x.values[0], i) - at(y.values[0], i)) <= at(x.bounds[0], i) + at(y.bounds[0], i));
        });
    };
    const auto zero = [](const Expr &e) { return Halide::Internal::make_zero(e.type()); };
    const auto chosen = [&](const Expr &c, const Expr &e) { return Halide::select(c, e, zero(e)); };
    same([&](const Expr &c) { return sum(chosen(c, G(a, n, d)), {a, n}); }, {v, d}, {ids, G});
    same([&](const Expr &c) { return sum(chosen(c, G(a, n, d)), {a, n}); }, {d, v}, {ids, G});
    same([&](const Expr &c) { return sum(chosen(c, G(a, n, d) * cast<float>(v + w)), {a, n}); }, {w, v, d}, {ids, G});
    same([&](const Expr &c) { return sum(chosen(c, X(a, n)), {a, n}); }, {v}, {ids, X});
    // If the index depends on another axis of the result, every element is visited.
    same([&](const Expr &c) { return sum(chosen(c, G(a, n, d)), n); }, {a, v, d}, {ids, G});
}

TEST_CASE("it folds with any combiner, by an index over several axes, and reads as a reduction") {
    const Op op = gradient(6, 4, 3);
    CHECK(op.to_string() == "gradient(ids, G) -> dW\n"
                            "  ids: i32[n: 6]\n"
                            "  G: f32[n: 6, d: 3]\n"
                            "  dW: f32[v: 4, d: 3]\n"
                            "    dW(v, d) = sum over n: select(ids(n) == v, G(n, d), 0.0)\n");
    const auto found = scattered(op.stage("dW"));
    REQUIRE(found);
    CHECK(found->axis == "v");
    Axis a("a", 7), b("b", 5), v("v", 6);
    Tensor ids = input("ids", i32, {a, b}), X = input("X", i32, {a, b});
    const auto digits = [](const Expr &e, const AxisList &axes) {
        return reduce([](Expr x, Expr y) { return x ^ y; }, 0, e, axes);
    };
    const Op most("most", {ids, X}, {compute("Y", {v}, scatter(maximum, X(a, b), v, ids(a, b), {a, b}))}),
        bits("bits", {ids, X}, {compute("Y", {v}, scatter(digits, X(a, b), v, ids(a, b), {a, b}))});
    for (const Op &each : {most, bits}) {
        const std::vector<Buffer<>> in = arguments(each, -1, 6);
        check_elements(each, in, {6}, [&](const Index &i) {
            int64_t y = each.name() == "most" ? INT32_MIN : 0;
            for_each_index({7, 5}, [&](const Index &n) {
                const auto x = static_cast<int64_t>(at(in[1], n));
                if (at(in[0], n) == i[0]) y = each.name() == "most" ? std::max(y, x) : y ^ x;
            });
            return static_cast<double>(y);
        });
        CHECK(identity_is_neutral(each.stage("Y")));
        check_runs(default_schedule(each, Machine::host()));
    }
    // A sum over blocks is a scatter too: the index need not be read from a tensor.
    Axis n("n", 30), w("w", 8);
    Tensor Z = input("Z", f32, {n});
    check_runs(
        default_schedule(Op("blocks", {Z}, {compute("Y", {w}, scatter(sum, Z(n), w, n / 4, n))}), Machine::host()));
}

TEST_CASE("a scatter written as a select is recognised; other forms are not") {
    Axis n("n", 20), v("v", 6), d("d", 8);
    Tensor ids = input("ids", i32, {n}), G = input("G", f32, {n, d});
    const auto of = [&](const Element &value) {
        return scattered(Op("form", {ids, G}, {compute("Y", {v, d}, value)}).stages().front()).has_value();
    };
    CHECK(of(sum(select(v == ids(n), G(n, d), 0.f), n)));
    CHECK_FALSE(of(sum(select(ids(n) == v, G(n, d), 1.f), n)));
    CHECK_FALSE(of(sum(select(ids(n) <= v, G(n, d), 0.f), n)));
    CHECK_FALSE(of(sum(select(ids(n) + v == v, G(n, d), 0.f), n)));
    CHECK_FALSE(of(product(select(ids(n) == v, G(n, d), 0.f), n)));
}

TEST_CASE("each step visits one element, under every order of the other loops") {
    for (const auto &[N, V, D] :
         {std::tuple(50, 13, 24), std::tuple(33, 40, 7), std::tuple(1, 1, 1), std::tuple(9, 1, 33)}) {
        const Op op = gradient(N, V, D);
        const auto scheduled = [&](const auto &more) {
            Schedule s(op);
            more(s, s.stage("dW"));
            s.stage("dW").scatter("v");
            check_runs(s);
            return s;
        };
        const Schedule first = scheduled([](Schedule &, StageHandle dW) { dW.reorder({"n", "v", "d"}); });
        // the index is of the loop over v
        CHECK(body_of(first).find("n.index") == std::string::npos);
        CHECK(body_of(first).find("v.index") != std::string::npos);
        CHECK(first.nest().find("(each step: ids(n))") != std::string::npos);
        scheduled([](Schedule &, StageHandle dW) { dW.reorder({"d", "n", "v"}); });
        scheduled([](Schedule &, StageHandle dW) { dW.reorder({"d", "n", "v"}).parallel("d"); });
        scheduled([](Schedule &, StageHandle dW) { dW.reorder({"n", "v", "d"}).vectorize("d", 8); });
        scheduled([](Schedule &, StageHandle dW) {
            dW.split("d", 16);
            dW.split("n", 4);
            dW.reorder({"d.o", "n.o", "n.i", "v", "d.i"}).unroll("n.i").vectorize("d.i", 8).parallel("d.o");
        });
        scheduled([](Schedule &s, StageHandle dW) {
            dW.split("d", 8);
            dW.reorder({"d.o", "n", "v", "d.i"});
            s.accumulate_in("dW", "L1", "d.o");
        });
        if (V > 4) // one part of the rows: contributions to the others are skipped
            scheduled([](Schedule &, StageHandle dW) {
                dW.reorder({"n", "v", "d"});
                dW.region("v", 0, 3, "head").scatter("v");
            });
    }
}

TEST_CASE("a scatter at a loop of its consumer, and one that a consumer ends") {
    Axis n("n", 40), v("v", 12), d("d", 20);
    Tensor ids = input("ids", i32, {n}), G = input("G", i32, {n, d});
    Tensor dW = compute("dW", {v, d}, scatter(sum, G(n, d), v, ids(n), n));
    const Op op("scaled", {ids, G}, {compute("Y", {v, d}, dW(v, d) * 3 + v)});
    Schedule ended(op);
    ended.stage("dW").reorder({"n", "v", "d"});
    ended.stage("dW").finish_in("Y").scatter("v");
    check_runs(ended);
    Schedule inside(op);
    inside.stage("Y").split("v", 5);
    inside.stage("dW").reorder({"n", "v", "d"}).compute_at("Y", "v.o").scatter("v");
    check_runs(inside); // per step, the elements in the block
    check_runs(default_schedule(op, Machine::host()));
}

TEST_CASE("columns that go to places of their own, by an index over the last axis too") {
    Axis n("n", 30), v("v", 11), d("d", 40), e("e", 3);
    Tensor ids = input("ids", i64, {n, d, e}), G = input("G", f32, {n, d, e}), B = input("B", f32, {v, d, e});
    const Element added = scatter(sum, G(n, d, e), v, ids(n, d, e), n);
    for (const Op &op : {Op("places", {ids, G}, {compute("Y", {v, d, e}, added)}),
                         Op("places", {ids, G, B}, {compute("Y", {v, d, e}, B(v, d, e) + added)})}) {
        std::string name;
        std::vector<PassedOver> passed_over;
        const Schedule s = default_schedule(op, Machine::host(), PackedBy::Kernel, &passed_over, &name);
        CHECK_EQ(name, "scatter");
        CHECK(passed_over.empty());
        check_runs(s);
    }
}

TEST_CASE("private results for threads, by rfactor") {
    Axis o("o", 4), n("n", 25), v("v", 12), d("d", 20);
    Tensor ids = input("ids", i32, {o, n}), G = input("G", f32, {o, n, d});
    const Op op("shared", {ids, G}, {compute("dW", {v, d}, scatter(sum, G(o, n, d), v, ids(o, n), {o, n}))});
    Schedule s(op);
    StageHandle part = s.stage("dW").rfactor("o");
    part.compute_root().reorder({"o", "n", "v", "d"}).parallel("o").scatter("v");
    check_runs(s);
}

TEST_CASE("the gradient of an embedding") {
    for (const Type t : {f64, f32, bf16, i8}) {
        const Op op = ops::embedding_gradient(t, 3, 11, 7, 10);
        std::vector<Buffer<>> in = random_inputs(op);
        fill_random_integers(in[0], 3, -3, 3);
        fill_random_integers(in[1], 4, -2, 9);
        check_elements(op, in, {7, 10}, [&](const Index &i) {
            double sum = 0;
            for_each_index({3, 11}, [&](const Index &n) {
                const double row = std::clamp(at(in[1], n), 0.0, 6.0);
                if (row == i[0]) sum += at(in[0], {n[0], n[1], i[1]});
            });
            return sum;
        });
    }
    const Op op = ops::embedding_gradient(f32, 4, 50, 30, 100);
    const Schedule s = default_schedule(op, Machine::host());
    CHECK(s.state().stage("dtable").scattered == "row");
    check_runs(s);
    for (const Type t : {bf16, f16, i8, f64})
        check_runs(default_schedule(ops::embedding_gradient(t, 2, 30, 9, 37), Machine::host()));
    check_runs(
        default_schedule(ops::embedding_gradient(f32, Size("B"), Size("S"), Size("N"), Size("W")), Machine::host()),
        {{"B", 2}, {"S", 17}, {"N", 9}, {"W", 21}});
    check_runs(default_schedule(ops::embedding_gradient(f32, 0, 5, 3, 4), Machine::host()));
    CHECK_THROWS_WITH_AS(ops::embedding_gradient(f32, 1, 1, 0, 1),
                         "embedding_gradient: its table has n = 0 rows; at least 1 is needed", UserError);
}

TEST_CASE("indices that are far outside") {
    for (const Type index : {i32, i64, u64}) {
        const Op op = gradient(4, 3, 8, f32, index);
        std::vector<Buffer<>> in = arguments(op, 0, 0);
        const uint64_t far[] = {2, uint64_t(1) << (index.bits() - 1), ~uint64_t(0),
                                index == i32 ? 1u << 30 : uint64_t(1) << 32};
        for (int n = 0; n < 4; n++)
            memcpy(reinterpret_cast<char *>(in[0].data()) + n * index.bytes(), &far[n], size_t(index.bytes()));
        const Buffer<> meant(interpret(op, in));
        Schedule s(op);
        s.stage("dW").reorder({"n", "v", "d"}).vectorize("d", 8).scatter("v");
        std::vector<Buffer<>> all = in;
        all.push_back(make_output(op, "dW", {}));
        fill_unwritten(all.back());
        compile(s)(all);
        CHECK(difference(all.back(), meant) == "");
    }
}

TEST_CASE("errors of scatter") {
    const auto told = [](const Op &op, const std::function<void(Schedule &)> &f) {
        Schedule s(op, Machine::named("x86-64-avx2"));
        return refusal([&] { f(s); });
    };
    const auto has = [](const std::string &text, const std::string &part) {
        CHECK_MESSAGE(text.find(part) != std::string::npos, text);
    };
    const Op op = gradient(50, 13, 24);
    has(told(op, [](Schedule &s) { s.stage("dW").scatter("v"); }),
        "loop n, on which the index ids(n) or the order of the steps depends, is inside loop v");
    has(told(op,
             [](Schedule &s) {
                 s.stage("dW").reorder({"n", "v", "d"}).scatter("d");
             }),
        "the term of dW is not a value at one index along d and the identity elsewhere");
    has(told(op,
             [](Schedule &s) {
                 s.stage("dW").reorder({"n", "v", "d"}).scatter("d");
             }),
        "legal here: loop v, serial");
    has(told(op, [](Schedule &s) { s.stage("dW").reorder({"n", "d", "v"}).vectorize("v", 8).scatter("v"); }), "v");
    const auto later = [&](const auto &more) {
        return told(op, [&](Schedule &s) {
            s.stage("dW").reorder({"n", "v", "d"}).scatter("v");
            more(s.stage("dW"));
        });
    };
    has(later([](StageHandle dW) { dW.scatter("v"); }), "stage dW scatters along v already");
    has(later([](StageHandle dW) { dW.split("v", 4); }), "loop v of stage dW no longer exists");
    has(later([](StageHandle dW) { dW.unroll("v"); }),
        "loop v is unrolled, but each step runs only the iteration that the index selects");
    has(later([](StageHandle dW) { dW.reorder({"v", "n", "d"}); }), "is inside loop v");
    has(later([](StageHandle dW) { dW.peel("v", 1, 0); }), "loop v is peeled");
    has(later([](StageHandle dW) { dW.interleave("n", 5); }), "the term of dW is not a value at one index along v");
    has(later([](StageHandle dW) { dW.prefetch("G", "v", 1); }), "loop v prefetches for later iterations");
    has(told(example_op("matmul"),
             [](Schedule &s) {
                 s.stage("C").reorder({"k", "i", "j"}).scatter("i");
             }),
        "legal here: a stage made by scatter(…)");
    Axis n("n", 20), v("v", 6);
    Tensor ids = input("ids", i32, {n}), X = input("X", f32, {n});
    const Op most("most", {ids, X}, {compute("Y", {v}, scatter(maximum, X(n), v, ids(n), n))});
    // for floats too: an unused step would combine −inf, which changes no value
    Schedule greatest(most);
    greatest.stage("Y").reorder({"n", "v"}).scatter("v");
    check_runs(greatest);
    check_runs(default_schedule(most, Machine::host()));
    has(refusal([&] { scatter(sum, X(n), v, X(n), n); }), "scatter is given an index of type f32; legal are integers");
    const auto index = [](const Expr &e, const AxisList &axes) -> Element { return argmax(e, axes); };
    has(refusal([&] { scatter(index, X(n), v, ids(n), n); }), "scatter folds one value; legal are sum");
    has(refusal([&] { default_schedule(op, machine_named("chip:small")); }),
        "is a scatter along v; the chip has no stores at data-dependent addresses");
    has(refusal([&] { compile_chip(Schedule(op, machine_named("chip:small"))); }),
        "stage dW is a scatter along v; the chip has no stores at data-dependent addresses");
}
