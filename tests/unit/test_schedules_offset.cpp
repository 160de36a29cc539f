// Sums of products with a number added to one factor (offset), and with additional steps in which
// one factor is zero (extend).
// Links: driver
#include "ops/ops.h"
#include "schedules/examples.h"
#include "support/error.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

Op bytes_product(const Expr &m, const Expr &n, const Expr &k) {
    ops::MatmulOptions o;
    o.b_type = i8;
    return ops::matmul(i8, m, n, k, o);
}

} // namespace

TEST_CASE("offset: the number added to one factor is corrected in the sum") {
    SUBCASE("of the rows") {
        Schedule s(bytes_product(20, 24, 31));
        const StageHandle raw = s.stage("C").offset("A", 128, "u8");
        CHECK(raw.name() == "C.raw");
        CHECK(s.state().type_of("A.offset") == u8);
        s.stage("C.raw").reorder({"i", "k", "j"}).vectorize("j", 8);
        s.stage("C.raw").finish_in("C");
        s.place_in("A.offset", "L2", "C.raw", "i");
        check_runs(s);
    }
    SUBCASE("of the columns, by less than nothing, into a wider type") {
        Schedule s(bytes_product(7, 9, 5));
        s.stage("C").offset("B", -1000, "i16");
        check_runs(s);
    }
    SUBCASE("sizes of a run") {
        const Size M("M"), K("K");
        Schedule s(bytes_product(M, 16, K));
        s.stage("C").offset("A", 128, "u8");
        check_runs(s, {{"M", 5}, {"K", 9}});
        check_runs(s, {{"M", 3}, {"K", 0}});
    }
    SUBCASE("of a padded image, a bias after it") {
        ops::Conv2dOptions o;
        o.padding(1).bias = true;
        Schedule s(ops::conv2d(i8, 2, 5, 6, 7, 8, 3, 3, o));
        const std::string sum = s.op().outputs()[0] + ".sum";
        s.stage(sum).offset("X.padded", 128, "u8");
        s.stage(sum).inline_into();
        s.stage(sum + ".raw").finish_in(s.op().outputs()[0]);
        s.stage("X.padded.offset").compute_root();
        s.place_in("X.padded.offset", "L2", sum + ".raw", "n");
        check_runs(s);
    }
}

TEST_CASE("offset: factors that are constant along a step count once for each step") {
    Axis i("i", 6), j("j", 5), k("k", 4);
    Tensor x = input("x", i8, {i, j, k}), w = input("w", i8, {i, k});
    const auto product = [](const Expr &a, const Expr &b) { return cast<int32_t>(a) * cast<int32_t>(b); };
    Schedule s(Op("still", {x, w}, {compute("y", {i}, sum(product(x(i, j, k), w(i, k)), {j, k}))}));
    s.stage("y").offset("x", 128, "u8");
    check_runs(s);
    Tensor v = input("v", i8, {i});
    Schedule none(Op("none", {x, v}, {compute("y", {i}, sum(product(x(i, j, k), v(i)), {j, k}))}));
    none.stage("y").offset("x", 128, "u8");
    CHECK(none.state().find("y.excess") == nullptr); // nothing to sum
    check_runs(none);
}

TEST_CASE("what offset refuses") {
    Schedule s(bytes_product(8, 8, 8));
    const auto refused = [&](const char *stage, const char *tensor, int64_t by, const char *type, const char *why) {
        CHECK_THROWS_WITH_AS(Schedule(s).stage(stage).offset(tensor, by, type), doctest::Contains(why), UserError);
    };
    refused("C", "A", 128, "i8", "A + 128 goes from 0 to 255, and i8 does not have all of these values");
    refused("C", "A", 127, "u8", "legal here: i16, i32");
    refused("C", "A", 128, "f32", "f32 does not have all of these values");
    refused("C", "A", 128, "byte", "byte");
    refused("C", "A", int64_t(1) << 40, "i32", "more than the range of 32-bit integers");
    refused("C", "A", std::numeric_limits<int64_t>::min(), "i32", "more than the range of 32-bit integers");
    refused("C", "C", 1, "i32", "not products of C and another factor");
    Schedule split(s);
    split.stage("C").split("i", 4);
    CHECK_THROWS_WITH(split.stage("C").offset("A", 128, "u8"), doctest::Contains("other directives rely on C"));
    Schedule twice(s);
    twice.stage("C").offset("A", 128, "u8");
    CHECK_THROWS_WITH(twice.stage("C").offset("A", 128, "u8"), doctest::Contains("C is not a sum of integers"));
    twice.stage("C.raw").offset("B", 128, "u8");
    CHECK(twice.state().find("C.raw.excess"));
    check_runs(twice);
    Schedule floats(ops::matmul(f32, 8, 8, 8));
    CHECK_THROWS_WITH(floats.stage("C").offset("A", 1, "f32"), doctest::Contains("C is not a sum of integers"));
}

TEST_CASE("extend: more steps, in which a factor is zero") {
    Schedule s(example_op("conv_i8"));
    const StageHandle W = s.stage("Y").extend("W", "kx", 4);
    CHECK(W.name() == "W.extended");
    SUBCASE("inlined") { check_runs(s); }
    SUBCASE("copied, with a number added to the other factor") {
        s.stage("Y").offset("X.padded", 128, "u8");
        s.stage("Y.raw").finish_in("Y");
        s.place_in("W.extended", "L2", "Y.raw", "o").layout({"o", "kx", "c", "ky"});
        s.stage("X.padded.offset").compute_root();
        check_runs(s);
    }
    SUBCASE("packed ahead") {
        s.stage("W.extended").compute_root();
        s.prepack("W.extended", {"o/8", "c", "ky", "kx", "o%8"});
        check_runs(s);
    }
    SUBCASE("twice") {
        s.stage("Y").extend("W.extended", "ky", 5);
        check_runs(s);
    }
}

TEST_CASE("extend: of a factor that has more elements than there are steps, and of a padded one") {
    Axis o("o", 4), x("x", 16), k("k", 3), y("y", 6);
    for (const bool symbolic : {false, true}) {
        const Size N("N");
        Axis w("w", symbolic ? Expr(N) : Expr(5));
        Tensor X = input("X", i8, {x}), W = input("W", i8, {o, w}), P = zero_padded(X, {x});
        const Expr product = cast<int32_t>(P(x + k - 1)) * cast<int32_t>(W(o, k));
        for (const int steps : {4, 8}) {
            Schedule s(Op("longer", {X, W}, {compute("Y", {o, x}, sum(product, {k}))}));
            s.stage("Y").extend("W", "k", steps);
            for (const int n : {3, 5}) check_runs(s, symbolic ? Sizes{{"N", n}} : Sizes{});
            s.place_in("W.extended", "L2", "Y", "o");
            for (const int n : {3, 5}) check_runs(s, symbolic ? Sizes{{"N", n}} : Sizes{});
        }
    }
    Axis kk("kk", 3);
    Tensor X = input("X", i8, {y, kk}), V = input("V", i8, {x});
    Tensor P = zero_padded(X, {y}), Q = zero_padded(V, {x});
    const Op op("padded", {X, V},
                {compute("Y", {y, x}, sum(cast<int32_t>(P(y - 1, k)) * cast<int32_t>(Q(x + k)), {k}))});
    for (const int how : {0, 1, 2, 3}) {
        CAPTURE(how);
        Schedule s(op);
        StageHandle longer = s.stage("Y").extend("X.padded", "k", 4);
        if (how == 1) s.place_in("X.padded.extended", "L2", "Y", "y");
        if (how == 2) longer.compute_at("Y", "y");
        if (how == 3) longer.compute_root();
        check_runs(s);
    }
}

TEST_CASE("extend: of both factors of a sum of floats, one of them not finite beyond the end") {
    Schedule s(ops::matmul(Float(32), 6, 9, 13));
    s.stage("C").extend("A", "k", 16, "B");
    check_runs(s);
    s.stage("A.extended").compute_root().vectorize("k", 8);
    s.place_in("B.extended", "L2", "C", "i");
    check_runs(s);
    CHECK(Schedule::from_json(s.op(), s.to_json()).to_json() == s.to_json());
}

TEST_CASE("what extend refuses") {
    const Schedule s(example_op("conv_i8"));
    const auto refused = [&](const char *tensor, const char *axis, int64_t steps, const char *why) {
        CHECK_THROWS_WITH_AS(Schedule(s).stage("Y").extend(tensor, axis, steps), doctest::Contains(why), UserError);
    };
    refused("W", "kx", 3, "axis kx has 3 steps already");
    refused("W", "x", 4, "Y does not reduce over an axis \"x\"");
    refused("X.padded", "kx", 4, "X.padded is not read at axis kx itself");
    refused("W", "c", 12, "X.padded is read at c, which is out of bounds in the new steps");
    refused("X.padded", "c", 12, "W is read at c, which is out of bounds in the new steps");
    refused("Y", "kx", 4, "not products of Y and another factor");
    Schedule split(s);
    split.stage("Y").split("x", 4);
    CHECK_THROWS_WITH(split.stage("Y").extend("W", "kx", 4), doctest::Contains("other directives rely on Y"));
    CHECK_THROWS_WITH(Schedule(example_op("conv")).stage("Y").extend("W", "kx", 4),
                      doctest::Contains("zero times a number that is not finite is not zero"));
    CHECK_THROWS_WITH(Schedule(example_op("conv")).stage("Y").extend("W", "kx", 4, "X.padded"),
                      doctest::Contains("X.padded is not read at axis kx itself"));
    CHECK_THROWS_WITH(Schedule(ops::matmul(f32, 6, 9, 13)).stage("C").extend("A", "k", 16, "A"),
                      doctest::Contains("\"with\" names A too, so the other factor would be read past its end"));
}
