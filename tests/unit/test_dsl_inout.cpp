// Tensors that an op updates in place: results of every backend, refusals by formulas and
// schedules, and entry checks.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/inout.h"
#include "dsl/scan.h"
#include "schedules/nest_text.h"
#include "targets/cpu/object.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/count.h"
#include "tests/unit/op_reference.h"

using namespace kumiko;

namespace {

Op accumulate(Type t, const Expr &M, const Expr &N, const Expr &K) {
    Axis i("i", M), j("j", N), k("k", K);
    Tensor A = input("A", t, {i, k}), B = input("B", t, {k, j}), C = inout("C", t, {i, j});
    return Op("accumulate", {A, B, C}, {update(C, C(i, j) + sum(A(i, k) * B(k, j), k))});
}

Op relu(Type t, const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor X = inout("X", t, {i, j});
    return Op("relu", {X}, {update(X, max(X(i, j), 0))});
}

Op axpy(Type t, const Expr &N) {
    Axis i("i", N);
    Tensor a = input("a", t, {}), X = input("X", t, {i}), Y = inout("Y", t, {i});
    return Op("axpy", {a, X, Y}, {update(Y, a() * X(i) + Y(i))});
}

// Two arrays are updated, the second from the new elements of the first.
Op momentum(const Expr &N) {
    Axis i("i", N);
    Tensor G = input("G", f32, {i}), V = inout("V", f32, {i}), W = inout("W", f32, {i});
    const Tensor next = update(V, V(i) * 0.5f + G(i));
    return Op("momentum", {G, V, W}, {next, update(W, W(i) - next(i) * 2.f)});
}

// Rows shifted by their maximum: each row is read whole before it is replaced.
Op shift_rows(Type t, const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N), k("k", N);
    Tensor X = inout("X", t, {i, j});
    return Op("shift_rows", {X}, {update(X, X(i, j) - maximum(X(i, k), k))});
}

// Rows scaled by their sums are added to others.
Op add_rows(Type t, const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N), k("k", N);
    Tensor X = input("X", t, {i, j}), Y = inout("Y", t, {i, j});
    Tensor S = compute("S", {i}, sum(X(i, k), k));
    return Op("add_rows", {X, Y}, {update(Y, Y(i, j) + X(i, j) * S(i))});
}

Op add_sums(Type t, const Expr &M, const Expr &N) {
    Axis i("i", M), k("k", N);
    Tensor X = input("X", t, {k, i}), Y = inout("Y", t, {i});
    return Op("add_sums", {X, Y}, {update(Y, Y(i) + sum(X(k, i), k))});
}

// Sums that read the replaced elements.
Op scale_sums(Type t, const Expr &M, const Expr &N) {
    Axis i("i", M), k("k", N);
    Tensor A = input("A", t, {k, i}), X = inout("X", t, {i});
    return Op("scale_sums", {A, X}, {update(X, X(i) + sum(A(k, i) * X(i), k))});
}

Op add_maxima(Type t, const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N), k("k", M);
    Tensor A = input("A", t, {i, k}), X = inout("X", t, {i, j});
    return Op("add_maxima", {A, X}, {update(X, X(i, j) + maximum(X(k, j) + A(i, k), k))});
}

Op add_transposed(Type t, const Expr &M, const Expr &N) {
    Axis i("i", M), j("j", N);
    Tensor X = input("X", t, {j, i}), Y = inout("Y", t, {i, j});
    return Op("add_transposed", {X, Y}, {update(Y, Y(i, j) + X(j, i))});
}

// Elements move by one: all are read before the first is replaced.
Op move_by_one(const Expr &N) {
    Axis i("i", N);
    Tensor X = inout("X", i32, {i});
    Tensor T = compute("T", {i}, zero_padded(X)(i - 1) * 2);
    return Op("move", {X}, {update(X, T(i) + X(i))});
}

bool holds(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("an update replaces the elements of its tensor, in the interpreter and in kernels") {
    const Op op = relu(f32, 3, 20);
    CHECK(op.to_string() == "relu(X) -> X.out\n"
                            "  X: f32[i: 3, j: 20], inout\n"
                            "  X.out: f32[i: 3, j: 20], in the array of X\n"
                            "    X.out(i, j) = max(X(i, j), 0.0)\n");
    CHECK(op.outputs() == std::vector<std::string>{"X.out"});
    CHECK(op.separate_outputs().empty());
    Buffer<float> x = random({3, 20}), before = x.copy(), meant = x.copy();
    const Results r = interpret(op, meant);
    CHECK(static_cast<const void *>(Buffer<>(r).data()) == static_cast<const void *>(meant.data()));
    compile(op)(x);
    CHECK(equal_bits(x, meant));
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 20; j++) CHECK(x(i, j) == std::max(before(i, j), 0.f));
    }
    // Evaluated in double, the new elements are an array of their own.
    const Bounded b = interpret_with_bound(op, {before});
    CHECK(b.values[0].type() == halide_type_t(f64));
    CHECK(at(b.values[0], {1, 1}) == at(x, {1, 1}));
}

TEST_CASE("updates under schedules") {
    for (const int n : {1, 5, 16, 37}) {
        for (const Op &op : {accumulate(f32, n, 17, 9), accumulate(i32, 4, n, 33), relu(bf16, n, 19), relu(i8, 3, n),
                             axpy(f32, n * 7), momentum(n * 5), shift_rows(f32, n, 40), move_by_one(n),
                             add_rows(f32, 3, 50 + n), add_rows(i8, n, 21), add_transposed(f32, 20, 16 + n),
                             add_transposed(u8, 37, n), add_sums(f32, 37 * n, 5), add_sums(f32, 9000 + n, 3),
                             scale_sums(f32, 49 + n, 3), scale_sums(f32, 5000, 3), add_maxima(f32, 5, 32 + n)}) {
            INFO(op.to_string());
            check_runs(Schedule(op));
            check_runs(Schedule(op), {}, {.through_halide = true});
            check_runs(default_schedule(op, Machine::host()));
        }
        Schedule s(accumulate(f32, n, 20, 11));
        auto S = s.stage("C.out.sum");
        auto [jo, ji] = S.split("j", 16);
        auto [ko, ki] = S.split("k", 4);
        S.finish_in("C.out").reorder({ko, "i", jo, ki, ji}).vectorize(ji, 8);
        s.accumulate_in("C.out.sum", "registers", jo);
        check_runs(s);
        check_runs(s, {}, {.through_halide = true});
        Schedule rows(shift_rows(i32, n, 33));
        rows.stage("X.out").parallel("i").vectorize("j", 8);
        rows.stage("X.out.maximum").compute_at("X.out", "i").vectorize("k", 8);
        check_runs(rows);
        Schedule blocks(shift_rows(i32, n, 33));
        auto [o, i] = blocks.stage("X.out").split("i", 4);
        blocks.stage("X.out").parallel(o);
        blocks.stage("X.out.maximum").compute_at("X.out", i);
        check_runs(blocks);
        Schedule copied(shift_rows(i32, n, 33));
        copied.place_in("X", "L1", "X.out", "i"); // a row before it is replaced
        check_runs(copied);
        Schedule parts(relu(i32, 40, n));
        parts.stage("X.out").region("i", 0, 13, "top").vectorize("j", 4);
        check_runs(parts);
    }
    const Op any = accumulate(f32, Size("M"), Size("N"), Size("K"));
    for (const int n : {0, 1, 20}) check_runs(default_schedule(any, Machine::host()), {{"M", n}, {"N", 9}, {"K", n}});
    for (const int n : {0, 3, 50, 67}) {
        check_runs(default_schedule(add_rows(f32, Size("M"), Size("N")), Machine::host()), {{"M", 5}, {"N", n}});
        check_runs(default_schedule(add_transposed(f32, Size("M"), Size("N")), Machine::host()), {{"M", 37}, {"N", n}});
    }
    Axis i("i", 40);
    Tensor X = inout("X", i32, {i});
    const Op sums("sums", {X}, {update(X, scan([](Expr a, Expr b) { return a + b; }, 0, X(i), i))});
    check_runs(Schedule(sums));
    check_runs(default_schedule(sums, Machine::host()));
}

TEST_CASE("strides of an inout tensor are those of its array") {
    Axis i("i", 5), j("j", 6);
    const Size ld("ld");
    Tensor X = inout("X", f32, {i, j}, {.strides = {ld, 1}}), Y = input("Y", f32, {i, j});
    const Op op("add", {Y, X}, {update(X, X(i, j) + Y(i, j))});
    check_runs(default_schedule(op, Machine::host()), {{"ld", 9}});
    Buffer<float> y = random({5, 6});
    Buffer<> x(f32, {5, 6}, {1, 5}); // transposed
    CHECK(holds(refusal([&] { compile(op)(y, x); }), "stride"));
}

TEST_CASE("formulas that read elements after replacing them are refused") {
    Axis i("i", 8), j("j", 8), k("k", 8);
    Tensor X = inout("X", f32, {i, j}), Y = input("Y", f32, {i, j});
    const auto told = [&](const std::vector<Tensor> &in, const std::vector<Tensor> &out) {
        return refusal([&] { Op("bad", in, out); });
    };
    const std::string replaced = ", which it may have replaced already; legal are X(i, j), the element that it writes";
    CHECK(holds(told({X}, {update(X, X(j, i))}), "the update of \"X\" reads X(j, i)" + replaced));
    CHECK(holds(told({X}, {update(X, zero_padded(X)(i + 1, j))}), "reads X.padded"));
    CHECK(holds(told({X}, {update(X, X(i, j) + 1), compute("Z", {i, j}, X(i, j) * 2)}),
                "tensor \"Z\" reads \"X\" after its update has replaced it; name it before update(X, …)"));
    CHECK(told({X}, {compute("Z", {i, j}, X(i, j) * 2), update(X, X(i, j) + 1)}) == "no error");
    // a stage of its own
    CHECK(told({X}, {update(X, X(i, j) + sum(X(i, k) * X(k, j), k))}) == "no error");
    CHECK(holds(told({X}, {compute("Z", {i, j}, X(i, j))}), "no output is update(X, …)"));
    CHECK(holds(told({Y}, {update(X, Y(i, j))}), "which is not among its inputs"));
    CHECK(holds(told({X}, {compute("Z", {i, j}, update(X, X(i, j) + 1)(j, i))}), "does not name it among its outputs"));
    CHECK(holds(refusal([&] { update(Y, X(i, j)); }), "legal is a tensor made by inout(\"Y\", …)"));
    CHECK(holds(refusal([&] { update(X, cast(f64, X(i, j))); }), "is given f64, but \"X\" has elements of f32"));
}

TEST_CASE("schedules that read replaced elements are refused at the directive") {
    const auto told = [](const Op &op, auto f) {
        return refusal([&] {
            Schedule s(op);
            f(s);
        });
    };
    using S = Schedule &;
    CHECK(holds(told(move_by_one(20), [](S s) { s.stage("T").inline_into(); }),
                "which it may have overwritten already\n  legal here: X at the element that it writes"));
    CHECK(
        holds(told(move_by_one(20), [](S s) { s.stage("T").compute_at("X.out", "i"); }),
              "T would read X where X.out has overwritten elements of it already\n  legal here: compute_root() of T"));
    CHECK(holds(told(shift_rows(f32, 4, 9),
                     [](S s) {
                         s.stage("X.out").reorder({"j", "i"}), s.stage("X.out.maximum").compute_at("X.out", "j");
                     }),
                "X.out.maximum would read X"));
    CHECK(holds(told(shift_rows(f32, 8, 9),
                     [](S s) {
                         auto [o, i] = s.stage("X.out").split("i", 4);
                         s.place_in("X", "L1", "X.out", o);
                     }),
                "X.L1 would read X"));
    CHECK(told(shift_rows(f32, 4, 9), [](S s) { s.place_in("X", "L1", "X.out.maximum", "i"); }) == "no error");
    const std::string late = "X.out.maximum would read X where X.out has overwritten elements of it already";
    CHECK(holds(told(shift_rows(f32, 4, 9),
                     [](S s) {
                         s.stage("X.out").reorder({"j", "i"});
                         // once for each element of a row
                         s.stage("X.out.maximum").compute_at("X.out", "i");
                     }),
                late));
    CHECK(holds(told(shift_rows(f32, 4, 9),
                     [](S s) {
                         s.stage("X.out").fuse("i", "j", "ij");
                         s.stage("X.out.maximum").compute_at("X.out", "ij");
                     }),
                late));
    CHECK(holds(told(shift_rows(f32, 4, 9),
                     [](S s) {
                         s.stage("X.out.maximum").compute_at("X.out", "i");
                         s.stage("X.out").reorder({"j", "i"});
                     }),
                "X.out.maximum"));
    const std::string twice = "would compute elements of X again, from what has replaced them";
    CHECK(holds(told(relu(f32, 9, 9), [](S s) { s.stage("X.out").split("i", 4, {.tail = Tail::Shift}); }), twice));
    CHECK(holds(told(relu(f32, 9, 9), [](S s) { s.stage("X.out").vectorize("j", 4, Tail::Shift); }), twice));
    CHECK(holds(told(accumulate(f32, 9, 9, 9), [](S s) { s.prepack("C", {"j", "i"}); }), "overwritten by the op"));
    Axis i("i", 8), j("j", 8), k("k", 8);
    Tensor X = inout("X", f32, {i, j});
    const Op square("square", {X}, {update(X, sum(X(i, k) * X(k, j), k))});
    CHECK(holds(told(square, [](S s) { s.stage("X.out.sum").finish_in("X.out"); }), "X.out.sum would read X"));
    check_runs(default_schedule(square, Machine::host()));
}

namespace {

// An optimiser's step: three arrays are replaced, each element from those at its own place.
Op step(const Expr &n) {
    Axis i("i", n);
    Tensor P = inout("P", i32, {i}), M = inout("M", i32, {i}), V = inout("V", i32, {i}), G = input("G", i32, {i});
    Tensor m = update(M, M(i) + G(i)), v = update(V, V(i) * 2 + G(i) * G(i));
    return Op("step", {P, M, V, G}, {m, v, update(P, P(i) - m(i) * 3 + v(i))});
}

// Other stages read V, in nests before the update and between nests that could be fused.
Op read_before(int n) {
    Axis j("j", n);
    Tensor V = inout("V", i32, {j}), P = clamped(V);
    return Op("read_before", {V},
              {compute("Y", {j}, V(j) * 3 + 1), compute("L", {}, sum(V(j) * V(j), j)),
               compute("D", {j}, P(j + 1) - P(j - 1)), update(V, V(j) * 2)});
}

} // namespace

TEST_CASE("updates are computed at loops of their readers, element by element") {
    for (const int n : {64, 37, 8, 3}) {
        Schedule s(step(n));
        s.stage("P.out").split("i", 8);
        s.stage("P.out").vectorize("i.i");
        s.stage("M.out").compute_at("P.out", "i.o").vectorize("i");
        s.stage("V.out").compute_at("P.out", "i.o").vectorize("i");
        check_runs(s);
    }
    check_runs(default_schedule(step(100003), Machine::host()));
    check_runs(default_schedule(step(Size("n")), Machine::host()), {{"n", 77}});
    CHECK(count(nest_text(default_schedule(step(100000), Machine::named("x86-64-avx2")).state()),
                "the part that one") == 2);

    for (const int n : {1000, 37}) check_runs(default_schedule(read_before(n), Machine::host()));
    Schedule s(read_before(16));
    CHECK(says(refusal([&] { s.stage("V.out").compute_with("Y", "j"); }), "tensor V is updated in place"));
    // Stages that read elements that an update replaces must come before the stage whose loop
    // contains it.
    Axis i("i", 16);
    Tensor M = inout("M", i32, {i});
    Tensor W = compute("W", {i}, M(15 - i) + 1), m = update(M, M(i) + 5);
    Schedule placed(Op("placed", {M}, {W, m, compute("Y", {i}, m(i) * 2)}));
    placed.stage("Y").split("i", 8);
    placed.stage("M.out").compute_at("Y", "i.o");
    check_runs(placed);
}

TEST_CASE("kernels refuse every other overlap of updates and of plain outputs") {
    const Kernel add = compile(axpy(f32, 16));
    Buffer<float> a = random({}), x = random({16});
    CHECK(holds(refusal([&] { add(a, x, x); }), "output Y overlaps X in memory"));
    Axis i("i", 16);
    Tensor X = input("X", f32, {i});
    const Kernel plain = compile(Op("twice", {X}, {compute("Z", {i}, X(i) * 2)}));
    CHECK(holds(refusal([&] { plain(x, x); }), "output Z overlaps X in memory"));
    const Kernel both = compile(momentum(16));
    Buffer<float> g = random({16}), v = random({16});
    CHECK(holds(refusal([&] { both(g, v, v); }), "overlaps"));
}

TEST_CASE("a library takes one pointer for a tensor that is updated") {
    const std::string header = c_header({lower(Schedule(axpy(f32, 16)))}, {});
    CHECK(holds(header, "int axpy(const float *a, const float *X, float *Y);"));
    CHECK(holds(header, " *   Y  inout float32[16]"));
}
