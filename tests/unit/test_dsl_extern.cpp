// Stages that a C function computes: sorting and the k largest, between stages of formulas; illegal
// schedules.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/extern.h"
#include "targets/cpu/object.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/op_reference.h"

#include <algorithm>
#include <numeric>

using namespace kumiko;

namespace {

const float &element_of(const void *array, int64_t i, int64_t j, const int64_t *strides) {
    return static_cast<const float *>(array)[i * strides[0] + j * strides[1]];
}

// Y: the rows of X, each sorted.
int sort_rows(void *const *arrays, const int64_t *extents, const int64_t *strides) {
    for (int64_t i = 0; i < extents[0]; i++) {
        std::vector<float> row;
        for (int64_t j = 0; j < extents[1]; j++) row.push_back(element_of(arrays[0], i, j, strides));
        std::sort(row.begin(), row.end());
        for (int64_t j = 0; j < extents[3]; j++)
            static_cast<float *>(arrays[1])[i * strides[2] + j * strides[3]] = row[static_cast<size_t>(j)];
    }
    return 0;
}

// The largest elements of each row and their positions; equal ones in ascending position.
int top_rows(void *const *arrays, const int64_t *extents, const int64_t *strides) {
    for (int64_t i = 0; i < extents[0]; i++) {
        std::vector<int64_t> at(static_cast<size_t>(extents[1]));
        std::iota(at.begin(), at.end(), 0);
        std::stable_sort(at.begin(), at.end(), [&](int64_t a, int64_t b) {
            return element_of(arrays[0], i, a, strides) > element_of(arrays[0], i, b, strides);
        });
        for (int64_t k = 0; k < extents[3]; k++) {
            const int64_t j = at[static_cast<size_t>(k)];
            static_cast<float *>(arrays[1])[i * strides[2] + k * strides[3]] = element_of(arrays[0], i, j, strides);
            static_cast<int32_t *>(arrays[2])[i * strides[4] + k * strides[5]] = static_cast<int32_t>(j);
        }
    }
    return 0;
}

int refuse(void *const *, const int64_t *, const int64_t *) { return 77; }

Op sorted(const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", f32, {i, j});
    return Op("sorted", {X}, {extern_stage("Y", f32, {i, j}, {X}, {"sort_rows", sort_rows})});
}

// Sorted in between: the function's arguments and results are internal tensors.
Op median_distance(const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", f32, {i, j});
    Tensor T = compute("T", {i, j}, X(i, j) * X(i, j) - 3.f);
    Tensor S = extern_stage("S", f32, {i, j}, {T}, {"sort_rows", sort_rows});
    return Op("median", {X}, {compute("Y", {i, j}, X(i, j) + S(i, N / 2))});
}

Op top(const Expr &M, const Expr &N, int K) {
    Axis i("i", M), j("j", N), k("k", K);
    Tensor X = input("X", f32, {i, j});
    const auto t = extern_stage({{"value", f32}, {"place", i32}}, {i, k}, {X}, {"top_rows", top_rows});
    return Op("top", {X}, {t[0], t[1]});
}

bool holds(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("rows sorted by a C function") {
    const Op op = sorted(3, 17);
    CHECK(op.to_string() == "sorted(X) -> Y\n"
                            "  X: f32[i: 3, j: 17]\n"
                            "  Y: f32[i: 3, j: 17]\n"
                            "    Y(i, j) = extern sort_rows(X)\n");
    Buffer<float> x = random({3, 17});
    Buffer<float> y = interpret(op, x);
    for (int i = 0; i < 3; i++) {
        std::vector<float> row(&x(i, 0), &x(i, 0) + 17);
        std::sort(row.begin(), row.end());
        for (int j = 0; j < 17; j++) CHECK(y(i, j) == row[static_cast<size_t>(j)]);
    }
    CHECK(op.hash() == sorted(3, 17).hash());
    CHECK(Schedule(op).nest() == "compute Y\n  Y(i, j) = extern sort_rows(X)\n");
    const Bounded b = interpret_with_bound(op, {x});
    CHECK(at(b.values[0], {1, 2}) == at(y, {1, 2}));
    CHECK(at(b.bounds[0], {1, 2}) == 0);
}

TEST_CASE("extern stages under schedules") {
    for (const int n : {1, 8, 33}) {
        for (const Op &op : {sorted(5, n), median_distance(5, n), top(4, n, 1)}) {
            INFO(op.to_string());
            check_runs(Schedule(op));
            check_runs(default_schedule(op, Machine::host()));
        }
        Schedule s(median_distance(6, n));
        s.stage("T").parallel("i").vectorize("j", 8);
        s.stage("Y").fuse("i", "j", "ij").vectorize("ij", 8);
        check_runs(s);
    }
    const Op any = median_distance(Size("M"), Size("N"));
    for (const int n : {1, 20}) check_runs(default_schedule(any, Machine::host()), {{"M", n}, {"N", n + 2}});
    check_runs(default_schedule(sorted(Size("M"), 4), Machine::host()), {{"M", 0}});
}

TEST_CASE("several results come from one call") {
    const Op op = top(4, 30, 5);
    CHECK(op.stages().size() == 3);
    CHECK(holds(op.to_string(), "value.extern: (f32, i32)[i: 4, k: 5]\n    value.extern(i, k) = extern top_rows(X)\n"));
    Buffer<float> x = random({4, 30});
    const Results r = interpret(op, x);
    for (int64_t i = 0; i < 4; i++) {
        for (int64_t k = 0; k < 5; k++) {
            CHECK(at(r[0], {i, k}) == at(x, {i, static_cast<int64_t>(at(r[1], {i, k}))}));
            if (k) CHECK(at(r[0], {i, k}) <= at(r[0], {i, k - 1}));
        }
    }
    check_runs(default_schedule(op, Machine::host()));
}

TEST_CASE("an extern function gets the strides of the caller's arrays") {
    Axis i("i", 4), j("j", 6);
    Tensor X = input("X", f32, {i, j}, {.strides = {Size("ld"), 1}});
    const Op op("strided", {X}, {extern_stage("Y", f32, {i, j}, {X}, {"sort_rows", sort_rows})});
    check_runs(default_schedule(op, Machine::host()), {{"ld", 11}});
}

TEST_CASE("a kernel returns the code of an extern function") {
    Axis i("i", 4);
    Tensor X = input("X", f32, {i});
    const Op op("never", {X}, {extern_stage("Y", f32, {i}, {X}, {"refuse", refuse})});
    Buffer<float> x = random({4}), y({4});
    CHECK(holds(refusal([&] { compile(op)(x, y); }), "the extern function of stage Y failed (code 77)"));
    CHECK(holds(refusal([&] { interpret(op, x); }), "its extern function refuse returned 77"));
}

TEST_CASE("errors of extern stages") {
    const Op op = median_distance(4, 8);
    const auto told = [&](auto f) {
        return refusal([&] {
            Schedule s(op);
            f(s);
        });
    };
    using S = Schedule &;
    CHECK(holds(told([](S s) { s.stage("S").compute_at("Y", "i"); }),
                "S is computed by an extern function, which writes a whole array: it is not computed at the root"));
    CHECK(holds(told([](S s) { s.stage("S").inline_into(); }), "it is not computed at the root"));
    CHECK(holds(told([](S s) { s.stage("S").parallel("i"); }), "no loop"));
    CHECK(holds(told([](S s) { s.stage("T").inline_into(); }),
                "the extern function of S reads the whole array of T, but it is not "
                "computed at the root"));
    CHECK(holds(told([](S s) { s.stage("T").compute_at("S", "i"); }), "no loop"));
    CHECK(holds(told([](S s) { s.stage("T").layout({"j", "i"}); }), "but it is stored in another order"));
    CHECK(holds(refusal([&] { Schedule(sorted(4, 8)).prepack("X", {"j", "i"}); }), "pre-packed"));
    CHECK(holds(refusal([&] { compile(op, Target::host(), {.through_halide = true}); }),
                "stage S calls an extern function"));

    Axis i("i", 4), j("j", 8);
    Tensor X = input("X", f32, {i, j});
    CHECK(holds(refusal([&] {
                    extern_stage("Y", f32, {i, j}, {zero_padded(X)}, {"sort_rows", sort_rows});
                }),
                "takes \"X.padded\", which has no array of its own"));
    CHECK(holds(refusal([&] { extern_stage("Y", f32, {i, j}, {X}, {}); }), "has no function"));
    CHECK(holds(refusal([&] { extern_stage("Y", f32, {i, j}, {X}, {"int", sort_rows}); }), "keyword"));
    const Op lost("lost", {X}, {extern_stage("Y", f32, {i, j}, {X}, {"kumiko_has_no_such_function"})});
    CHECK(holds(refusal([&] { interpret(lost, random({4, 8})); }), "is not in this process"));
    CHECK(holds(refusal([&] { compile(lost); }), "is not in this process"));
    // A kernel of three arrays has the type of an extern function.
    const auto best = extern_stage({{"V", f32}, {"P", i32}}, {i, Axis("k", 2)}, {X}, {"top_rows", top_rows});
    CHECK(holds(refusal([&] { compile(Op("top_rows", {X}, {best[0], best[1]})); }), "has that name"));
}

TEST_CASE("a library calls the function by its name") {
    const Nest nest = lower(Schedule(sorted(4, 8)));
    const ObjectFile object = compile_object({nest}, {});
    const auto undefined = undefined_symbols(object.bytes);
    CHECK(std::find(undefined.begin(), undefined.end(), "sort_rows") != undefined.end());
    CHECK(holds(c_header({nest}, {}),
                "int sort_rows(void *const *arrays, const int64_t *extents, const int64_t *strides); "
                "/* for sorted */"));
    Axis i("i", 4), j("j", 8);
    Tensor X = input("X", f32, {i, j});
    const Op nameless("nameless", {X}, {extern_stage("Y", f32, {i, j}, {X}, {"", sort_rows})});
    check_runs(Schedule(nameless));
    CHECK(holds(refusal([&] { compile_object({lower(Schedule(nameless))}, {}); }),
                "has only an address in this process"));
}
