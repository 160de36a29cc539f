// Reductions of several values together: their meaning under every kind of schedule, and refusals.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/tuple.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/op_reference.h"

using namespace kumiko;

namespace {

constexpr CombinerProperties any_order = {.associative = true, .commutative = true};

// Combines counts, means and sums of squared deviations of two sets (Welford).
Values welford(const Values &a, const Values &b) {
    const Expr n = a[0] + b[0], d = b[1] - a[1], part = b[0] / Halide::max(n, 1.f);
    return {n, a[1] + d * part, a[2] + b[2] + d * d * a[0] * part};
}

Op mean_and_variance(const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", f32, {i, j});
    const Tuple w = reduce(welford, {0.f, 0.f, 0.f}, {1.f, X(i, j), 0.f}, j, any_order);
    return Op("moments", {X}, {compute("mean", {i}, w[1]), compute("var", {i}, w[2] / w[0])});
}

// The product of complex numbers, modulo 2^64, so that every order gives the same bits.
Op complex_product(const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor re = input("re", u64, {i, j}), im = input("im", u64, {i, j});
    const auto times = [](Values a, Values b) -> Values {
        return {a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]};
    };
    const Tuple p = reduce(times, {1, 0}, {re(i, j), im(i, j)}, j, any_order);
    return Op("complex_product", {re, im}, {compute("real", {i}, p[0]), compute("imaginary", {i}, p[1])});
}

// The maximum and its number of occurrences: values of two types.
Op greatest(Type t, const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", t, {i, j});
    const auto join = [](Values a, Values b) -> Values {
        return {max(a[0], b[0]), select(a[0] > b[0], a[1], b[0] > a[0], b[1], a[1] + b[1])};
    };
    const Tuple g = reduce(join, {-100, 0}, {X(i, j), Expr(1)}, j, any_order);
    return Op("greatest", {X}, {compute("most", {i}, g[0]), compute("times", {i}, g[1])});
}

Op top_two(const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N), k("k", 2);
    Tensor X = input("X", i32, {i, j});
    const auto join = [](Values a, Values b) -> Values {
        return {max(a[0], b[0]), max(min(a[0], b[0]), max(a[1], b[1]))};
    };
    const Tuple t = reduce(join, {-1000, -1000}, {X(i, j), Expr(-1000)}, j, any_order);
    return Op("top_two", {X}, {compute("Y", {i, k}, select(k == 0, t[0], t[1]))});
}

} // namespace

TEST_CASE("mean and variance in one pass are one stage that two tensors read") {
    const Op op = mean_and_variance(3, 50);
    REQUIRE(op.stages().size() == 3);
    CHECK(
        op.to_string() ==
        "moments(X) -> mean, var\n"
        "  X: f32[i: 3, j: 50]\n"
        "  mean.reduce: (f32, f32, f32)[i: 3]\n"
        "    mean.reduce(i) = reduce over j of (acc, …) = (acc + term, acc.1 + (term.1 - acc.1) * (term / max(acc + "
        "term, "
        "1.0)), acc.2 + term.2 + (term.1 - acc.1) * (term.1 - acc.1) * acc * (term / max(acc + term, 1.0))) from (0.0, "
        "0.0, 0.0): (1.0, X(i, j), 0.0)\n"
        "  mean: f32[i: 3]\n"
        "    mean(i) = mean.reduce.1(i)\n"
        "  var: f32[i: 3]\n"
        "    var(i) = mean.reduce.2(i) / mean.reduce(i)\n");
    const std::vector<Buffer<>> in = random_inputs(op);
    const Results r = interpret(op, in);
    for (int64_t i = 0; i < 3; i++) {
        double mean = 0, var = 0;
        for (int64_t j = 0; j < 50; j++) mean += at(in[0], {i, j}) / 50;
        for (int64_t j = 0; j < 50; j++) var += (at(in[0], {i, j}) - mean) * (at(in[0], {i, j}) - mean) / 50;
        CHECK(at(r[0], {i}) == doctest::Approx(mean).epsilon(1e-4));
        CHECK(at(r[1], {i}) == doctest::Approx(var).epsilon(1e-4));
    }
    // Lanes join parts of one size and more; only rounding differs.
    Schedule s(mean_and_variance(5, 100));
    s.stage("mean.reduce").vectorize("j", 8);
    const std::vector<Buffer<>> x = random_inputs(s.op());
    Buffer<> mean(f32, {5}), var(f32, {5});
    compile(s)(x[0], mean, var);
    const Results meant = interpret(s.op(), x);
    check_close(mean, meant[0], {.relative = 1e-4, .absolute = 1e-6});
    check_close(var, meant[1], {.relative = 1e-4, .absolute = 1e-6});
}

TEST_CASE("tuples mean the same under every schedule") {
    for (const int n : {1, 7, 8, 33}) {
        for (const Op &op : {complex_product(6, n), greatest(f32, 6, n), greatest(bf16, 6, n), top_two(6, n)}) {
            INFO(op.to_string());
            const std::string R = op.stages()[0].name;
            check_runs(default_schedule(op, Machine::host()));
            check_runs(Schedule(op));
            check_runs(Schedule(op), {}, {.through_halide = true});
            Schedule lanes(op);
            lanes.stage(R).reorder({"j", "i"}).vectorize("i", 4).parallel("i.o");
            check_runs(lanes);
            Schedule joined(op);
            joined.stage(R).vectorize("j", 8);
            check_runs(joined);
            check_runs(joined, {}, {.through_halide = true});
            Schedule factored(op);
            auto [o, i] = factored.stage(R).split("j", 4);
            factored.stage(R).rfactor(o);
            factored.stage(R + ".rf").parallel("j_o");
            check_runs(factored);
            Schedule kept(op);
            auto K = kept.stage(R);
            auto [jo, ji] = K.split("j", 5);
            auto [io, ii] = K.split("i", 2);
            K.reorder({io, jo, ji, ii}).unroll(ii);
            kept.accumulate_in(R, "registers", io);
            check_runs(kept);
            Schedule rounds(op);
            auto [ro, ri] = rounds.stage(R).split("j", 3);
            rounds.stage(R).reorder({ro, "i", ri});
            rounds.accumulate_in(R, "registers", "i");
            check_runs(rounds);
        }
    }
    const Op any = greatest(i32, Size("M"), Size("N"));
    for (const int n : {0, 1, 30}) check_runs(default_schedule(any, Machine::host()), {{"M", 3}, {"N", n}});
}

TEST_CASE("a tuple ends in its consumer, and keeps its order by default") {
    Schedule s(top_two(6, 20));
    CHECK(refusal([&] {
              s.stage("Y.reduce").finish_in("Y");
          }).find("does not read Y.reduce at exactly its own indices") != std::string::npos);
    Axis i("i", 6), j("j", 20);
    Tensor X = input("X", u32, {i, j});
    const auto digits = [](Values a, Values b) -> Values { return {a[0] * 3 + b[0], a[1] * 5 + a[0]}; };
    const Tuple d = reduce(digits, {1, 2}, {X(i, j), X(i, j)}, j);
    const Op op("digits", {X}, {compute("Y", {i}, d[0] ^ d[1])});
    check_runs(default_schedule(op, Machine::host()));
    Schedule ends(op);
    ends.stage("Y.reduce").finish_in("Y").unroll("j", 4);
    check_runs(ends);
    check_runs(ends, {}, {.through_halide = true});
    const std::string order = "is not stated to be associative and commutative";
    CHECK(refusal([&] { Schedule(op).stage("Y.reduce").vectorize("j", 4); }).find(order) != std::string::npos);
    CHECK(refusal([&] {
              Schedule t(op);
              auto [o, in] = t.stage("Y.reduce").split("j", 4);
              t.stage("Y.reduce").rfactor(o);
          }).find(order) != std::string::npos);
    CHECK(refusal([&] { Schedule(op).stage("Y.reduce").tensorize("j", "avx2.vpmaddwd"); }) != "no error");
}

TEST_CASE("tuples that fold the same are one, others are not") {
    Axis i("i", 4), j("j", 9);
    Tensor X = input("X", i32, {i, j});
    const auto both = [](Values a, Values b) -> Values { return {a[0] + b[0], max(a[1], b[1])}; };
    const auto tuple = [&](int identity) { return reduce(both, {0, identity}, {X(i, j), X(i, j)}, j, any_order); };
    CHECK(Op("same", {X}, {compute("A", {i}, tuple(-9)[0]), compute("B", {i}, tuple(-9)[1])}).stages().size() == 3);
    CHECK(Op("other", {X}, {compute("A", {i}, tuple(-9)[0]), compute("B", {i}, tuple(-8)[1])}).stages().size() == 4);
    Axis k("k", 9);
    const auto mixed = [&](int identity) {
        return Op("mixed", {X}, {compute("A", {i, k}, tuple(identity)[0] * 2 - tuple(identity)[1] + X(i, k))});
    };
    CHECK(mixed(-9).stages().size() == 2);
    check_runs(default_schedule(mixed(-9), Machine::host()));
    CHECK(mixed(-9).hash() != mixed(-8).hash());
}

TEST_CASE("errors of tuples") {
    Axis i("i", 4), j("j", 9);
    Tensor X = input("X", f32, {i, j});
    const auto told = [](const auto &f) { // the message of an error that names this file
        try {
            f();
        } catch (const UserError &e) {
            CHECK(e.place().starts_with("test_dsl_tuples.cpp:"));
            return e.message();
        }
        return std::string();
    };
    const auto both = [](Values a, Values b) -> Values { return {a[0] + b[0], a[1] * b[1]}; };
    CHECK(told([&] {
              reduce(both, {0.f}, {X(i, j), X(i, j)}, j);
          }) == "reduce folds 2 values together, but 1 identities are given; each value needs one");
    CHECK(told([&] {
              reduce([](Values a, Values) -> Values { return {a[0]}; }, {0.f, 1.f}, {X(i, j), X(i, j)}, j);
          }) == "the combiner of reduce gives 1 values for 2");
    CHECK(told([&] {
              reduce(
                  [](Values a, Values b) -> Values {
                      return {a[0] + b[0], cast(i32, Element(a[1]))};
                  },
                  {0.f, 1.f}, {X(i, j), X(i, j)}, j);
          }) ==
          "reduce folds f32 as value 1 but its identity is f32 and its combiner gives i32; all three must be of one "
          "type");
    CHECK(told([&] { reduce(both, {0.f, 0.5f}, {X(i, j), cast(i32, X(i, j))}, j); }).find("0.5") != std::string::npos);
    CHECK(refusal([&] {
              reduce(both, {0.f, 1.f}, {X(i, j), X(i, j)}, j)[2];
          }) == "a tuple of 2 has no value 2; they count from 0");
    const auto outer = [&](Values a, Values b) -> Values { return {a[0] + b[0], a[1] * b[1] + cast(f32, i)}; };
    CHECK(refusal([&] {
              Op("bad", {X}, {compute("Y", {i}, reduce(outer, {0.f, 1.f}, {X(i, j), X(i, j)}, j)[1])});
          }).find("in the combiner of a reduce, which may use its two arguments and numbers only") !=
          std::string::npos);
}
