// Functions of narrow integers, computed once for each value.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/inout.h"
#include "dsl/padding.h"
#include "dsl/reach.h"
#include "dsl/reads.h"
#include "dsl/scan.h"
#include "dsl/scatter.h"
#include "schedules/primitive.h"
#include "schedules/values.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/op_reference.h"

using namespace kumiko;

namespace {

// The corrected brightness of pixels.
Op gamma(Type t, Expr n) {
    Axis y("y", 5), x("x", n);
    Tensor X = input("X", t, {y, x});
    const Expr light = cast(f32, X(y, x)) / 255.f;
    return Op("gamma", {X}, {compute("Y", {y, x}, cast(u8, clamp(sqrt(light) * 255.f + 0.5f, 0.f, 255.f)))});
}

// Runs the schedule on all values of the inputs' types, in random order.
void check_all_values(const Schedule &s) {
    const Op op = s.op();
    std::vector<Buffer<>> args = random_inputs(op);
    for (size_t i = 0; i < args.size(); i++) {
        const bool is_unsigned = op.inputs()[i].type.is_uint();
        fill_random_integers(args[i], i + 7, is_unsigned ? 0 : -128, is_unsigned ? 255 : 127);
    }
    const Results meant = interpret(op, args);
    for (const std::string &out : op.outputs()) args.push_back(make_output(op, out, {}));
    compile(s)(args);
    for (size_t o = 0; o < meant.size(); o++) CHECK(equal_bits(args[op.inputs().size() + o], Buffer<>(meant[o])));
}

size_t tables(const Schedule &s) {
    return static_cast<size_t>(std::count_if(s.directives().begin(), s.directives().end(),
                                             [](const Directive &d) { return d.primitive == "tabulate"; }));
}

} // namespace

TEST_CASE("a function of bytes is read from a table") {
    for (const Type t : {u8, i8}) {
        Schedule s(gamma(t, 300));
        const StageHandle table = s.stage("Y").tabulate("X");
        CHECK(table.name() == "Y.of.X");
        CHECK(table.state().def.axes.size() == 1);
        CHECK(Halide::Internal::as_const_int(table.state().def.axes[0].extent()) == 256);
        check_runs(s);
        check_all_values(s);
        for (const int lanes : {8, 16, 64, 128}) {
            Schedule vectors = s;
            vectors.stage("Y").vectorize("x", lanes);
            check_all_values(vectors);
        }
        s.stage("Y.of.X").compute_at("Y", "y");
        check_all_values(s);
    }
}

TEST_CASE("tables of 16 bits, and of bounded integers of 32 bits") {
    Schedule wide(gamma(i16, 40));
    wide.stage("Y").tabulate("X");
    check_all_values(wide);
    Schedule bounded(gamma(i32, 300));
    bounded.assume(within("X", -5, 200)).stage("Y").tabulate("X");
    const Axis &v = bounded.state().stage("Y.of.X").def.axes[0];
    CHECK(Halide::Internal::as_const_int(v.extent()) == 206);
    check_runs(bounded);
    bounded.stage("Y").vectorize("x", 64);
    check_runs(bounded);
}

TEST_CASE("parts that compute the same function share a table") {
    Axis n("n", 99);
    Tensor X = input("X", u8, {Axis("m", 100)}), W = input("W", f32, {n});
    const auto square = [&](const Element &x) { return cast(f32, x) * cast(f32, x); };
    const Expr value = square(X(n)) * W(n) - square(X(n + 1)) + cast(f32, X(n));
    Schedule s(Op("pair", {X, W}, {compute("Y", {n}, value)}));
    s.stage("Y").tabulate("X");
    std::multiset<std::string> read;
    for (const auto *r : tensor_reads(s.state().stage("Y").def.value)) read.insert(r->name);
    CHECK(read == std::multiset<std::string>{"Y.of.X", "Y.of.X", "X", "X", "X", "W"});
    CHECK(tensors_read(s.state().stage("Y.of.X").def.value).empty());
    s.stage("Y").vectorize("n", 16);
    check_runs(s);
}

TEST_CASE("tables of reductions, scatters and of lookups") {
    Axis n("n", 300), v("v", 256);
    Tensor X = input("X", u8, {n});
    Tensor h = compute("h", {v}, scatter(sum, Expr(1), v, cast(i32, X(n)), n));
    Tensor c = compute("c", {v}, scan([](Expr a, Expr b) { return a + b; }, 0, h(v), v));
    Schedule s(Op("equalise", {X}, {compute("Y", {n}, cast(u8, c(cast(i32, X(n))) * 255 / 300))}));
    s.stage("Y").tabulate("X");
    CHECK(tensors_read(s.state().stage("Y").def.value) == std::set<std::string>{"X", "Y.of.X"});
    check_all_values(s);
    Schedule sums(Op("sums", {X}, {compute("S", {}, sum(cast(i32, X(n)) * cast(i32, X(n)) % 7, n))}));
    sums.stage("S").tabulate("X");
    check_all_values(sums);
    Schedule bins(
        Op("bins", {X}, {compute("B", {Axis("v", 64)}, scatter(sum, Expr(1), Axis("v", 64), cast(i32, X(n)) / 4, n))}));
    bins.stage("B").tabulate("X");
    check_all_values(bins);
}

TEST_CASE("lookups in arrays of at most 256 bytes") {
    for (const int count : {3, 64, 65, 128, 129, 200, 256}) {
        Axis n("n", 203), v("v", count);
        Tensor X = input("X", u8, {n}), M = input("M", i8, {v});
        const Op op("lookup", {X, M}, {compute("Y", {n}, M(clamp(cast(i32, X(n)) - 1, 0, count - 1)))});
        for (const int lanes : {8, 32, 64, 96}) {
            for (const Tail tail : {Tail::Mask, Tail::Shift}) {
                Schedule s(op);
                s.stage("Y").vectorize("n", lanes, tail);
                check_all_values(s);
            }
        }
        check_all_values(default_schedule(op, Machine::host()));
    }
}

TEST_CASE("the default tabulates where that costs less") {
    Machine vbmi = Machine::named("x86-64-avx512");
    vbmi.features.insert("avx512_vbmi");
    const Machine avx2 = Machine::named("x86-64-avx2");
    CHECK_EQ(tables(default_schedule(gamma(u8, 3000), vbmi)), 1);
    CHECK_EQ(tables(default_schedule(gamma(u8, 3000), avx2)), 0);
    CHECK_EQ(tables(default_schedule(gamma(u8, 30), vbmi)), 0);    // few pixels
    CHECK_EQ(tables(default_schedule(gamma(i32, 3000), vbmi)), 0); // too many values
    Axis n("n", 100000);
    Tensor X = input("X", u8, {n});
    const Op copy("copy", {X}, {compute("Y", {n}, cast(f32, X(n)))});
    CHECK_EQ(tables(default_schedule(copy, vbmi)), 0);
    check_runs(default_schedule(gamma(u8, 3000), Machine::host()));
}

TEST_CASE("errors of tabulate") {
    const auto told = [](const Op &op, const char *stage, const char *tensor) {
        return refusal([&] { Schedule(op).stage(stage).tabulate(tensor); });
    };
    const auto holds = [](const std::string &text, const char *part) { return text.find(part) != std::string::npos; };
    CHECK(holds(told(gamma(i32, 9), "Y", "X"),
                "tabulate(\"X\"): the elements of X are i32, which have too many values for a table"));
    CHECK(holds(told(gamma(f32, 9), "Y", "X"), "the elements of X are f32"));
    CHECK(holds(told(gamma(u8, 9), "Y", "Z"), "op gamma has no tensor \"Z\""));
    Axis n("n", 9), m("m", 100);
    Tensor X = input("X", u8, {n}), W = input("W", u8, {Axis("k", Size("K"))});
    const Op sums("sums", {X}, {compute("Y", {n}, cast(i32, X(n)) + Expr(n))});
    CHECK(holds(told(sums, "Y", "X"), "no part of Y depends only on one element of X"));
    Tensor P = zero_padded(X, {n});
    const Op padded("padded", {X}, {compute("Y", {n}, P(n - 1) * P(n - 1))});
    CHECK(holds(told(padded, "X.padded", "X"), "X.padded is padding"));
    Schedule squares(padded);
    squares.stage("Y").tabulate("X.padded");
    check_all_values(squares);
    // The stage may have no element; the table would read one.
    const Op open("open", {X, W}, {compute("Y", {n}, W(clamp(cast(i32, X(n)), 0, Size("K") - 1)) + Expr(cast(u8, 1)))});
    CHECK(holds(told(open, "Y", "X"), "is not proved to be in bounds for every value of X"));
    Schedule s(gamma(u8, 30));
    s.stage("Y").split("x", 8);
    CHECK(holds(refusal([&] { s.stage("Y").tabulate("X"); }), "other directives rely on Y already"));
    Tensor S = compute("S", {n}, scan([](Expr a, Expr b) { return a + b; }, 0, cast(i32, X(n)), n));
    const Op scans("scans", {X}, {compute("T", {n}, S(n) * 2)});
    CHECK(holds(told(scans, "T", "X"), "no part of T"));
}
