// Default schedules of ops that no library template matches as a whole: each stage gets loops
// chosen from its own reads. One file, because it is one list of short ops.
// Links: driver
#include "driver/default_schedule.h"
#include "driver/kernel.h"
#include "dsl/inout.h"
#include "dsl/interpret.h"
#include "dsl/math.h"
#include "dsl/scatter.h"
#include "machine/machine.h"
#include "schedules/library/elementwise.h"
#include "schedules/nest_text.h"
#include "support/error.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/cores.h"
#include "tests/unit/count.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

// The nest of the op's default schedule for AVX2. Compares this machine's default with `interpret`
// within 1e-4, and lowers the default of other architectures.
std::string checked_nest(const Op &op) {
    const Kernel kernel = compile(op);
    CHECK(kernel.report().passed_over.empty());
    std::vector<Buffer<>> inputs, all;
    for (const Input &in : op.inputs()) {
        inputs.push_back(make_input(in, {}));
        fill_random(inputs.back(), inputs.size(), -4, 4);
    }
    all = inputs;
    for (const std::string &out : op.outputs()) {
        all.push_back(make_output(op, out, {}));
        fill_unwritten(all.back());
    }
    kernel(all);
    const std::vector<Buffer<>> expected = interpret(op, inputs);
    for (size_t n = 0; n < expected.size(); n++)
        CHECK_NOTHROW(check_close(all[inputs.size() + n], expected[n], {.relative = 1e-4, .absolute = 1e-4}));

    for (const char *other : {"x86-64-avx512", "aarch64", "riscv64-v"}) {
        std::vector<PassedOver> passed_over;
        default_schedule(op, Machine::named(other), PackedBy::Kernel, &passed_over);
        CHECK(passed_over.empty());
    }
    return nest_text(default_schedule(op, Machine::named("x86-64-avx2")).state());
}

// The machine with an L2 of so many bytes.
Machine with_l2(Machine machine, int64_t bytes) {
    for (MemoryLevel &level : machine.memory) {
        if (level.name == "L2") level.bytes = bytes;
    }
    return machine;
}

} // namespace

TEST_CASE("elements of short records are read in vectors") {
    Axis p("p", 123), c("c", 3);
    Tensor X = input("X", f32, {p, c});
    const std::string gray =
        checked_nest(Op("gray", {X}, {compute("Y", {p}, X(p, 0) * 0.299f + X(p, 1) * 0.587f + X(p, 2) * 0.114f)}));
    CHECK(count(gray, "vectorized p") > 0);
    Axis far("far", 9);
    Tensor Z = input("Z", f32, {p, far});
    CHECK(count(checked_nest(Op("column", {Z}, {compute("Y", {p}, Z(p, 1) + 1.f)})), "vectorized") == 0);
}

TEST_CASE("vectors run along points whose components are fewer than lanes") {
    for (const int points : {64, 123}) {
        Axis n("n", points), c("c", 3), q("q", 4);
        Tensor Q = input("Q", f32, {n, q}), V = input("V", f32, {n, c});
        const std::string nest = checked_nest(
            Op("cross", {Q, V},
               {compute("Y", {n, c}, Q(n, (c + 1) % 3) * V(n, (c + 2) % 3) - Q(n, (c + 2) % 3) * V(n, (c + 1) % 3))}));
        CAPTURE(nest);
        CHECK(count(nest, "vectorized n.i") == 1);
        CHECK(count(nest, "unrolled c") == 1);
    }
}

TEST_CASE("an operand contiguous along the reduction is copied for a register tile") {
    for (const auto &[M, N, K] : std::vector<std::array<int, 3>>{{32, 32, 16}, {29, 21, 37}, {8, 100, 9}}) {
        Axis i("i", M), j("j", N), k("k", K), h("h", 2);
        Tensor A = input("A", f32, {i, k}), B = input("B", f32, {j, k});
        const Expr d = A(i, k) - B(j, k);
        const std::string nest = checked_nest(Op("distances", {A, B}, {compute("Y", {i, j}, sum(d * d, k))}));
        CAPTURE(nest);
        CHECK(count(nest, "copy B.L2 of B") == 1);
        CHECK(count(nest, "accumulate Y in registers") == 1);
        Tensor Q = input("Q", f32, {h, i, k}), P = input("P", f32, {h, j, k});
        checked_nest(Op("scores", {Q, P}, {compute("Y", {h, i, j}, exp(sum(Q(h, i, k) * P(h, j, k), k) * 0.01f))}));
    }
    // No copy of a panel that exceeds L2, nor of a tensor whose copy would be read once.
    {
        Axis i("i", 16), j("j", 64), k("k", 3000), b("b", 9), m("m", 40);
        Tensor A = input("A", f32, {i, k}), B = input("B", f32, {j, k}), X = input("X", f32, {b, j, m}),
               M = input("M", f32, {j, m});
        CHECK(count(checked_nest(Op("long", {A, B}, {compute("Y", {i, j}, sum(A(i, k) * B(j, k) * 0.001f, k))})),
                    "copy") == 0);
        CHECK(count(checked_nest(Op("once", {X, M}, {compute("Y", {b, j}, sum(abs(X(b, j, m) - M(j, m)), m))})),
                    "copy") == 0);
    }
    // Few rows do not pay for the copy.
    Axis i("i", 3), j("j", 32), k("k", 64);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {j, k});
    CHECK(count(checked_nest(Op("few", {A, B}, {compute("Y", {i, j}, sum(abs(A(i, k) - B(j, k)), k))})), "copy") == 0);
}

TEST_CASE("sums of gathered rows keep as many vectors as there are accumulator registers") {
    for (const auto &[width, vectors] : std::vector<std::pair<int, int>>{{8, 1}, {40, 5}, {45, 6}, {200, 9}}) {
        Axis b("b", 7), l("l", 5), d("d", width), v("v", 11);
        Tensor table = input("table", f32, {v, d}), id = input("id", i32, {b, l});
        const std::string nest = checked_nest(
            Op("bag", {table, id}, {compute("Y", {b, d}, sum(table(clamp(id(b, l), 0, 10), d), l) * 0.2f)}));
        CAPTURE(nest);
        CHECK(count(nest, "accumulate Y.sum in registers") == 1);
        CHECK(count(nest, "unrolled d.i.o in 0.." + std::to_string(vectors)) == (vectors > 1));
    }
    // A step of a window shares only its address, which is the next one's.
    Axis i("i", 70), r("r", 20);
    Tensor X = input("X", f32, {Axis("x", 89)});
    CHECK(count(checked_nest(Op("box", {X}, {compute("Y", {i}, sum(X(i + r), r))})), "unrolled i") == 0);
}

TEST_CASE("stages whose results exceed L2 are computed inside of the last stage's loops") {
    for (const int H : {2, 40}) {
        Axis h("h", H), i("i", 60), j("j", 60), k("k", 16);
        Tensor Q = input("Q", f32, {h, i, k}), K = input("K", f32, {h, j, k}), V = input("V", f32, {h, j, k});
        Tensor s = compute("s", {h, i, j}, select(j <= i, sum(Q(h, i, k) * K(h, j, k), k) * 0.25f, -1e30f));
        Tensor most = compute("most", {h, i}, maximum(s(h, i, j), j));
        Tensor p = compute("p", {h, i, j}, exp(s(h, i, j) - most(h, i)));
        const Op op("causal", {Q, K, V},
                    {compute("Y", {h, i, k}, sum(p(h, i, j) * V(h, j, k), j) / sum(p(h, i, j), j))});
        checked_nest(op); // attention has a schedule of its own
        const Machine machine = Machine::named("x86-64-avx2");
        const Schedule by_rules =
            library::schedule_elementwise(op, machine, library::elementwise_parameters(op, machine));
        const std::string nest = nest_text(by_rules.state());
        CAPTURE(nest);
        CHECK((count(nest, "the part that one h needs") > 3) == (H == 40));
    }
}

TEST_CASE("vectors across points do not split the loops in which stages are computed") {
    Axis p("p", 60000), c("c", 3), q("q", 3), r("r", 60000);
    Tensor X = input("X", f32, {p, c}), Z = input("Z", f32, {r, c});
    Tensor centre = compute("centre", {c}, sum(Z(r, c), r) * (1.f / 60000));
    Tensor norm = compute("norm", {p}, sqrt(sum(square(X(p, q) - centre(q)), q)) + 1.f);
    checked_nest(Op("normalised", {X, Z}, {compute("Y", {p, c}, (X(p, c) - centre(c)) / norm(p))}));
}

TEST_CASE("the last vector across points moves inwards") {
    for (const int W : {16, 17, 31, 33, 64, 121}) { // of 8 bits, vectors narrow down to 16 points
        Axis q("q", 12), y("y", 3), x("x", W), v("v", 6), u("u", 2 * W), c("c", 3);
        Tensor X = input("X", f32, {q, y, x});
        const std::string nest = checked_nest(
            Op("shuffle", {X},
               {compute("Y", {v, u, c}, cast(u8, clamp(X(c * 4 + v % 2 * 2 + u % 2, v / 2, u / 2), 0.f, 255.f)))}));
        CAPTURE(nest);
        CHECK(count(nest, "vectorized u.o.i in 0.." + std::to_string(W < 32 ? 16 : 32)) == 1);
        CHECK(count(nest, "tail: shift") == (W % 16 != 0));
    }
    // Stages are nevertheless computed in its loops; the last vector recomputes some of their
    // elements.
    Axis p("p", 30001), c("c", 3);
    Tensor X = input("X", f32, {p, c});
    Tensor v = compute("v", {p}, max(max(X(p, 0), X(p, 1)), X(p, 2)));
    Tensor d = compute("d", {p}, v(p) - min(min(X(p, 0), X(p, 1)), X(p, 2)));
    Tensor h = compute("h", {p},
                       select(v(p) == X(p, 0), (X(p, 1) - X(p, 2)) / d(p), v(p) == X(p, 1),
                              (X(p, 2) - X(p, 0)) / d(p) + 2.f, (X(p, 0) - X(p, 1)) / d(p) + 4.f));
    const std::string nest =
        checked_nest(Op("hues", {X}, {compute("Y", {p, c}, select(c == 0, h(p), c == 1, d(p) / (v(p) + 5.f), v(p)))}));
    CAPTURE(nest);
    CHECK(count(nest, "tail: shift") == 1);
    CHECK(count(nest, "the part that one p.o.i needs") == 2);
    // An inout tensor is not written twice.
    Axis n("n", 61);
    Tensor Z = inout("Z", f32, {n, c});
    const Op grow("grow", {Z}, {update(Z, Z(n, c) * 2.f)});
    const Schedule in_place = default_schedule(grow, Machine::named("x86-64-avx2"));
    CHECK(count(nest_text(in_place.state()), "tail: shift") == 0);
}

TEST_CASE("functions are not computed again for each element of a row") {
    Axis i("i", 40), j("j", 60), k("k", 48);
    Tensor X = input("X", f32, {i, j, k});
    Tensor base = compute("base", {i, k}, log(sum(exp(X(i, j, k)), j)));
    const std::string nest = checked_nest(Op("middle", {X}, {compute("Y", {i, j, k}, X(i, j, k) - base(i, k))}));
    CHECK(count(nest, "inline base") == 0);
}

TEST_CASE("different reductions of a row are computed in one iteration of its loop") {
    for (const int n : {1000, 37}) {
        Axis i("i", 200), k("k", n);
        Tensor X = input("X", f32, {i, k});
        const std::string nest = checked_nest(
            Op("extremes", {X}, {compute("most", {i}, maximum(X(i, k), k)), compute("at", {i}, argmax(X(i, k), k))}));
        CAPTURE(nest);
        CHECK(nest.find("compute most, and at down to i") != std::string::npos);
    }
}

TEST_CASE("several reductions of rows") {
    Axis n("n", 5), y("y", 9), x("x", 61);
    Tensor X = input("X", f32, {n, y, x});
    const std::string rows = checked_nest(
        Op("extremes", {X},
           {compute("a", {n}, maximum(X(n, y, x), {y, x})), compute("b", {n}, minimum(X(n, y, x), {y, x}))}));
    CHECK(count(rows, "compute a.rf") == 1);
    CHECK(count(rows, ", and b.rf down to x_i.v") == 1);
    checked_nest(Op("place", {X},
                    {compute("a", {n}, maximum(X(n, y, x), {y, x})), compute("b", {n}, argmax(X(n, y, x), {y, x}))}));

    Axis k("k", 1000);
    Tensor V = input("V", f32, {k});
    const std::string all =
        checked_nest(Op("moments", {V}, {compute("s", {}, sum(V(k), k)), compute("q", {}, sum(V(k) * V(k), k))}));
    CHECK(count(all, "compute s.rf") == 1);
    CHECK(count(all, ", and q.rf down to k_i.v") == 1);
}

TEST_CASE("two products") {
    for (const auto &[M, K, L, N] :
         std::vector<std::array<int, 4>>{{32, 48, 64, 32}, {30, 41, 37, 53}, {1, 9, 8, 11}}) {
        Axis i("i", M), j("j", N), k("k", K), l("l", L);
        Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, l}), C = input("C", f32, {l, j});
        Tensor T = compute("T", {i, l}, sum(A(i, k) * B(k, l), k));
        const std::string nest =
            checked_nest(Op("chain", {A, B, C}, {compute("Y", {i, j}, max(sum(T(i, l) * C(l, j), l), 0.f))}));
        CAPTURE(nest);
        CHECK(count(nest, "accumulate") == 2);
        if (M > 1) CHECK(count(nest, "unrolled i.i") == 2); // rows share the vectors of B and of C
    }
}

TEST_CASE("products whose operands exceed L2 are scheduled as ops of that stage alone") {
    Axis i("i", 50), j("j", 96), k("k", 90);
    Tensor X = input("X", f32, {i, k}), V = input("V", f32, {k, j}), W = input("W", f32, {k, j});
    Tensor g = compute("g", {i, j}, sum(X(i, k) * V(k, j), k)), h = compute("h", {i, j}, sum(X(i, k) * W(k, j), k));
    const Op op("gated", {X, V, W}, {compute("Y", {i, j}, g(i, j) * h(i, j))});
    CHECK(count(checked_nest(op), "copy") == 0);
    for (const int cores : {1, 2}) {
        const Schedule s = default_schedule(op, with_l2(with_cores(Machine::host(), cores), 16 << 10));
        check_runs(s);
        // Two full tiles have more accumulators than there are registers.
        CHECK(count(nest_text(s.state()), "compute g, and") == 0);
    }
    const Machine avx2 = with_l2(with_cores(Machine::named("x86-64-avx2"), 1), 16 << 10);
    CHECK(count(nest_text(default_schedule(op, avx2).state()), "copy ") == 2);
}

TEST_CASE("a large contraction that ends in a rolling stage keeps the loops of the rules") {
    const int size = 20;
    Axis c("c", 12), y("y", size), x("x", size), o("o", 4), j("j", 3), i("i", 3);
    Axis v("v", size), u("u", size), p("p", 12), l("l", 3), k("k", 3), s("s", size - 2), r("r", size - 2), q("q", 8);
    Axis m("m", 3), n("n", 3), yi("y", size + 2), xi("x", size + 2);
    Tensor X = input("X", f32, {c, yi, xi}), F = input("F", f32, {o, c, j, i}), G = input("G", f32, {p, l, k, o}),
           R = input("R", f32, {v, u, p}), H = input("H", f32, {q, m, n, p});
    Tensor first = compute("first", {o, y, x}, max(sum(X(c, y + j, x + i) * F(o, c, j, i), {j, i, c}), 0));
    Tensor padded = zero_padded(first);
    Tensor second = compute("second", {v, u, p},
                            max(sum(padded(o, v + l - 1, u + k - 1) * G(p, l, k, o), {o, l, k}) + R(v, u, p), 0));
    const Op op("convolutions", {X, F, G, R, H},
                {compute("Y", {q, s, r}, max(sum(second(s + m, r + n, p) * H(q, m, n, p), {m, n, p}), 0))});
    std::vector<PassedOver> passed_over;
    const Machine avx2 = Machine::named("x86-64-avx2");
    default_schedule(op, with_l2(with_cores(avx2, 1), 4 << 10), PackedBy::Kernel, &passed_over);
    CHECK(passed_over.empty());
    check_runs(default_schedule(op, with_l2(with_cores(Machine::host(), 1), 4 << 10)));
}

TEST_CASE("a sum that ends an expanded product is an output too") {
    Axis c("c", 17), y("y", 16), x("x", 17), o("o", 30), j("j", 2), i("i", 1);
    Tensor X = input("X", u8, {c, y, x}), F = input("F", i8, {j, i, c, o}), B = input("B", i32, {x});
    Tensor P = zero_padded(X);
    Tensor S = compute("S", {o, y, x},
                       sum((cast(i32, P(c, y + j - 1, x + i)) - 2) * (cast(i32, F(j, i, c, o)) - 1), {c, j, i}));
    const Op op("codes", {X, F, B}, {S, compute("T", {o, y, x}, cast(u8, max(min(S(o, y, x) + B(x), 3), 0)))});
    std::vector<PassedOver> passed_over;
    default_schedule(op, with_cores(Machine::named("x86-64-avx2"), 1), PackedBy::Kernel, &passed_over);
    CHECK(passed_over.empty());
    check_runs(default_schedule(op, Machine::host()));
}

TEST_CASE("threads share tiles outside of the blocks of steps") {
    Axis i("i", 64), j("j", 64), n("n", 2000);
    Tensor X = input("X", f32, {n, i});
    const Op op("gram", {X},
                {compute("C", {i, j}, sum(X(n, i) * X(n, j), n)), compute("most", {i}, maximum(X(n, i), n))});
    for (const int cores : {1, 2}) {
        const Schedule s = default_schedule(op, with_l2(with_cores(Machine::named("x86-64-avx2"), cores), 64 << 10));
        CHECK(count(nest_text(s.state()), "for n.o in 0..") == 1);
        CHECK(count(nest_text(s.state()), "parallel j.o.o in 0..2") == cores - 1);
        check_runs(default_schedule(op, with_l2(with_cores(Machine::host(), cores), 64 << 10)));
    }
}

TEST_CASE("two products of one matrix, gated") {
    Axis i("i", 33), j("j", 40), k("k", 65);
    Tensor X = input("X", f32, {i, k}), A = input("A", f32, {k, j}), B = input("B", f32, {k, j});
    Tensor a = compute("a", {i, j}, sum(X(i, k) * A(k, j), k)), b = compute("b", {i, j}, sum(X(i, k) * B(k, j), k));
    const std::string nest =
        checked_nest(Op("gate", {X, A, B}, {compute("Y", {i, j}, a(i, j) / (1.f + exp(-a(i, j))) * b(i, j))}));
    CHECK(count(nest, "unrolled i.i") == 2);
}

TEST_CASE("filters along rows with two outputs") {
    Axis n("n", 2), o("o", 10), c("c", 4), l("l", 70), t("t", 64), k("k", 4);
    Tensor X = input("X", f32, {n, c, l}), W = input("W", f32, {o, c, k});
    Tensor y = compute("y", {n, o, t}, sum(X(n, c, t + 2 * k) * W(o, c, k), {c, k}));
    const std::string nest = checked_nest(
        Op("conv1d", {X, W},
           {compute("P", {n, o, t}, max(y(n, o, t), 0.f)), compute("N", {n, o, t}, min(y(n, o, t), 0.f))}));
    CHECK(count(nest, "unrolled o.i") == 1);
}

TEST_CASE("padding of narrow numbers is kept in a ring of rows where neighbours are read") {
    for (const auto &[C, H, W] : std::vector<std::array<int, 3>>{
             {1, 5, 40}, {1, 70, 131}, {3, 130, 33}, {2, 1, 37}, {1, 60, 2000}, {1, 8, 9000}}) {
        Axis c("c", C), y("y", H), x("x", W);
        for (const Type type : {u8, i16}) {
            Tensor X = input("X", type, {c, y, x});
            for (const Tensor &P : {zero_padded(X, {y, x}), clamped(X, {y, x})}) {
                const auto at = [&](int i, int j) { return cast(i32, P(c, y + i, x + j)); };
                const std::string nest = checked_nest(
                    Op("edges", {X}, {compute("Y", {c, y, x}, cast(type, at(-1, 0) - at(1, 2) * 3 + at(0, -1)))}));
                CAPTURE(nest);
                CHECK(count(nest, "the part that is new in one y.i") == 1);
            }
        }
        // Loads with masked lanes.
        Tensor F = input("F", f32, {c, y, x}), P = zero_padded(F, {y, x});
        const std::string nest =
            checked_nest(Op("edges", {F}, {compute("Y", {c, y, x}, P(c, y, x + 1) - P(c, y, x - 1))}));
        CHECK(count(nest, "inline F.padded") == 1);
    }
}

TEST_CASE("rows of a stencil are computed together, since they share what they read") {
    for (const auto &[H, W] : std::vector<std::array<int, 2>>{{40, 300}, {37, 301}, {5, 64}, {3, 2000}, {1, 300}}) {
        Axis y("y", H), x("x", W);
        for (const Type type : {u8, f32}) {
            Tensor X = input("X", type, {y, x});
            for (const Tensor &P : {zero_padded(X), clamped(X)}) {
                const std::string nest = checked_nest(
                    Op("cross", {X}, {compute("Y", {y, x}, P(y - 1, x) + P(y, x) * 2 + P(y, x + 1) + P(y + 1, x))}));
                CAPTURE(nest);
                if (H >= 5 && (W >= 300 || type == f32)) CHECK(count(nest, "unrolled y.i") == 1);
                if (H == 1) CHECK(count(nest, "unrolled y") == 0);
            }
        }
    }
    Axis z("z", 12), y("y", 9), x("x", 40);
    Tensor X = input("X", f32, {z, y, x}), P = zero_padded(X), B = input("B", f32, {y, x});
    const std::string along =
        checked_nest(Op("column", {X}, {compute("Y", {z, y, x}, P(z - 1, y, x) + P(z, y, x) * 2.f + P(z + 1, y, x))}));
    CHECK(count(along, "unrolled z.i") == 1);
    // Rows that share nothing, or everything.
    CHECK(count(checked_nest(Op("bias", {X, B}, {compute("Y", {z, y, x}, X(z, y, x) + B(y, x))})), "unrolled z") == 0);
}

TEST_CASE("rows that take different branches are unrolled outside of their columns") {
    Axis y("y", 40), x("x", 300);
    Tensor X = input("X", f32, {y, x}), P = clamped(X);
    const std::string nest = checked_nest(
        Op("parity", {X}, {compute("Y", {y, x}, select(y % 2 == 0, P(y, x - 1) + P(y, x + 1), P(y, x) * 0.5f))}));
    CAPTURE(nest);
    CHECK(nest.find("unrolled y.i in 0..2") < nest.find("for x.o"));
    // Rows of twice the size read each row twice.
    Axis v("v", 80), u("u", 600);
    CHECK(count(checked_nest(Op("larger", {X}, {compute("Y", {v, u}, X(v / 2, u / 2))})), "unrolled v.i") == 1);
}

TEST_CASE("rows that begin within lines are stored in longer runs where parts of lines cost much") {
    Axis y("y", 350), x("x", 421), wide("x", 432);
    const auto nest_of = [](const Axis &y, const Axis &x, bool corners) {
        Tensor X = input("X", f32, {y, x}), P = zero_padded(X);
        Element sum = P(y, x) + P(y - 1, x) + P(y + 1, x) + P(y, x - 1) + P(y, x + 1);
        if (corners) sum = sum + P(y - 1, x - 1) + P(y - 1, x + 1) + P(y + 1, x - 1) + P(y + 1, x + 1);
        const Op op("stencil", {X}, {compute("Y", {y, x}, sum)});
        checked_nest(op);
        return nest_text(default_schedule(op, Machine::named("x86-64-amx")).state());
    };
    CHECK(count(nest_of(y, x, false), "unrolled y.i") == 0);
    CHECK(count(nest_of(y, wide, false), "unrolled y.i") == 1);
    const std::string nest = nest_of(y, x, true);
    CAPTURE(nest);
    CHECK(count(nest, "unrolled y.i") == 1);
    CHECK(count(nest, "unrolled x.i.o in 0..2") == 1);
    CHECK(count(nest_of(y, wide, true), "unrolled x.i.o") == 0);
}

TEST_CASE("elements are computed in the loops of a sum of them") {
    for (const int n : {5003, 5000, 300, 64, 20, 1}) {
        Axis i("i", 3), j("j", n);
        Tensor X = input("X", f32, {j}), M = input("M", f32, {i, j});
        const std::string nest = checked_nest(
            Op("loss", {X}, {compute("G", {j}, X(j) * 0.5f), compute("L", {}, sum(X(j) * X(j), j) / cast(f32, n))}));
        CAPTURE(nest);
        if (n >= 5000) CHECK(count(nest, "L.sum.rf, and G down to") == 1);
        checked_nest(
            Op("rows", {M}, {compute("L", {}, sum(M(i, j) * M(i, j), {i, j})), compute("G", {i, j}, M(i, j) * 0.5f)}));
    }
    Axis j("j", 5000); // the one needs the other
    Tensor X = input("X", f32, {j}), G = compute("G", {j}, X(j) * 0.5f), L = compute("L", {}, sum(X(j), j));
    CHECK(count(checked_nest(Op("after", {X}, {G, compute("S", {}, sum(G(j) * X(j), j))})), "down to") == 0);
    CHECK(count(checked_nest(Op("centred", {X}, {L, compute("C", {j}, X(j) - L())})), "down to") == 0);
}

TEST_CASE("each step of a scatter visits one element, whatever else the op computes") {
    for (const int D : {1, 20, 64}) {
        Axis n("n", 50), d("d", D), s("s", 9);
        Tensor X = input("X", f32, {n, d}), at = input("at", i32, {n});
        Tensor total = compute("total", {s, d}, scatter(sum, X(n, d), s, at(n), n));
        Tensor number = compute("number", {s}, scatter(sum, Expr(1), s, at(n), n));
        const std::string nest = checked_nest(
            Op("means", {X, at}, {compute("mean", {s, d}, total(s, d) / max(cast(f32, number(s)), 1.f)), number}));
        CAPTURE(nest);
        CHECK(count(nest, "each step: at(n)") == 2);
    }
}

TEST_CASE("weights of a convolution without a batch are packed") {
    Axis o("o", 20), c("c", 5), y("y", 8), x("x", 12), j("j", 3), i("i", 3), v("v", 4), u("u", 6), q("q", 2), p("p", 2);
    Tensor X = input("X", f32, {c, y, x}), F = input("F", f32, {o, c, j, i}), P = zero_padded(X);
    Tensor s = compute("s", {o, y, x}, sum(P(c, y + j - 1, x + i - 1) * F(o, c, j, i), {c, j, i}));
    Tensor z = compute("z", {o, y, x}, max(s(o, y, x), 0.f));
    const std::string nest =
        checked_nest(Op("pooled", {X, F}, {compute("Y", {o, v, u}, maximum(z(o, 2 * v + q, 2 * u + p), {q, p}))}));
    CHECK(count(nest, "of F in ") == 1);
}

TEST_CASE("values that depend on columns alone are read once for a block of rows") {
    for (const auto &[M, N] : std::vector<std::array<int, 2>>{{40, 100}, {8, 37}, {70, 33}}) {
        Axis i("i", M), j("j", N), c("c", 3);
        Tensor A = input("A", f32, {j, c}), B = input("B", f32, {i, c});
        const std::string nest = checked_nest(
            Op("pairs", {A, B}, {compute("Y", {i, j}, max(A(j, 0), B(i, 0)) - min(A(j, 1) * A(j, 2), B(i, 1)))}));
        CAPTURE(nest);
        CHECK(nest.find("for j.o in") < nest.find("for i.i in"));
        // one read along columns
        checked_nest(Op("rows", {A, B}, {compute("Y", {i, j}, A(j, 0) * B(i, 0))}));
    }
}

TEST_CASE("vectors gather where enough is computed beside") {
    Axis y("y", 7), x("x", 77), m("m", 30), n("n", 50);
    Tensor X = input("X", f32, {m, n}), P = input("P", f32, {y, x});
    const Element at = P(y, x) * 10.f, a = at - floor(at);
    const Expr row = clamp(cast(i32, at), 0, 29), next = min(row + 1, 29), column = clamp(cast(i32, at * 3.f), 0, 49);
    const std::string much = checked_nest(
        Op("between", {X, P},
           {compute("Y", {y, x}, X(row, column) * (1.f - a) + X(next, column) * a + a * a * 0.5f + sqrt(abs(at)))}));
    CHECK(count(much, "vectorized") > 0);
    Tensor J = input("J", i32, {y, x});
    const std::string little =
        checked_nest(Op("table", {X, J}, {compute("Y", {y, x}, X(clamp(J(y, x), 0, 29), clamp(J(y, x), 0, 49)))}));
    CHECK(count(little, "vectorized") == 0);
}

TEST_CASE("a function that several stages share is computed once") {
    for (const int n : {500, 37, 5}) {
        Axis i("i", n), j("j", n);
        Tensor X = input("X", f32, {i}), M = input("M", f32, {i});
        const Element d = X(j) - X(i), force = M(j) * rsqrt(d * d + 0.5f);
        const std::string sums = checked_nest(
            Op("forces", {X, M}, {compute("A", {i}, sum(force * d, j)), compute("B", {i}, sum(force, j))}));
        const std::string values = checked_nest(
            Op("values", {X, M}, {compute("A", {i}, exp(X(i)) * M(i)), compute("B", {i}, exp(X(i)) + M(i))}));
        const std::string others = checked_nest(
            Op("others", {X, M}, {compute("A", {i}, exp(X(i)) * M(i)), compute("B", {i}, exp(M(i)) + X(i))}));
        if (n < 500) continue;
        CHECK(count(sums, "B down to") == 1);
        CHECK(count(values, "B down to") == 1);
        CHECK(count(others, "B down to") == 0);
    }
}

TEST_CASE("each vector has one element of several small matrices") {
    const auto vectors = [](const Type type, const Expr &matrices, const char *machine) {
        Axis n("n", matrices), r("r", 3), c("c", 3);
        Tensor A = input("A", type, {n, r, c});
        const Op op("minors", {A},
                    {compute("Y", {n, r, c},
                             A(n, (r + 1) % 3, (c + 1) % 3) * A(n, (r + 2) % 3, (c + 2) % 3) -
                                 A(n, (r + 1) % 3, (c + 2) % 3) * A(n, (r + 2) % 3, (c + 1) % 3))});
        if (op.sizes().empty() && type == f32) CHECK(count(checked_nest(op), "unrolled") == 2);
        return count(nest_text(default_schedule(op, Machine::named(machine)).state()), "vectorized n");
    };
    CHECK(vectors(f32, 50, "x86-64-avx512") == 1);
    CHECK(vectors(f32, 3, "x86-64-avx512") == 0); // fewer than lanes
    CHECK(vectors(f32, Size("N"), "x86-64-avx512") == 0);
    CHECK(vectors(i16, 50, "x86-64-avx512") == 0);
    CHECK(vectors(f32, 50, "x86-64-avx2") == 0); // has no scatter
}

TEST_CASE("rows that are far apart are summed in several vectors of each") {
    for (const int n : {500, 131, 16, 3}) {
        Axis i("i", 40), j("j", n);
        Tensor X = input("X", f32, {i, j}), u = input("u", f32, {i});
        const std::string nest = checked_nest(Op(
            "columns", {X, u}, {compute("Y", {j}, sum(X(i, j) * u(i), i)), compute("Z", {j}, sum(X(i, j), i) + 1.f)}));
        if (n >= 131) CHECK(count(nest, "unrolled j.i.o") >= 1); // of both, or of each
        Axis w("w", n + 40);                                     // a window
        Tensor W = input("W", f32, {w});
        CHECK(count(checked_nest(Op("window", {W, u},
                                    {compute("Y", {j}, sum(W(j + i) * u(i), i)), compute("Z", {j}, W(j + 39))})),
                    "unrolled j.i.o") <= 1); // of Z
    }
}

TEST_CASE("blocks that do not divide are apart from the tasks of threads") {
    for (const int n : {100003, 100032, 131071}) {
        Axis i("i", n);
        Tensor X = input("X", f32, {i}), H = input("H", f16, {i});
        const Op op(
            "mixed", {X, H},
            {compute("A", {i}, cast(f16, X(i) * 2.f + cast(f32, H(i)))), compute("B", {i}, X(i) - cast(f32, H(i)))});
        checked_nest(op);
        // Masks, if any, are those of the last block of each.
        CHECK(count(body_of(default_schedule(op, Machine::named("x86-64-avx512"))), "predicate (") <= 2);
    }
}

TEST_CASE("indices that wrap around are dense but at the border") {
    for (const int n : {96, 64, 40, 33, 16, 5, 2}) {
        Axis i("i", 6), d("d", n);
        Tensor X = input("X", f32, {i, d}), C = input("C", f32, {d});
        const int half = n / 2;
        const Op by_halves(
            "halves", {X, C},
            {compute("Y", {i, d},
                     X(i, d) * C(d % (n - half)) + select(d < half, -X(i, (d + half) % n), X(i, (d + half) % n)))});
        const Op around(
            "around", {X},
            {compute("Y", {i, d}, X((i + 1) % 6, d) + X((i + 5) % 6, (d + 1) % n) - X(i, (d + n - 1) % n))});
        const Op thrice("thrice", {X}, {compute("Y", {i, d}, X(i, d * 2 % n) + X(i, (d + 2 * n) % n))});
        for (const Op &op : {by_halves, around, thrice}) checked_nest(op);
        const auto remainders = [&](const Op &op) {
            return count(body_of(default_schedule(op, Machine::named("x86-64-avx2"))), " % ");
        };
        if (n == 96) CHECK(remainders(by_halves) == 0);
        CHECK(remainders(around) == 0);
    }
    Axis i("i", Size("n")), k("k", 5); // of a size that is not known
    Tensor X = input("X", f32, {i}), Z = input("Z", f32, {k});
    check_runs(default_schedule(Op("open", {X}, {compute("Y", {i}, X((i + 1) % i.extent()))}), Machine::host()),
               {{"n", 37}});
    check_runs(default_schedule(Op("many", {Z}, {compute("Y", {i}, Z(i % 5))}), Machine::host()), {{"n", 37}});
}

TEST_CASE("elementwise stages at one place stay in a block of the last one") {
    for (const int n : {70000, 500, 37, 5}) {
        Axis p("p", n), c("c", 3);
        Tensor X = input("X", f32, {p, c});
        Tensor most = compute("most", {p}, max(X(p, 0), X(p, 1), X(p, 2))),
               range = compute("range", {p}, most(p) - min(X(p, 0), X(p, 1), X(p, 2)));
        const std::string nest = checked_nest(Op(
            "hsv", {X},
            {compute("Y", {p, c},
                     select(c == 0, range(p) / max(most(p), 1.f), c == 1, range(p) + most(p), most(p) * range(p)))}));
        CAPTURE(nest);
        if (n >= 500) CHECK(count(nest, "compute most, the part that one p") == 1);
        Axis r("r", 6); // computed once for all rows
        Tensor B = input("B", f32, {p}), e = compute("e", {p}, exp(B(p)) * B(p));
        CHECK(count(checked_nest(Op("rows", {B}, {compute("Y", {r, p}, e(p) * cast(f32, r) + e(p))})),
                    "the part that one") == 0);
    }
}

TEST_CASE("vectors along output positions whose terms have different offsets") {
    for (const int n : {80, 46, 34, 6}) {
        Axis q("q", 12), x("x", n / 2), u("u", n), c("c", 3);
        Tensor X = input("X", f32, {q, x});
        const std::string nest =
            checked_nest(Op("shuffle", {X}, {compute("Y", {u, c}, X(c * 4 + u % 2 * 2, u / 2) * 2.f)}));
        CAPTURE(nest);
        if (n >= 34) CHECK(count(nest, "vectorized u.o.i") == 1);
        checked_nest(Op("other", {X}, {compute("Y", {u, c}, X(c * 4 + u % 2, u / 2) + cast(f32, u % 3))}));
    }
}

TEST_CASE("vectors of rows lie in halves that are read differently, and few of them are copied") {
    for (const int n : {96, 128, 30, 12}) {
        Axis i("i", 13), j("j", n), h("h", n / 2);
        Tensor X = input("X", f32, {i, j}), C = input("C", f32, {i, h});
        Tensor r = compute("r", {i}, sum(X(i, j) * X(i, j), j));
        const Element other = X(i, (j + n / 2) % n);
        const std::string nest = checked_nest(
            Op("rope", {X, C},
               {compute("Y", {i, j},
                        X(i, j) * rsqrt(r(i) + 1.f) + select(j < n / 2, -other, other) * C(i, j % (n / 2)))}));
        CAPTURE(nest);
        // AVX2 has vectors of 8 elements, and halves of 6 have none.
        CHECK((count(nest, "vectorized j.i") == 1) == (n != 12));
    }
    Axis i("i", 13), j("j", 30), k("k", 200);
    Tensor X = input("X", f32, {i, j}), Z = input("Z", f32, {i, k});
    const auto norm = [&](const Tensor &x, const Axis &of) {
        Tensor mean = compute("mean", {i}, sum(x(i, of), of) / 30.f);
        return checked_nest(Op("norm", {x}, {compute("Y", {i, of}, x(i, of) - mean(i))}));
    };
    CHECK(count(norm(X, j), "unrolled j.o in 0..4") == 1);
    CHECK(count(norm(Z, k), "unrolled k.o") == 0);
}
