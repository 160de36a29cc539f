// Strided stores to neighbouring columns are combined into stores of rows.
// Links: driver
// Levels: no
#include "driver/kernel.h"
#include "dsl/inout.h"
#include "ops/ops.h"
#include "targets/cpu/cpu_target.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/count.h"

using namespace kumiko;

namespace {

// Columns of the result in vectors along i, `together` of them in a tile.
Schedule by_columns(const Op &op, int lanes, int together) {
    Schedule s(op);
    StageHandle Y = s.stage(op.outputs()[0]);
    auto [io, ii] = Y.split("i", lanes);
    auto [jo, ji] = Y.split("j", together);
    Y.reorder({io, jo, ji, ii}).unroll(ji).vectorize(ii, lanes);
    return s;
}

Op scaled(Type t, int m, const Expr &n) {
    Axis i("i", m), j("j", n);
    Tensor A = input("A", t, {i}), B = input("B", t, {j});
    return Op("outer", {A, B}, {compute("Y", {i, j}, A(i) * B(j))});
}

} // namespace

TEST_CASE("columns of every type and count, and of results that are no multiple") {
    for (Type t : {i8, i16, i32, i64, f16, f32, f64}) {
        for (int lanes : {4, 8, 16}) {
            for (int together : {2, 3, 4, 6, 7, 8})
                check_runs(by_columns(scaled(t, 3 * lanes + 1, 100 + together), lanes, together));
        }
    }
    Size N("N");
    for (int n : {0, 1, 5, 6, 70, 133}) check_runs(by_columns(scaled(f32, 17, N), 8, 6), {{"N", n}});
    check_runs(by_columns(scaled(f32, 16, 6), 8, 6)); // rows so near that they are one run
}

TEST_CASE("columns are transposed before they are stored: no scalar store") {
    const Op op = scaled(f32, 16, 400);
    const Schedule s = by_columns(op, 8, 4);
    const std::string text = compile(s, Target::named("x86-64-avx2")).assembly();
    CHECK(count(text, "vextractps") == 0);
    CHECK(count(text, "vunpcklps") + count(text, "vshufps") + count(text, "vunpcklpd") > 0);
}

TEST_CASE("columns that fill their rows") {
    for (Type t : {i8, i16, i32, f16, f32, f64}) {
        for (int lanes : {4, 8, 16}) {
            for (int together : {9, 10, 12, 16, 17}) {
                check_runs(by_columns(scaled(t, 3 * lanes, together), lanes, together));
                check_runs(by_columns(scaled(t, 2 * lanes + 1, together), lanes, together));
            }
        }
    }
}

TEST_CASE("records are read and written by rows: no gather, no scatter") {
    for (const int n : {9, 10, 12}) {
        Axis i("i", 32), j("j", n);
        Tensor A = input("A", f32, {i, j});
        const Op op("turned", {A}, {compute("Y", {i, j}, A(i, n - 1 - j) + A(i, (j + 1) % n))});
        const Schedule s = by_columns(op, 16, n);
        check_runs(s);
        if (!CpuTarget::level("x86-64-avx512").missing_on(CpuTarget::host()).empty()) continue;
        const std::string text = compile(s, Target::named("x86-64-avx512")).assembly();
        CHECK(count(text, "vgather") == 0);
        CHECK(count(text, "vscatter") == 0);
    }
}

TEST_CASE("columns of an array that is read meanwhile") {
    Axis i("i", 16), j("j", 200);
    Tensor X = inout("X", f32, {i, j});
    const Op op("twice", {X}, {update(X, X(i, j) * 2.0f + 1.0f)});
    check_runs(by_columns(op, 8, 4));
}

TEST_CASE("columns of sums whose last steps are in the loop of the stores") {
    // a remainder of the channels, cut by four, is copied without a loop
    for (int channels : {61, 62, 63, 64, 65}) {
        for (int stride : {1, 2}) {
            ops::Conv2dOptions o;
            o.stride(stride);
            const Op op = ops::conv2d(f32, 1, channels, 20, 20, 24, 1, 1, o);
            Schedule s(op);
            StageHandle Y = s.stage("Y");
            auto [oo, oi] = Y.split("o", 8);
            LoopName run = Y.fuse("y", "x", "yx");
            auto [ro, ri] = Y.split(run, 6);
            auto [co, ci] = Y.split("c", 4);
            Y.reorder({"n", oo, ro, co, "ky", "kx", ci, ri, oi}).unroll(ci).unroll(ri).vectorize(oi, 8);
            s.accumulate_in("Y", "registers", ro);
            check_runs(s);
        }
    }
    // The whole sum is beside the stores.
    const Op few = ops::conv2d(f32, 1, 3, 12, 12, 16, 1, 1);
    Schedule s(few);
    StageHandle Y = s.stage("Y");
    auto [oo, oi] = Y.split("o", 8);
    auto [xo, xi] = Y.split("x", 4);
    Y.reorder({"n", oo, "y", xo, "c", "ky", "kx", xi, oi}).unroll("c").unroll(xi).vectorize(oi, 8);
    check_runs(s);
    s.accumulate_in("Y", "registers", xo);
    check_runs(s);
}

TEST_CASE("columns that are stored twice keep their order") {
    Axis i("i", 16), j("j", 100), k("k", 3);
    Tensor A = input("A", f32, {i, j, k});
    const auto last = [](Expr, Expr now) { return now; };
    const Op op("last", {A}, {compute("Y", {i, j}, reduce(last, 0.0f, A(i, j, k), k))});
    Schedule s(op);
    StageHandle Y = s.stage("Y");
    auto [io, ii] = Y.split("i", 8);
    auto [jo, ji] = Y.split("j", 4);
    Y.reorder({io, jo, "k", ji, ii}).unroll("k").unroll(ji).vectorize(ii, 8);
    check_runs(s);
}
