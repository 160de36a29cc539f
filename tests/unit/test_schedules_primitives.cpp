// Every primitive at run time: the scheduled kernel computes the formula, and a saved schedule
// replays to the same nest. One file, because the cases share ops and checks.
// Links: driver
// Sanitized: --test-case=assume*,*whole*blocks*,*padding*,*copy*
#include "dsl/halide_passes.h"
#include "dsl/padding.h"
#include "ops/matmul.h"
#include "runtime/kumiko_runtime.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"
#include "targets/lower/nest.h"
#include "tests/unit/check_runs.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <set>

using namespace kumiko;

namespace {

Op matmul_any() {
    Size M("M"), N("N"), K("K");
    Axis i("i", M), j("j", N), k("k", K);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
    return Op("matmul", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k))});
}

// Of an op whose result depends on rounding.
void check_within_bounds(const Schedule &s) {
    std::vector<Buffer<>> inputs;
    for (const Input &in : s.op().inputs()) {
        inputs.push_back(make_input(in, {}));
        fill_random(inputs.back(), inputs.size(), -1, 1);
    }
    std::vector<Buffer<>> arguments = inputs;
    for (const std::string &out : s.op().outputs()) {
        arguments.push_back(make_output(s.op(), out, {}));
        fill_unwritten(arguments.back());
    }
    compile(s)(arguments);
    const Bounded expected = interpret_with_bound(s.op(), inputs);
    for (size_t o = 0; o < expected.values.size(); o++)
        CHECK_NOTHROW(check_within(arguments[inputs.size() + o], expected.values[o], expected.bounds[o]));
}

} // namespace

TEST_CASE("the example of each primitive runs") {
    for (const Primitive *p : primitives()) {
        INFO(p->name);
        const Op op = example_op(p->example.op);
        Schedule s(op);
        if (p->name == std::string("tensorize") && !s.machine().has("avx2")) continue;
        const bool exact = std::string(p->example.op) != "softmax" && std::string(p->example.op) != "chain";
        for (const Directive &d : p->example.before) s.apply(d);
        s.apply(p->example.call);
        if (p->details.architecture) { // not for this machine
            CHECK_THROWS_WITH_AS(lower(s), doctest::Contains((std::string(p->name) + " of stage C").c_str()),
                                 Unsupported);
            continue;
        }
        if (exact)
            check_runs(s, op.sizes().empty() ? Sizes{} : Sizes{{"M", 48}});
        else
            check_within_bounds(s);
    }
}

TEST_CASE("assume: tails vanish, and the condition is checked") {
    const Op op = matmul_any();
    Schedule s(op);
    auto C = s.stage("C");
    auto [io, ii] = C.split("i", 14);
    C.reorder({io, "k", ii, "j"}).unroll(ii).vectorize("j", 16);
    const size_t before = body_of(s).size();
    Size M("M"), N("N"), K("K");
    s.assume(M % 14 == 0).assume(N == 64 && K >= 8);
    CHECK(body_of(s).size() < before);
    CHECK(body_of(s).find("if (") == std::string::npos);
    check_runs(s, {{"M", 28}, {"N", 64}, {"K", 9}});
    check_runs(s, {{"M", 0}, {"N", 64}, {"K", 9}});
    CHECK_THROWS_WITH(check_runs(s, {{"M", 27}, {"N", 64}, {"K", 9}}),
                      doctest::Contains("the assumption M % 14 == 0 does not hold"));
    CHECK_THROWS_WITH(s.assume(M == 15), doctest::Contains("can never hold"));
    Schedule fixed(op);
    fixed.assume(M == 4).stage("C").unroll("i");
    check_runs(fixed, {{"M", 4}, {"N", 5}, {"K", 3}});
    Schedule odd(op);
    odd.assume(M % 4 == 1 && M % 6 == 3 && M > 4).stage("C").split("i", 4);
    check_runs(odd, {{"M", 9}, {"N", 5}, {"K", 3}});
    check_runs(odd, {{"M", 21}, {"N", 5}, {"K", 3}});
    Schedule only(op); // no other M than 9
    only.assume(M % 8 == 1 && M >= 4 && M <= 16).stage("C").unroll("i");
    check_runs(only, {{"M", 9}, {"N", 5}, {"K", 3}});
    Schedule joined(op); // N in terms of M, of which more is said later
    joined.assume(M % 8 == 4 && N == M - 3).assume(M % 12 == 0);
    check_runs(joined, {{"M", 12}, {"N", 9}, {"K", 3}});
    check_runs(joined, {{"M", 36}, {"N", 33}, {"K", 3}});
}

TEST_CASE("assume: what a size may be at most is no reason to take as much memory") {
    Axis i("i", Size("N"));
    Tensor X = input("X", i32, {i}), T = compute("T", {i}, X(i) * 3);
    Schedule s(Op("some", {X}, {compute("Y", {i}, T(i) + 1)}));
    Size N("N");
    s.assume(N % 16 == 4);
    std::string extent;
    for (const BufferRow &b : lower(s).buffers) {
        std::ostringstream text;
        text << b.extents.at(0);
        extent += b.name + " " + text.str();
    }
    CHECK(extent == "T ((N/16*16) + 4)");
    check_runs(s, {{"N", 20}});
}

TEST_CASE("specialize: each condition runs its own schedule") {
    const Op op = matmul_any();
    Size M("M"), N("N");
    Schedule s(op);
    auto [io, ii] = s.stage("C").split("i", 14);
    s.stage("C").reorder({io, "k", ii, "j"}).unroll(ii).vectorize("j", 8);
    Schedule one(op);
    one.stage("C").reorder({"i", "k", "j"}).vectorize("j", 8);
    s.specialize(M % 14 == 0).specialize(M == 1 && N >= 8, one);
    const std::string body = body_of(s);
    CHECK(body.find("M % 14") != std::string::npos);
    for (int m : {0, 1, 13, 14, 15, 28}) check_runs(s, {{"M", m}, {"N", 20}, {"K", 7}});
    Schedule back = s;
    back.undo();
    CHECK(back.specializations().size() == 1);
}

TEST_CASE("prefetch and double_buffer change no result") {
    const Op op = matmul_any();
    for (bool split_first : {false, true}) {
        Schedule s(op);
        auto C = s.stage("C");
        auto [ko, ki] = C.split("k", 8);
        auto [jo, ji] = C.split("j", 16);
        if (split_first)
            C.reorder({jo, ko, "i", ki, ji}).vectorize(ji);
        else
            C.reorder({ko, jo, "i", ki, ji});
        s.place_in("B", "L2", "C", ko).double_buffer();
        C.prefetch("A", "i", 2);
        CHECK(body_of(s).find("kumiko.prefetch") != std::string::npos);
        for (int k : {1, 7, 8, 9, 16, 30}) check_runs(s, {{"M", 5}, {"N", 37}, {"K", k}});
        check_runs(s, {{"M", 5}, {"N", 37}, {"K", 0}});
    }
    Schedule two(op);
    auto C = two.stage("C");
    auto [ko, ki] = C.split("k", 8);
    C.reorder({ko, "i", ki, "j"});
    two.place_in("B", "L2", "C", ko).layout({"j/4", "k", "j%4"}).double_buffer();
    two.place_in("A", "L1", "C", ko).double_buffer();
    for (int k : {1, 8, 20}) check_runs(two, {{"M", 6}, {"N", 13}, {"K", k}});
}

TEST_CASE("accumulate_in: lanes beyond a block do not change the next one") {
    for (const auto &[m, block, lanes] : {std::tuple(3, 2, 4), std::tuple(12, 6, 4), std::tuple(20, 6, 4)}) {
        CAPTURE(m);
        Schedule s(ops::matmul(f32, m, 4, 4));
        auto C = s.stage("C");
        C.reorder({"k", "j", "i"}).split("i", block);
        C.split("k", 4);
        C.accumulate_in("registers", "k.o").vectorize("i.i", lanes);
        s.place_in("A", "L2", "C", "k.o"); // whose loads need no predicates
        check_runs(s);
    }
}

TEST_CASE("prefetch: iterations with the same lines share requests round-robin") {
    // The elements of B that are prefetched, in loop order.
    struct Requests : Halide::Internal::IRVisitor {
        std::map<std::string, Expr> at;
        std::vector<int64_t> elements;
        Expr value(const Expr &e) const { return Halide::Internal::simplify(Halide::Internal::substitute(at, e)); }
        using IRVisitor::visit;
        void visit(const Halide::Internal::For *op) override {
            const int64_t min = *Halide::Internal::as_const_int(value(op->min)),
                          extent = *Halide::Internal::as_const_int(value(op->extent));
            for (int64_t i = min; i < min + extent; i++) {
                at[op->name] = static_cast<int>(i);
                op->body.accept(this);
            }
            at.erase(op->name);
        }
        void visit(const Halide::Internal::IfThenElse *op) override {
            if (Halide::Internal::is_const_one(value(op->condition)))
                op->then_case.accept(this);
            else if (op->else_case.defined())
                op->else_case.accept(this);
        }
        void visit(const Halide::Internal::Call *op) override {
            if (op->name == "kumiko.prefetch") elements.push_back(*Halide::Internal::as_const_int(value(op->args[1])));
        }
    };
    using Loops = std::function<void(StageHandle &, const LoopName &)>;
    const auto check = [](int m, const Loops &more, bool early = false) {
        CAPTURE(m);
        Schedule s(ops::matmul(f32, m, 64, 8));
        auto C = s.stage("C");
        auto [io, ii] = C.split("i", 6);
        auto [jo, ji] = C.split("j", 32);
        C.reorder({jo, io, "k", ii, ji}).unroll(ii).vectorize(ji, 16);
        more(C, io);
        C.prefetch("B", "k", 1, "C", jo);
        Requests r;
        lower(s).body.accept(&r);
        // Each of the two blocks of columns prefetches the lines of the second one, two per row.
        std::set<int64_t> expected;
        for (int k = 0; k < 8; k++) expected.insert({64 * k + 32, 64 * k + 48});
        const std::set<int64_t> asked(r.elements.begin(), r.elements.end());
        if (early) // the prefetches of iterations that a loop leaves out
            CHECK(asked.size() >= expected.size() / 2);
        else
            CHECK(asked == expected);
        CHECK(r.elements.size() <= 2 * 32);
        check_runs(s);
        return r.elements.size();
    };
    const Loops none = [](StageHandle &, const LoopName &) {};
    CHECK(check(18, none) == 32); // once by each block
    for (int m : {4, 6, 8, 20}) check(m, none);
    check(24, [](StageHandle &C, const LoopName &io) { C.peel(io, 1, 1); });
    check(18, [](StageHandle &C, const LoopName &io) { C.peel(io, 0, 1); });
    for (int m : {24, 26, 30})
        check(
            m, [](StageHandle &C, const LoopName &io) { C.split(io, 2); }, m > 24);
    check(
        30, [](StageHandle &C, const LoopName &io) { C.split(io, 3); }, true);

    // Nothing to prefetch.
    Schedule empty(ops::matmul(f32, 48, 0, Size("K")));
    empty.stage("C").split("k", 8);
    empty.stage("C").reorder({"k.o", "i", "k.i", "j"}).prefetch("B", "i", 1, "C", "k.o");
    lower(empty);
    Axis x("x", 5), y("y", 5), i("i", 13), o("o", 39);
    Tensor X = input("X", f32, {x, y}), P = zero_padded(X);
    Schedule padding(Op("sums", {X}, {compute("C", {i, o, y}, P(o * 2 - 2, y) + P(o - 1, y))}));
    auto C = padding.stage("C");
    C.vectorize("y", 4).peel("o", 0, 2).reorder({"y.o", "o", "i", "y.v"}).prefetch("X", "i", 1, "C", "o");
    check_runs(padding);
}

TEST_CASE("prepack: the caller packs, the kernel takes the packed array") {
    const Op op = matmul_any();
    Schedule s(op);
    auto C = s.stage("C");
    auto [jo, ji] = C.split("j", 16);
    C.reorder({jo, "i", "k", ji}).vectorize(ji).accumulate_in("registers", "i");
    s.prepack("B", {"j/16", "k", "j%16"}).vectorize("j", 16);
    for (int n : {16, 32, 37, 3}) check_runs(s, {{"M", 5}, {"N", n}, {"K", 7}});
    const Kernel k = compile(s);
    CHECK(k.nest().packs.size() == 1);
    CHECK(k.nest().packs[0].name == "matmul_pack_B");
    Buffer<float> a({5, 7}), b({7, 16}), c({5, 16});
    CHECK_THROWS_WITH(k(a, b, c), doctest::Contains("takes input B packed"));
    CHECK_THROWS_WITH(k.pack("A", a), doctest::Contains("does not prepack \"A\""));
}

TEST_CASE("tensorize: full blocks by the instruction, tails by plain loops") {
    if (!Machine::host().has("avx2")) return;
    for (int n : {64, 60, 8}) {
        for (int depth : {32, 31, 2}) {
            Axis i("i", 10), j("j", n), k("k", depth);
            Tensor A = input("A", i16, {i, k}), B = input("B", i16, {k, j});
            Op op("dot", {A, B}, {compute("C", {i, j}, sum(cast<int32_t>(A(i, k)) * cast<int32_t>(B(k, j)), k))});
            Schedule s(op);
            auto C = s.stage("C");
            auto [jo, ji] = C.split("j", 8);
            auto [ko, ki] = C.split("k", 2);
            auto [io, ii] = C.split("i", 4);
            C.reorder({io, jo, ko, ii, ji, ki}).unroll(ii).accumulate_in("registers", jo);
            s.place_in("B", "L2", "C", io).layout({"j/8", "k/2", "j%8", "k%2"});
            C.tensorize(ji, "avx2.vpmaddwd");
            CHECK(body_of(s).find("kumiko.inst.avx2.vpmaddwd") != std::string::npos);
            check_runs(s);
            const Kernel f = compile(s);
            // If the processor has one, an FMA instruction multiplies and adds to the sum.
            const std::string assembly = f.assembly();
            CHECK((assembly.find("vpmaddwd") != std::string::npos || assembly.find("vpdpwssd") != std::string::npos));
            CHECK(f.warnings().empty());
        }
    }
}

TEST_CASE("vectorize on a loop that reduces: lanes of partial results, joined") {
    for (const char *kind : {"sum", "maximum", "minimum", "argmax"}) {
        for (int n : {3, 16, 100, 128}) {
            Axis i("i", 5), j("j", n);
            Tensor X = input("X", f32, {i, j});
            const std::string k = kind;
            const Expr e = k == "sum"       ? sum(X(i, j), j)
                           : k == "maximum" ? maximum(X(i, j), j)
                           : k == "minimum" ? minimum(X(i, j), j)
                                            : argmax(X(i, j), j);
            Schedule s(Op("rows", {X}, {compute("S", {i}, e)}));
            s.stage("S").parallel("i").vectorize("j", 16);
            check_runs(s);
        }
    }
    Axis j("j", 1000);
    Tensor X = input("X", i32, {j});
    Schedule all(Op("all", {X}, {compute("S", {}, sum(X(j), j))}));
    all.stage("S").vectorize("j", 8);
    check_runs(all);
    Axis a("a", Size("N"));
    Tensor Z = input("Z", i32, {a});
    Schedule any(Op("any", {Z}, {compute("S", {}, sum(Z(a), a))}));
    any.stage("S").vectorize("a", 8);
    for (int n : {0, 1, 8, 100}) check_runs(any, {{"N", n}});
}

TEST_CASE("rounds of a reduction: reloaded on entering or joined on leaving, and fetched ahead") {
    const Op op = matmul_any();
    for (const char *rounds : {"reload", "join"}) {
        for (const bool fetch : {false, true}) {
            Schedule s(op);
            auto C = s.stage("C");
            auto [io, ii] = C.split("i", 3);
            auto [jo, ji] = C.split("j", 16);
            auto [ko, ki] = C.split("k", 8);
            C.reorder({ko, jo, io, ki, ii, ji}).unroll(ii).vectorize(ji, 8);
            C.accumulate_in("registers", io, rounds);
            if (fetch) C.prefetch("C", io, 1);
            for (int k : {1, 8, 9, 30}) check_runs(s, {{"M", 7}, {"N", 37}, {"K", k}});
            check_runs(s, {{"M", 5}, {"N", 16}, {"K", 0}});
        }
    }
    // Positions stay with the values that they belong to.
    Axis i("i", 5), j("j", 30);
    Tensor X = input("X", f32, {i, j});
    Schedule s(Op("rows", {X}, {compute("S", {i}, argmax(X(i, j), j))}));
    auto S = s.stage("S");
    auto [jo, ji] = S.split("j", 8);
    S.reorder({jo, "i", ji}).accumulate_in("registers", "i", "join");
    check_runs(s);
}

TEST_CASE("nested splits: one tail, at the inner blocks") {
    for (int n : {1, 5, 6, 24, 25, 29, 35, 36, 47, 48, 50, 53}) {
        Axis i("i", n), j("j", 20), k("k", 3);
        Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
        Schedule s(Op("matmul", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k))}));
        auto C = s.stage("C");
        auto [ic, it] = C.split("i", 24);
        auto [io, ii] = C.split(it, 6);
        C.reorder({ic, io, "k", ii, "j"}).unroll(ii).parallel(ic).accumulate_in("registers", io);
        INFO(n);
        check_runs(s);
        if (n == 50 || n == 53) {
            const std::string body = body_of(s);
            // all of the rows, in one loop
            CHECK(body.find("parallel (C.i.o, 0, 3)") != std::string::npos);
            size_t loops = 0;
            for (size_t at = 0; (at = body.find("for (C.k", at)) != std::string::npos; at++) loops++;
            CHECK(loops == 2); // six rows, and the remainder
        }
    }
    Schedule any(matmul_any());
    auto C = any.stage("C");
    auto [ic, it] = C.split("i", 24);
    auto [io, ii] = C.split(it, 6);
    auto [jo, ji] = C.split("j", 8);
    C.reorder({ic, jo, io, "k", ii, ji}).unroll(ii).vectorize(ji).parallel(ic).accumulate_in("registers", io);
    for (int m : {1, 6, 24, 29, 48, 50}) check_runs(any, {{"M", m}, {"N", 7}, {"K", 3}});
}

TEST_CASE("a parallel loop of whole blocks runs the rest as one of its iterations") {
    Axis i("i", 50), j("j", 20);
    Tensor X = input("X", f32, {i, j});
    Schedule s(Op("twice", {X}, {compute("Y", {i, j}, X(i, j) * 2.f)}));
    auto Y = s.stage("Y");
    auto [io, ii] = Y.split("i", 16);
    Y.parallel(io).unroll(ii);
    check_runs(s);
    const std::string body = body_of(s);
    CHECK(body.find("parallel (Y.i.o, 0, 4)") != std::string::npos);
    CHECK(body.find("Y.i.o < 3") != std::string::npos);
}

TEST_CASE("a nest shows stages in the order in which they run") {
    Axis i("i", 16), k("k", 16), n("n", 16);
    Tensor A = input("A", f32, {i, k});
    Tensor total = compute("total", {i}, sum(A(i, k), {k})),
           squares = compute("squares", {i}, sum(A(i, n) * A(i, n), {n}));
    Schedule s(Op("ratio", {A}, {compute("Y", {i}, total(i) / squares(i))}));
    s.stage("total").finish_in("Y");
    check_runs(s);
    const std::string nest = s.nest();
    CHECK(nest.find("compute squares") < nest.find("compute total"));
    CHECK(nest.find("compute total") < nest.find("at the end: Y"));
    const std::string body = body_of(s);
    CHECK(body.find("for (squares") < body.find("for (total"));
}

TEST_CASE("halves of a vector that unrolled copies store are one store") {
    Axis i("i", 4), j("j", 32);
    Tensor x = input("x", f32, {i, j});
    Schedule s(Op("halves", {x}, {compute("y", {i, j}, cast(bf16, x(i, j) * 2.f))}), Machine::named("x86-64-avx2"));
    s.stage("y").split("j", 8);
    s.stage("y").reorder({"j.o", "i", "j.i"}).vectorize("j.i").unroll("i").unroll("j.o");
    check_runs(s);
    const std::string body = body_of(s);
    CHECK(body.find("y[ramp(0, 1, 16)]") != std::string::npos);
    CHECK(body.find("y[ramp(112, 1, 16)]") != std::string::npos);
    CHECK(body.find(", 1, 8)] =") == std::string::npos);
}

TEST_CASE("a workspace of each iteration of a serial loop is allocated once") {
    Schedule s(ops::matmul(Float(32), 3, 64, 4096)); // too large for the stack
    s.stage("C").split("j", 8);
    s.stage("C").reorder({"j.o", "i", "k", "j.i"});
    s.place_in("B", "L2", "C", "j.o");
    check_runs(s);
    const std::string body = body_of(s);
    CHECK(body.find("allocate") < body.find("for ("));
    s.stage("C").parallel("j.o"); // one for each thread
    check_runs(s);
    const std::string shared = body_of(s);
    CHECK(shared.find("allocate") > shared.find("parallel ("));
}

TEST_CASE("a tail that moves inwards repeats whole sums") {
    for (const auto &[m, n] : {std::pair(21, 50), std::pair(8, 16), std::pair(5, 17), std::pair(9, 15)}) {
        Schedule s(ops::matmul(Float(32), m, n, 11, {.bias = true}));
        s.stage("C.sum").split("i", 8, {.tail = Tail::Shift});
        s.stage("C.sum").split("j", 16, {.tail = Tail::Shift});
        s.stage("C.sum").reorder({"j.o", "i.o", "k", "i.i", "j.i"}).vectorize("j.i").unroll("i.i");
        check_runs(s);
        s.stage("C.sum").finish_in("C");
        check_runs(s);
    }
    Schedule s(ops::matmul(Float(32), 21, 50, 11));
    StageHandle C = s.stage("C");
    C.split("i", 8, {.tail = Tail::Shift});
    CHECK_THROWS_WITH(C.reorder({"k", "i.o", "i.i", "j"}),
                      doctest::Contains("the sums of C begin outside of loop i.o"));
    CHECK_THROWS_WITH(C.parallel("i.o"), doctest::Contains("loop i.o is parallel"));
    CHECK_THROWS_WITH(C.split("k", 4, {.tail = Tail::Shift}), doctest::Contains("twice"));
    Schedule rounds(ops::matmul(Float(32), 21, 50, 11));
    StageHandle R = rounds.stage("C");
    R.split("j", 25);
    R.split("i", 8, {.tail = Tail::Shift});
    R.reorder({"j.o", "i.o", "i.i", "j.i", "k"});
    CHECK_THROWS_WITH(R.accumulate_in("L1", "j.o"), doctest::Contains("the sums of C begin outside of loop i.o"));
    R.accumulate_in("L1", "i.o");
    check_runs(rounds);
}

TEST_CASE("lanes beyond a tail do not read beyond what another reader needs") {
    Axis i("i", 20);
    Tensor X = input("X", i32, {i});
    Tensor P = compute("P", {i}, X(i) * 3), Q = compute("Q", {i}, P(i) + 1);
    Schedule s(Op("two", {X}, {compute("Y", {i}, P(i) + Q(i))}));
    auto [io, ii] = s.stage("Y").split("i", 5);
    s.stage("Q").compute_at("Y", io).vectorize("i", 8);
    s.stage("P").compute_at("Y", io);
    check_runs(s);
}

TEST_CASE("lanes that read at data-dependent indices") {
    Axis i("i", 21), a("a", 7);
    Tensor X = input("X", i32, {a}), I = input("I", i32, {i});
    const Op op("where", {X, I}, {compute("Y", {i}, X(max(min(I(i), 6), 0)))});
    Schedule s(op);
    s.stage("Y").vectorize("i", 8);
    check_runs(s);
}

TEST_CASE("lanes that reduce into storage with a padded tail") {
    Axis i("i", 12), j("j", 16);
    Tensor X = input("X", i32, {i, j});
    for (const bool most : {false, true}) {
        Tensor S = compute("S", {i}, most ? maximum(X(i, j), j) : sum(X(i, j), j));
        Schedule s(Op("padded", {X}, {compute("Y", {i}, S(i) * 2)}));
        s.stage("S").split("i", 5, {.tail = Tail::Pad});
        s.stage("S").vectorize("j", 8);
        check_runs(s);
    }
}

TEST_CASE("a whole loop of lanes that reduces, split so that its last vector is not full") {
    for (int n : {9, 33, 36}) {
        for (const Type t : {i32, f32, bf16}) {
            Axis i("i", 5), j("j", n);
            Tensor X = input("X", t, {i, j});
            Tensor S = compute("S", {i}, sum(X(i, j), j)), P = compute("P", {i}, product(X(i, j), j));
            Tensor M = compute("M", {i}, maximum(X(i, j), j)), L = compute("L", {i}, minimum(X(i, j), j));
            Schedule s(Op("joined", {X}, {S, P, M, L}));
            for (const char *stage : {"S", "P", "M", "L"}) {
                if (t != i32 && stage[0] == 'P') continue; // products of so many are not exact
                s.stage(stage).split("j", 8);
                s.stage(stage).vectorize("j.i", 8);
            }
            check_runs(s);
        }
    }
}

TEST_CASE("blocks of blocks: the outer blocks may stand inside the inner ones") {
    Axis i("i", 12), j("j", 5);
    Tensor X = input("X", i32, {i, j});
    Schedule s(Op("inside_out", {X}, {compute("Y", {i, j}, X(i, j) * 2)}));
    s.stage("Y").split("i", 8);
    s.stage("Y").reorder({"i.i", "i.o", "j"});
    s.stage("Y").unroll("i.i", 8);
    check_runs(s);
}

TEST_CASE("copies of strided and dilated reads hold only elements that are read") {
    Axis y("y", 11), x("x", 13), k("k", 3);
    Tensor X = input("X", i32, {Axis("h", 40), Axis("w", 40)}), W = input("W", i32, {Axis("p", 3)});
    const auto copied = [&](const Expr &row, const Expr &column, const char *at) {
        Schedule s(Op("strided", {X, W}, {compute("Y", {y, x}, sum(X(row, column) * W(k), k))}));
        s.stage("Y").split("x", 4);
        s.stage("Y").reorder({"y", "x.o", "k", "x.i"});
        s.place_in("X", "L1", "Y", at);
        s.stage("X.L1").vectorize("w", 4);
        check_runs(s);
        const std::string body = body_of(s), from = "allocate X.L1[";
        const size_t start = body.find(from) + from.size();
        return body.substr(start, body.find(']') - start);
    };
    CHECK(copied(y * 2 + 1, x * 3, "x.o") == "int32 * 1 * 4");     // every third of ten columns
    CHECK(copied(y + k * 2, x, "y") == "int32 * 3 * 16");          // three of five rows
    CHECK(copied(y, x * 2 + k, "x.o") == "int32 * 1 * 9");         // the lattice is dense
    CHECK(copied(y * 2 + 1, 38 - x * 2, "y") == "int32 * 1 * 16"); // backwards
    CHECK(copied(y, x * 4 - x * 2, "x.o") == "int32 * 1 * 4");     // the variable occurs twice
    CHECK(copied(y * 2, (x * 2) % 20, "y") == "int32 * 1 * 19");   // no lattice is known
}

TEST_CASE("padding computed where it is read is tested at the border only") {
    const auto selects = [](const std::string &body) {
        size_t n = 0;
        for (size_t at = body.find("select("); at != std::string::npos; at = body.find("select(", at + 1)) n++;
        return n;
    };
    for (const bool any : {false, true}) {
        const Expr n = any ? Expr(Size("N")) : Expr(12);
        Axis y("y", n), x("x", 32), k("k", 3), l("l", 3);
        Tensor X = input("X", i32, {Axis("h", n), Axis("w", 32)});
        Tensor P = zero_padded(X);
        Schedule s(Op("stencil", {X}, {compute("Y", {y, x}, sum(P(y + k - 1, x + l * 2 - 2), {k, l}))}));
        s.stage("Y").split("x", 8);
        s.stage("Y").reorder({"y", "x.o", "k", "l", "x.i"}).vectorize("x.i", 8);
        CHECK(selects(body_of(s)) ==
              // first and last vector of the first row, the last one and those between; none inside
              6);
        for (int rows : {12, 2, 1, 0}) {
            if (any || rows == 12) check_runs(s, {{"N", rows}});
        }
        s.stage("Y").parallel("y");
        for (int rows : {12, 2, 1, 0}) {
            if (any || rows == 12) check_runs(s, {{"N", rows}});
        }
    }
    // A condition that is evaluated in several loops must hold in all of them.
    Axis i("i", 9), r("r", 5);
    Tensor X = input("X", i32, {Axis("a", 20)});
    Tensor P = zero_padded(X);
    Schedule s(Op("peeled", {X}, {compute("Y", {i}, sum(P(i * 2 + r * 2), r))}));
    s.stage("Y").peel("r", 2, 2);
    check_runs(s);
}

TEST_CASE("requirements on sizes for in-bounds reads are checked on entry") {
    Size M("M"), N("N");
    Axis m("m", M), n("n", N);
    Tensor X = input("X", i32, {n});
    const Schedule s(Op("shifted", {X}, {compute("Y", {m}, X(m + 1))}));
    check_runs(s, {{"M", 4}, {"N", 5}});
    check_runs(s, {{"M", 0}, {"N", 0}});
    const Kernel k = compile(s);
    CHECK_THROWS_WITH_AS(k(Buffer<int>({5}), Buffer<int>({5})),
                         doctest::Contains("M < N (stage Y reads X at m + 1 of axis n)"), UserError);
}

TEST_CASE("a size and a tensor of one name, also inside parallel loops") {
    Size A("A"), B("B"), C("C");
    Axis i("i", A), j("j", B), k("k", C);
    Tensor a = input("A", i32, {i, k}), b = input("B", i32, {k, j});
    Schedule s(Op("named", {a, b}, {compute("C", {i, j}, sum(a(i, k) * b(k, j), k))}));
    s.stage("C").reorder({"i", "k", "j"}).parallel("i").vectorize("j", 4);
    check_runs(s, {{"A", 5}, {"B", 6}, {"C", 7}});
}

TEST_CASE("outputs and inputs without elements") {
    for (const auto &[m, n] : {std::pair(0, 3), std::pair(3, 0)}) {
        Axis i("i", m), j("j", n), k("k", 4);
        Tensor X = input("X", i32, {i, k}), Z = input("Z", i32, {k, j});
        check_runs(Schedule(Op("none", {X, Z}, {compute("Y", {i, j}, sum(X(i, k) * Z(k, j), k))})));
    }
}

TEST_CASE("lanes of which none runs read nothing, not even what all would share") {
    Axis i("i", 3), j("j", 31);
    Tensor X = input("X", i32, {Axis("a", 2), Axis("b", 31)});
    Schedule s(Op("shared", {X}, {compute("Y", {j, i}, X(i / 2, j))}));
    s.stage("Y").tile({"i"}, {32});
    s.stage("Y").tile({"i.i"}, {4});
    s.stage("Y").fuse("i.o", "i.i.o", "f");
    s.stage("Y").vectorize("i.i.i", 2, Tail::Shift);
    check_runs(s); // the verifier finds no load outside
}

TEST_CASE("a copy of nothing, where rounds of a reduction end") {
    Size M("M"), N("N");
    Axis i("i", M), k("k", N);
    Tensor A = input("A", i32, {i, k}), B = input("B", i32, {i, k});
    Schedule s(Op("rounds", {A, B}, {compute("Y", {i}, sum(A(i, k) * B(i, k), k))}));
    s.stage("Y").interleave("k", 6);
    s.place_in("A", "L1", "Y.rf", "k_n");
    s.stage("A.L1").vectorize(s.op().inputs()[0].axes[1].name(), 8);
    for (int n : {1, 2, 7, 12}) check_runs(s, {{"M", 7}, {"N", n}});
}

TEST_CASE("lanes that a constant part of their mask switches off, nine of them") {
    Axis i("i", 5), r("r", 9);
    Tensor A = input("A", i64, {Axis("a", 5), Axis("b", 2)}), B = input("B", i64, {Axis("c", 5), Axis("d", 9)});
    Schedule s(Op("masks", {A, B}, {compute("Y", {i}, sum(zero_padded(A)(i - 1, r - 1) * B(i, r), r))}));
    s.stage("Y").vectorize("r");
    check_runs(s);
}

TEST_CASE("padding of some axes reads nothing beyond the others") {
    Axis y("y", 4), c("c", 6);
    Tensor X = input("X", i32, {Axis("h", 4), Axis("d", 6)});
    Schedule s(Op("some", {X}, {compute("Y", {y, c}, zero_padded(X, {X.axes()[0]})(y - 1, c) * 2)}));
    s.stage("X.padded").compute_root().vectorize("d", 8);
    s.stage("Y").vectorize("c", 8);
    check_runs(s); // and the verifier finds every load inside
}

TEST_CASE("a stage that a finished consumer reads, computed at the same place") {
    Axis i("i", 10), k("k", 6);
    Tensor X = input("X", i32, {i, k}), Z = input("Z", i32, {i});
    Tensor B = compute("B", {i}, Z(i) * 2);
    Tensor R = compute("R", {i}, sum(X(i, k), k));
    Tensor S = compute("S", {i}, R(i) + B(9 - i));
    Schedule s(Op("three", {X, Z}, {compute("Y", {i}, S(i) - S(9 - i))}));
    s.stage("R").finish_in("S");
    s.stage("S").compute_at("Y", "i");
    s.stage("B").compute_at("Y", "i");
    check_runs(s);
}

TEST_CASE("a stage of which nothing is read, since its reader has nothing to fold") {
    for (const bool symbolic : {false, true}) {
        Axis i("i", 5), r("r", 9), none("none", symbolic ? Expr(Size("N")) : Expr(0)), a("a", 6), b("b", 7);
        Tensor X = input("X", i32, {a, b}), Z = input("Z", i32, {none});
        Tensor C = compute("C", {a, b}, X(a, b) + 1);
        const Expr e = sum(C(i, max(min(none * 2 + i, 6), 0)) * r * Z(none), {r, none});
        Schedule s(Op("nothing", {X, Z}, {compute("Y", {i}, e)}));
        s.stage("C").compute_at("Y", "i");
        check_runs(s, symbolic ? Sizes{{"N", 0}} : Sizes{});
    }
    Axis i("i", 5), none("none", 0), a("a", 6), b("b", 7);
    Tensor X = clamped(input("X", i32, {a, b}));
    Schedule s(Op("clamped", {input("X", i32, {a, b})}, {compute("Y", {i}, sum(X(i, none * 2 - 1 + i), none))}));
    s.stage("X.clamped").compute_at("Y", "i");
    check_runs(s);
}

TEST_CASE("the last round of a reduction, where an inner block is cut unevenly") {
    Axis i("i", 3), k("k", 15);
    Tensor X = input("X", i32, {i, k}), Z = input("Z", i32, {i});
    Tensor R = compute("R", {i}, sum(X(i, k), k));
    for (const int outer : {2, 6, 7}) {
        for (const int inner : {3, 4, 10}) {
            Schedule s(Op("bias", {X, Z}, {compute("Y", {i}, R(i) + Z(i))}));
            s.stage("R").finish_in("Y");
            s.stage("R").split("k", outer);
            s.stage("R").split("k.i", inner);
            s.accumulate_in("R", "registers", "k.o");
            check_runs(s);
            if (inner < outer) { // two loops outside, of which the inner one may go too far
                Schedule t(s.op());
                t.stage("R").finish_in("Y");
                t.stage("R").split("k", outer);
                t.stage("R").split("k.i", inner);
                t.accumulate_in("R", "L1", "k.i.o");
                check_runs(t);
            }
        }
    }
}

TEST_CASE("a copy of a tensor that inlining leaves unread") {
    Axis i("i", 6), j("j", 4), a("a", 9);
    Tensor X = input("X", i32, {i}), I = input("I", i32, {a});
    Tensor T = compute("T", {i, j}, X(i));
    for (const bool twice : {false, true}) {
        Schedule s(Op("unread", {X, I}, {compute("Y", {i}, T(i, max(min(I(i), 3), 0)))}));
        s.stage("T").inline_into();
        auto copy = s.place_in("I", "L1", "Y", "i");
        if (twice) copy.double_buffer();
        check_runs(s);
    }
}

TEST_CASE("null arrays of pointers and sizes are an error") {
    Axis i("i", Size("N"));
    Tensor A = input("A", f32, {i});
    const Op op("twice", {A}, {compute("C", {i}, A(i) * 2.f)});
    std::vector<float> a(5, 1), c(5);
    std::vector<void *> tensors = {a.data(), c.data()};
    const int64_t size = 5;
    for (const bool through_halide : {false, true}) {
        CompileOptions options;
        options.through_halide = through_halide;
        const Kernel k = compile(Schedule(op), Target::host(), options);
        CHECK(k.call_raw(tensors.data(), &size) == 0);
        CHECK(k.call_raw(nullptr, &size) == KUMIKO_NULL_POINTER);
        CHECK(std::string(kumiko_error()).find("the array of tensors is a null pointer") != std::string::npos);
        CHECK(k.call_raw(tensors.data(), nullptr) == KUMIKO_NULL_POINTER);
        CHECK(std::string(kumiko_error()).find("the array of sizes is a null pointer") != std::string::npos);
    }
}

TEST_CASE("sizes that no array tells are given by name") {
    Axis i("i", Size("N"));
    Tensor A = input("A", i32, {i});
    const Op op("add", {A}, {compute("C", {i}, A(i) + Size("by"))});
    const Kernel k = compile(Schedule(op));
    Buffer<int32_t> a({5}), c({5});
    a.fill(2);
    const std::vector<Buffer<>> arrays = {a, c};
    k(arrays, {{"by", 7}});
    CHECK(c(4) == 9);
    k(arrays, {{"by", INT32_MAX - 2}, {"N", 5}});
    CHECK(c(4) == INT32_MAX);
    CHECK(refusal([&] { k(arrays); }) == "op \"add\": no buffer determines the size by; pass it by name");
    CHECK(refusal([&] { k(arrays, {{"by", 7}, {"M", 7}}); }) == "op \"add\" has no size M");
    CHECK(refusal([&] { k(arrays, {{"by", 7}, {"N", 6}}); }) != "no error");
    const Op fixed("fixed", {input("A", i32, {Axis("i", 5)})}, {compute("C", {Axis("i", 5)}, Expr(1))});
    CHECK(refusal([&] { compile(Schedule(fixed))(arrays, {{"N", 5}}); }) == "op \"fixed\" has no size N");
}

TEST_CASE("extents made of sizes are checked on entry") {
    Size M("M"), N("N");
    Axis i("i", M), j("j", N), k("k", M - 5), l("l", M * M);
    float a = 0, c = 0;
    void *tensors[] = {&a, &c};
    const auto told = [&](const Schedule &s, std::vector<int64_t> sizes) {
        CHECK(compile(s).call_raw(tensors, sizes.data()) == KUMIKO_BAD_SIZE);
        return std::string(kumiko_error());
    };
    Tensor A = input("A", f32, {i, j}), K = input("K", f32, {k}), L = input("L", f32, {l});
    Schedule fused(Op("fused", {A}, {compute("C", {i, j}, A(i, j) + 1.f)}));
    fused.stage("C").fuse("i", "j");
    CHECK(told(fused, {65536, 65536}).find(" is larger than 2147483647") != std::string::npos);
    CHECK(told(Schedule(Op("square", {L}, {compute("C", {l}, L(l) + 1.f)})), {65536}) ==
          "square: M * M is larger than 2147483647, the most that loops count in 32 bits");
    CHECK(told(Schedule(Op("short", {K}, {compute("C", {k}, K(k) + 1.f)})), {2}) ==
          "short: the extent M + -5 of tensor K is outside [0, 2147483647]");
    Axis m("m", M);
    Tensor X = input("X", f32, {m});
    Schedule blocks(Op("blocks", {X}, {compute("C", {m}, X(m) + 1.f)}));
    blocks.stage("C").split("m", 64);
    blocks.stage("C").parallel("m.o");
    CHECK(told(blocks, {INT32_MAX - 5}) ==
          "blocks: size M is larger than 2147483584, the most for which M + 63 fits the 32 bits that loops count in");
}

TEST_CASE("outputs whose strides put elements in one place are refused") {
    Axis i("i", 20), j("j", 20);
    Tensor A = input("A", f32, {i, j});
    const Op one("one", {A}, {compute("C", {i, j}, Expr(A(i, j)), ComputeOptions{.strides = {1, 1}})});
    CHECK_THROWS_WITH(compile(Schedule(one)), doctest::Contains("put different elements in one place"));
    Size ld("ld");
    const Op any("any", {A}, {compute("C", {i, j}, Expr(A(i, j)), ComputeOptions{.strides = {ld, 1}})});
    const Kernel k = compile(Schedule(any));
    std::vector<float> a(400, 1), c(20 * 24);
    std::vector<void *> tensors = {a.data(), c.data()};
    int64_t size = 24;
    CHECK(k.call_raw(tensors.data(), &size) == 0);
    size = 19;
    CHECK(k.call_raw(tensors.data(), &size) != 0);
    CHECK(std::string(kumiko_error()).find("put different elements in one place") != std::string::npos);
    Axis b("b", 2);
    Tensor B = input("B", f32, {b, i, j});
    const Op batches("batches", {B},
                     {compute("C", {b, i, j}, Expr(B(b, i, j)), ComputeOptions{.strides = {ld * 20, ld, 1}})});
    const Kernel three = compile(Schedule(batches));
    std::vector<float> in(800, 1), out(2 * 20 * 24);
    tensors = {in.data(), out.data()};
    for (const auto &[step, fits] :
         {std::pair(24, true), std::pair(20, true), std::pair(19, false), std::pair(1, false), std::pair(0, false)}) {
        CAPTURE(step);
        size = step;
        CHECK((three.call_raw(tensors.data(), &size) == 0) == fits);
    }
}

TEST_CASE("a padded read that is inside for a few iterations of one loop only") {
    Axis i("i", 6), j("j", 19), p("p", 19), q("q", 1);
    Tensor A = input("A", f32, {p, q});
    Schedule s(Op("skewed", {A}, {compute("Y", {i, j}, zero_padded(A)(18 - j, (i - 1) * 2 + j))}));
    check_runs(s);
}

TEST_CASE("excessive unrolling is refused") {
    Axis i("i", 40), j("j", 40), k("k", 40);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
    Schedule s(Op("matmul", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k))}));
    s.stage("C").unroll("k").unroll("j").unroll("i");
    CHECK_THROWS_WITH_AS(compile(s), doctest::Contains("loop C.i unrolls"), UserError);
}
