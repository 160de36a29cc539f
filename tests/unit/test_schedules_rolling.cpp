// Stages in rings of planes: kept at one loop, and computed at a serial one directly inside it,
// plane by plane.
// Links: driver
#include "dsl/math.h"
#include "dsl/scatter.h"
#include "machine/machine.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/count.h"

using namespace kumiko;

namespace {

// `steps` sums of three neighbours along both axes, each with two rows and columns less.
Op stencils(const Expr &H, const Expr &W, int steps) {
    Tensor T = input("X", i32, {Axis("y", H), Axis("x", W)});
    const Tensor X = T;
    for (int n = 1; n <= steps; n++) {
        const std::string name = n == steps ? "Y" : "T" + std::to_string(n);
        Axis y("y", H - 2 * n), x("x", W - 2 * n);
        T = compute(name, {y, x}, T(y, x + 1) + T(y + 1, x) + T(y + 1, x + 1) * 2 + T(y + 1, x + 2) + T(y + 2, x + 1));
    }
    return Op("stencils", {X}, {T});
}

// The same with zeros around, so that all results have the size of X.
Op bordered(const Expr &H, const Expr &W, int steps) {
    Axis y("y", H), x("x", W);
    const Tensor X = input("X", i32, {y, x});
    Tensor T = X;
    for (int n = 1; n <= steps; n++) {
        const Tensor P = zero_padded(T);
        const std::string name = n == steps ? "Y" : "T" + std::to_string(n);
        T = compute(name, {y, x}, P(y - 1, x) + P(y, x - 1) - P(y, x) * 2 + P(y, x + 1) + P(y + 1, x));
    }
    return Op("bordered", {X}, {T});
}

// Stores the stages at loop `kept` of Y and computes them at `at`, consumers first.
void roll(Schedule &s, const std::vector<std::string> &stages, const LoopName &kept, const LoopName &at) {
    for (auto name = stages.rbegin(); name != stages.rend(); ++name)
        s.stage(*name).store_at("Y", kept).compute_at("Y", at);
}

int64_t planes_of(const Schedule &s, const std::string &stage, size_t axis = 0) {
    for (const BufferRow &b : lower(s).buffers) {
        if (b.name == stage) return *Halide::Internal::as_const_int(b.extents[axis]);
    }
    return -1;
}

std::string told(const std::function<void()> &f) { return refusal(f); }

} // namespace

TEST_CASE("each iteration computes one plane, and the circular buffer holds those that it reads") {
    for (const int block : {1, 7, 100}) {
        Schedule s(stencils(23, 37, 3));
        auto [o, i] = s.stage("Y").split("x", block == 100 ? 31 : 8);
        s.stage("Y").reorder({o, "y", i});
        roll(s, {"T1", "T2"}, o, "y");
        for (const char *name : {"T1", "T2", "Y"})
            s.stage(name).vectorize(name == std::string("Y") ? i : LoopName("x"), 8);
        if (block == 7) s.stage("Y").parallel(o);
        check_runs(s);
        CHECK_EQ(planes_of(s, "T1"), 3);
        CHECK_EQ(planes_of(s, "T2"), 3);
    }
}

TEST_CASE("as many elements are computed as there are") {
    // One store to T1 for each element: the loops of T1 run before the first plane of Y, and
    // inside.
    Schedule s(stencils(12, 10, 2));
    auto [o, i] = s.stage("Y").split("x", 8);
    s.stage("Y").reorder({o, "y", i});
    roll(s, {"T1"}, o, "y");
    struct Count : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        int64_t around = 1, stores = 0;
        void visit(const Halide::Internal::For *op) override {
            const auto n = Halide::Internal::as_const_int(op->extent);
            REQUIRE(n);
            around *= *n;
            op->body.accept(this);
            around /= *n;
        }
        void visit(const Halide::Internal::Store *op) override { stores += op->name == "T1" ? around : 0; }
    } counted;
    lower(s).body.accept(&counted);
    CHECK_EQ(counted.stores, 10 * 8);
}

TEST_CASE("padding rolls with its border") {
    for (const int threads : {1, 3}) {
        for (const int strip : {1, 4, 5, 19}) {
            Schedule s(bordered(19, 21, 4));
            auto [o, i] = s.stage("Y").split("x", strip);
            s.stage("Y").reorder({o, "y", i});
            if (threads > 1) s.stage("Y").parallel(o);
            for (int n = 3; n >= 1; n--) {
                const std::string T = "T" + std::to_string(n);
                s.stage(T).inline_into();
                s.stage(T + ".padded").store_at("Y", o).compute_at("Y", "y");
                s.stage(T + ".padded").vectorize("x", 4);
            }
            check_runs(s);
            for (const char *T : {"T1", "T2", "T3"}) CHECK_EQ(planes_of(s, std::string(T) + ".padded"), 3);
        }
    }
}

TEST_CASE("steps of several planes, and windows of reductions") {
    Axis y("y", 31), x("x", 33), v("v", 14), u("u", 14), i("i", 3), j("j", 3), c("c", 4), k("k", 4);
    Tensor X = input("X", i32, {c, y, x}), F = input("F", i32, {k, c, i, j});
    Axis yc("y", 29), xc("x", 31);
    Tensor T = compute("T", {k, yc, xc}, max(sum(X(c, yc + i, xc + j) * F(k, c, i, j), {c, i, j}), 0));
    Tensor Y = compute("Y", {k, v, u}, maximum(T(k, 2 * v + i, 2 * u + j), {i, j}));
    const Op op("pooled", {X, F}, {Y});
    for (const int width : {3, 14}) {
        Schedule s(op);
        auto [o, p] = s.stage("Y").split("u", width);
        s.stage("Y").reorder({"k", o, "v", p});
        s.stage("T").store_at("Y", o).compute_at("Y", "v");
        check_runs(s);
        CHECK_EQ(planes_of(s, "T", 1), 3);
    }
    // Two rows of results per iteration, which need five rows and compute four new ones.
    Schedule s(op);
    auto [o, p] = s.stage("Y").split("v", 2);
    s.stage("Y").reorder({"k", o, p, "u"});
    s.stage("T").store_at("Y", "k").compute_at("Y", o);
    s.stage("T").vectorize("x", 8);
    check_runs(s);
    CHECK_EQ(planes_of(s, "T", 1), 5);
}

TEST_CASE("sizes that are not known, and no elements at all") {
    const Op op = bordered(Size("H"), Size("W"), 3);
    for (const bool strips : {false, true}) {
        Schedule s(op);
        auto [o, i] = strips ? s.stage("Y").split("x", 8) : s.stage("Y").split("y", 4);
        if (strips) s.stage("Y").reorder({o, "y", i});
        roll(s, {"T1.padded", "T2.padded"}, o, strips ? LoopName("y") : i);
        for (const char *T : {"T1", "T2"}) s.stage(T).inline_into();
        for (const auto &[H, W] : {std::pair(1, 1), {2, 9}, {17, 23}, {4, 64}}) check_runs(s, {{"H", H}, {"W", W}});
    }
    Schedule s(stencils(Size("H"), Size("W"), 2));
    auto [o, i] = s.stage("Y").split("x", 8);
    s.stage("Y").reorder({o, "y", i});
    roll(s, {"T1"}, o, "y");
    for (const auto &[H, W] : {std::pair(4, 9), {5, 5}, {20, 30}}) check_runs(s, {{"H", H}, {"W", W}});
}

TEST_CASE("nested circular buffers, in a loop with a partial last block, and loops of one iteration") {
    for (const int rows : {1, 4, 9}) {
        Schedule s(stencils(24, 41, 3)); // Y has 18 rows and 35 columns
        auto [xo, xi] = s.stage("Y").split("x", 8);
        auto [yo, yi] = s.stage("Y").split("y", rows == 4 ? 3 : rows);
        s.stage("Y").reorder({xo, yo, yi, xi}).vectorize(xi);
        s.stage("T2").store_at("Y", yo).compute_at("Y", yi);
        s.stage("T1").store_at("Y", xo).compute_at("Y", yo);
        check_runs(s);
    }
    Schedule s(bordered(1, 30, 2));
    auto [o, i] = s.stage("Y").split("x", 8);
    s.stage("Y").reorder({o, "y", i});
    s.stage("T1.padded").store_at("Y", o).compute_at("Y", "y");
    check_runs(s);
}

TEST_CASE("a stage that is filled ahead reads no ring") {
    Schedule s(stencils(23, 37, 3));
    auto [o, i] = s.stage("Y").split("x", 8);
    s.stage("Y").reorder({o, "y", i});
    s.stage("T1").store_at("Y", o);
    s.stage("T2").compute_at("Y", "y");
    s.stage("T1").compute_at("Y", "y");
    CHECK(says(told([&] { s.stage("T2").double_buffer(); }), "it reads T1, which is computed in the same loop y"));
}

TEST_CASE("the nest has the elements that an iteration reads first") {
    Schedule s(stencils(23, 37, 2));
    auto [o, i] = s.stage("Y").split("x", 8);
    s.stage("Y").reorder({o, "y", i});
    roll(s, {"T1"}, o, "y");
    CHECK(count(s.nest(), "keep T1, the part that one y needs") == 1);
    CHECK(count(s.nest(), "compute T1, the part that is new in one y") == 1);
}

TEST_CASE("stages that cannot have a circular buffer are refused, never recomputed") {
    const Op op = stencils(23, 37, 3);
    const auto schedule = [&](const std::vector<LoopName> &order) {
        Schedule s(op);
        s.stage("Y").split("x", 8);
        s.stage("Y").reorder(order);
        return s;
    };
    {
        Schedule s = schedule({"x.o", "y", "x.i"});
        s.stage("T2").store_at("Y", "x.o");
        CHECK(says(told([&] { s.stage("T2").compute_at("Y", "x.i"); }),
                   "loop x.i of Y is not directly inside of x.o, where T2 is stored"));
        s.stage("Y").parallel("y");
        CHECK(says(told([&] { s.stage("T2").compute_at("Y", "y"); }), "loop y of Y is parallel"));
    }
    {
        Schedule s = schedule({"x.o", "y", "x.i"});
        s.stage("T2").store_at("Y", "x.o").compute_at("Y", "y");
        CHECK(says(told([&] { s.stage("Y").parallel("y"); }), "loop y of Y is parallel"));
        s.stage("T2").split("y", 2);
        CHECK(says(told([&] { lower(s); }), "its loop y is split or fused"));
    }
    {
        Schedule s = schedule({"x.o", "y", "x.i"});
        s.stage("T2").store_at("Y", "x.o").compute_at("Y", "y");
        CHECK(says(told([&] { s.stage("T1").compute_at("Y", "y"); }), "T1, which it reads, is recomputed in each"));
    }
    {
        Axis b("b", 1), y("y", 20), v("v", 18), x("x", 30);
        Tensor X = input("X", i32, {y, x}), T = compute("T", {y, x}, X(y, x) * 3 + 1);
        Tensor A = compute("A", {b, v, x}, T(v, x) + T(v + 2, x)), B = compute("B", {b, v, x}, X(v, x) * 2);
        Schedule s(Op("two", {X}, {A, B}));
        s.stage("T").store_at("A", "b").compute_at("A", "v");
        CHECK(says(told([&] { s.stage("B").compute_with("A", "v"); }), "stage A has T in a circular buffer"));
        s.stage("T").compute_root();
        s.stage("B").compute_with("A", "v");
        s.stage("T").store_at("A", "b");
        CHECK(says(told([&] { s.stage("T").compute_at("A", "v"); }), "A shares loops with another stage"));
    }
    {
        Axis n("n", 9), i("i", 6);
        Tensor X = input("X", i32, {n}), J = input("J", i32, {n}), P = zero_padded(X);
        Tensor S = compute("S", {i}, scatter(sum, P(n + i) - P(n + i - 1), i, J(n), n));
        Schedule s(Op("visits", {X, J}, {S}));
        s.stage("S").reorder({"n", "i"});
        s.stage("X.padded").store_at("S", "n").compute_at("S", "i");
        CHECK(says(told([&] { s.stage("S").scatter("i"); }), "visits the elements that its index selects"));
    }
    {
        Schedule s(op);
        auto [o, i] = s.stage("Y").split("y", 4);
        s.stage("Y").reorder({"x", o, i});
        s.stage("T2").store_at("Y", "x").compute_at("Y", o);
        CHECK(says(told([&] { lower(s); }), "that loop's last block is smaller: 4 does not divide y"));
    }
    {
        Axis y("y", 20), x("x", 20), d("d", 18);
        Tensor X = input("X", i32, {y, x});
        Tensor T = compute("T", {y, x}, X(y, x) + 1);
        const auto kept = [&](const Expr &row, const Expr &column) {
            Axis b("b", 1);
            Schedule s(Op("moves", {X}, {compute("Y", {b, d}, T(row, column) + T(row + 1, column + 1))}));
            s.stage("T").store_at("Y", "b").compute_at("Y", "d");
            return told([&] { lower(s); });
        };
        CHECK(says(kept(d, d), "the region that iterations need moves along y and x; one axis may move"));
        CHECK(says(kept(3, 5),
                   "all iterations need the same region; compute_at(\"Y\", \"b\") computes it where it is kept"));
        CHECK(says(kept(17 - d, 5), "along y must move forward by a constant step"));
        CHECK(says(kept(d / 2, 5), "along y must move forward by a constant step"));
        CHECK(says(kept(17 - d, 5), "size, and iteration d needs [17 - d, 17 - d + 2); compute_at"));
        CHECK_EQ(kept(d, 5), "no error");
    }
    {
        // Clamping shortens what iterations at the ends need; the clamped padding itself may roll.
        Axis y("y", 20), x("x", 8);
        Tensor X = input("X", i32, {y, x}), T = compute("T", {y, x}, X(y, x) * 3 + 1), P = clamped(T, {y});
        const Op op("clamps", {X}, {compute("Y", {y, x}, P(y - 1, x) + P(y + 1, x))});
        const auto rolls = [&](Schedule &s, const std::string &stage) {
            s.stage("Y").split("y", 4);
            s.stage(stage).store_at("Y", "y.o").compute_at("Y", "y.i");
        };
        Schedule refused(op), legal(op);
        rolls(refused, "T");
        const std::string why = told([&] { lower(refused); });
        CHECK(says(why, "stage T is computed at loop y.i of Y and kept at y.o, but"));
        CHECK(says(why, "T.clamped clamps the index of y, so that iterations at the ends need the same elements"));
        CHECK(says(why, "inline_into() of T lets T.clamped be kept in its place"));
        legal.stage("T").inline_into();
        rolls(legal, "T.clamped");
        check_runs(legal);
    }
}
