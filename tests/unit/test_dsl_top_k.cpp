// The largest values of rows with their positions, the values of argmax, and softmax along any
// axis.
// Links: driver
// Sanitized: --test-case=the*largest*,axes*of*,errors*,index*,softmax*
#include "driver/default_schedule.h"
#include "dsl/top_k.h"
#include "ops/rows.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/op_reference.h"

#include <algorithm>
#include <numeric>

using namespace kumiko;

namespace {

// Positions in a row, sorted by descending value, then by ascending position. NaN is left out.
std::vector<int64_t> by_value(const std::vector<double> &row) {
    std::vector<int64_t> order;
    for (size_t n = 0; n < row.size(); n++) {
        if (!std::isnan(row[n])) order.push_back(int64_t(n));
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return row[size_t(a)] > row[size_t(b)]; });
    return order;
}

} // namespace

TEST_CASE("the k largest, their order, ties and NaN") {
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    for (const int k : {1, 2, 3, 7, 16, 17, 20, 32, 64}) {
        for (const int64_t n : {int64_t(20), int64_t(700)}) {
            const bool tree = k > 16 || (k > 3 && n > 20);
            const Op op = ops::top_k(f32, {4, static_cast<int>(n)}, -1, k);
            CHECK((op.stages().size() == 3) == !tree);
            Buffer<> x = random_inputs(op)[0];
            fill_random_integers(x, 5, -3, 3); // many ties
            float *values = static_cast<float *>(static_cast<void *>(x.raw_buffer()->host));
            for (int64_t c = 0; c < n; c++) {
                if (c % 3) values[n + c] = nan;
                values[2 * n + c] = c % 2 ? -inf : nan;
                values[3 * n + c] = c % 50 == 13 ? -inf : c % 50 == 14 ? float(c) : nan;
            }
            const Results results = interpret(op, {x});
            for (int64_t r = 0; r < 4; r++) {
                std::vector<double> row;
                for (int64_t c = 0; c < n; c++) row.push_back(at(x, {r, c}));
                const std::vector<int64_t> order = by_value(row);
                for (int64_t c = 0; c < k; c++) {
                    const bool some = c < int64_t(order.size());
                    CHECK(at(results[0], {r, c}) == (some ? row[size_t(order[size_t(c)])] : -inf));
                    CHECK(at(results[1], {r, c}) == (some ? double(order[size_t(c)]) : -1));
                }
            }
            std::vector<Buffer<>> args = {x, make_output(op, "Y", {}), make_output(op, "P", {})};
            compile(default_schedule(op, Machine::host()))(args);
            CHECK(difference(args[1], results[0]) == "");
            CHECK(difference(args[2], results[1]) == "");
        }
    }
}

TEST_CASE("schedules of top_k") {
    for (const int k : {1, 3, 8}) {
        for (const std::vector<Expr> &shape : std::vector<std::vector<Expr>>{{1, 300}, {40, 33}, {3, 5}, {16, 128}})
            check_runs(default_schedule(ops::top_k(f32, shape, -1, k), Machine::host()));
    }
    check_runs(default_schedule(ops::top_k(i32, {30, 40}, 0, 4), Machine::host()));
    check_runs(default_schedule(ops::top_k(i8, {5, 70}, 1, 2), Machine::host()));
    check_runs(default_schedule(ops::top_k(f32, {Size("M"), Size("N")}, 1, 3), Machine::host()), {{"M", 7}, {"N", 50}});
    // Partial results, joined at the end.
    Axis i("i", 6), j("j", 64);
    Tensor X = input("X", i32, {i, j});
    const Tuple best = top_k(X(i, j), j, 3);
    const Op op("third", {X}, {compute("Y", {i}, best[2] + best[5])});
    Schedule s(op);
    s.stage("Y.reduce").split("j", 8);
    s.stage("Y.reduce").rfactor("j.i");
    check_runs(s);
}

TEST_CASE("top_k by a tree") {
    for (const int k : {17, 32, 64}) {
        for (const std::vector<Expr> &shape : std::vector<std::vector<Expr>>{{1, 33}, {3, 5}, {5, 300}, {2, 4000}})
            check_runs(default_schedule(ops::top_k(f32, shape, -1, k), Machine::host()));
    }
    check_runs(default_schedule(ops::top_k(f32, {3, 600}, 1, 5), Machine::host()));
    check_runs(default_schedule(ops::top_k(i32, {1025, 3}, 0, 20), Machine::host()));
    check_runs(default_schedule(ops::top_k(u8, {3, 777}, 1, 20), Machine::host()));
    check_runs(default_schedule(ops::top_k(i64, {3, 70}, 1, 20), Machine::host()));
    check_runs(default_schedule(ops::top_k(f64, {3, 513}, 1, 16), Machine::host()));
    check_runs(default_schedule(ops::top_k(f32, {3, 0}, 1, 20), Machine::host()));
    check_runs(default_schedule(ops::top_k(f32, {3, 900}, 1, 20), Machine::host()), {}, {.through_halide = true});
    const Schedule any = default_schedule(ops::top_k(f32, {Size("M"), Size("N")}, 1, 17), Machine::host());
    for (const int n : {1, 50, 300}) check_runs(any, {{"M", 3}, {"N", n}});
    // Both forms share the stages of one row.
    Axis i("i", 3), j("j", 600), n("n", 20), l("l", 4);
    Tensor X = input("X", i32, {i, j}), W = input("W", i32, {j, l});
    const Expr e = X(i, j) * sum(W(j, l), l);
    const Tuple all = top_k(e, j, 20);
    const Extreme best = top_k(e, j, n);
    const Op both("both", {X, W},
                  {compute("values", {i, n}, best.value), compute("at", {i, n}, best),
                   compute("some", {i}, all[0] + all[7] + all[19]), compute("last", {i}, all[39])});
    const Op alone("alone", {X, W}, {compute("values", {i, n}, best.value), compute("at", {i, n}, best)});
    CHECK(both.stages().size() == alone.stages().size() + 2);
    check_runs(default_schedule(both, Machine::host()));
}

TEST_CASE("the k largest of a tensor over the same axes") {
    for (const auto &[n, k] : {std::pair(700, 4), std::pair(100, 20), std::pair(64, 3)}) {
        Axis i("i", 3), j("j", n);
        Tensor X = input("X", i32, {i, j}), T = compute("T", {i, j}, X(i, j) * (j % 7 - 3));
        const Tuple best = top_k(T(i, j), j, k);
        const Op op("of_tensor", {X}, {T, compute("last", {i}, best[k - 1]), compute("at", {i}, best[2 * k - 1])});
        Buffer<> x = random_inputs(op)[0];
        fill_random_integers(x, 5, -90, 90);
        const Results results = interpret(op, {x});
        for (int64_t r = 0; r < 3; r++) {
            std::vector<double> row;
            for (int64_t c = 0; c < n; c++) row.push_back(at(results[0], {r, c}));
            const int64_t last = by_value(row)[size_t(k) - 1];
            CHECK(at(results[1], {r}) == row[size_t(last)]);
            CHECK(at(results[2], {r}) == double(last));
        }
        check_runs(default_schedule(op, Machine::host()));
    }
}

TEST_CASE("axes of the formula may have the names that top_k gives its own") {
    std::optional<Buffer<>> first;
    for (const char *name : {"c", "j_node0", "j_rank0", "j_candidate0", "j_other0"}) {
        Axis c(name, 5), x("x", 700), j("j", 700), n("n", 20);
        Tensor Z = input("Z", i32, {c, x});
        const Op op("named", {Z}, {compute("Y", {c, n}, top_k(Z(c, j), j, n).value)});
        const Buffer<> z = random_inputs(op)[0];
        fill_random_integers(z, 5, -90, 90);
        const Buffer<> y = interpret(op, {z})[0];
        if (first) CHECK(equal_bits(y, *first));
        first = y;
    }
    Axis i("i", 2), j("j", 600), n("n", 20);
    Tensor X = input("X", i32, {i, j});
    const Op twice("twice", {X}, {compute("Y", {i, n}, top_k(X(i, j) - top_k(X(i, j), j, 20)[0], j, n).value)});
    check_runs(default_schedule(twice, Machine::host()));
}

TEST_CASE("errors of top_k") {
    Axis i("i", 6), j("j", 64);
    Tensor X = input("X", f32, {i, j});
    CHECK(refusal([&] { top_k(X(i, j), j, 0); }).find("top_k of 0 values; legal are 1 to 64") != std::string::npos);
    CHECK(refusal([&] { top_k(X(i, j), j, 65); }).find("legal are 1 to 64") != std::string::npos);
    CHECK(refusal([&] { top_k(X(i, j), j, Axis("n", Size("K"))); }).find("over axis \"n\" of K elements; legal is") !=
          std::string::npos);
    CHECK(refusal([&] { top_k(X(i, j) > 0.f, j, 2); }).find("of a bool expression; cast it") != std::string::npos);
    CHECK(refusal([&] { ops::top_k(f32, {4, 4}, 2, 1); }) == "top_k: axis 2 is not one of the 2 axes");
}

TEST_CASE("index and value of argmax are one reduction") {
    Axis i("i", 9), j("j", 50);
    Tensor X = input("X", i32, {i, j});
    const Extreme most = argmax(X(i, j), j), least = argmin(X(i, j), j);
    for (const bool value_first : {false, true}) {
        const Tensor at_most = compute("at", {i}, most), value = compute("value", {i}, most.value);
        const Op op("top1", {X}, value_first ? std::vector{value, at_most} : std::vector{at_most, value});
        size_t reductions = 0;
        for (const Stage &s : op.stages()) reductions += s.is_reduction();
        CHECK(reductions == 1);
        check_runs(default_schedule(op, Machine::host()));
    }
    const Op range("range", {X}, {compute("Y", {i}, most.value - least.value + (most + 1) * 2)});
    std::vector<Buffer<>> in = random_inputs(range);
    fill_random_integers(in[0], 3, -9, 9);
    check_elements(range, in, {9}, [&](const Index &n) {
        std::vector<double> row;
        for (int64_t c = 0; c < 50; c++) row.push_back(at(in[0], {n[0], c}));
        const auto top = std::max_element(row.begin(), row.end());
        return *top - *std::min_element(row.begin(), row.end()) + 2 * double(top - row.begin() + 1);
    });
    check_runs(default_schedule(range, Machine::host()));
}

TEST_CASE("softmax along any axis") {
    for (const bool log : {false, true}) {
        for (int axis : {0, 1, 2, -1}) {
            const Op op = log ? ops::log_softmax(f64, {3, 20, 5}, axis) : ops::softmax(f64, {3, 20, 5}, axis);
            const std::vector<Buffer<>> in = random_inputs(op);
            const size_t d = size_t(axis < 0 ? axis + 3 : axis);
            const Results results = interpret(op, in);
            for_each_index({3, 20, 5}, [&](const Index &n) {
                double total = 0;
                Index other = n;
                for (other[d] = 0; other[d] < in[0].extents()[d]; other[d]++) total += std::exp(at(in[0], other));
                const double share = std::exp(at(in[0], n)) / total;
                CHECK(at(results[0], n) == doctest::Approx(log ? std::log(share) : share));
            });
        }
    }
    CHECK(ops::softmax(f32, {Size("M"), 8}, 1).stages().size() == ops::softmax(f32, Size("M"), 8).stages().size());
    CHECK(refusal([&] { ops::softmax(f32, {3, 4}, -3); }) == "softmax: axis -3 is not one of the 2 axes");
}
