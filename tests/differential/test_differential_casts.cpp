// Casts of constant floats to integers that cannot hold them: the interpreter, LLVM and Halide must
// agree.
// Links: driver
#include "driver/kernel.h"
#include "dsl/interpret.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace kumiko;

namespace {

constexpr int n = 9;
const std::vector<Type> integers = {boolean, i8, i16, i32, i64, u8, u16, u32, u64};

// A saturating cast as defined, by the machine's conversion for values in the type's range.
uint64_t saturated(Type t, double x) {
    if (t.is_bool()) return x != 0;
    if (std::isnan(x)) return 0;
    const double above = std::ldexp(1.0, t.bits() - t.is_int());
    const uint64_t most = ~uint64_t(0) >> (64 - t.bits() + t.is_int());
    if (t.is_uint()) return x < 0 ? 0 : x >= above ? most : static_cast<uint64_t>(x);
    return x < -above ? ~most : x >= above ? most : static_cast<uint64_t>(static_cast<int64_t>(x));
}

void check(const Op &op, const std::vector<Buffer<>> &inputs, const std::vector<Buffer<>> &expected) {
    const Results meant = interpret(op, inputs);
    for (size_t o = 0; o < meant.size(); o++) CHECK(difference(meant[o], expected[o]) == "");
    for (const bool through_halide : {false, true}) {
        for (const std::string how : {"serial", "unrolled", "vectors"}) {
            Schedule s(op);
            if (op.find_stage("C")) s.stage("C").inline_into();
            std::vector<Buffer<>> all = inputs;
            for (const std::string &out : op.outputs()) {
                if (how == "unrolled") s.stage(out).unroll("i");
                if (how == "vectors") s.stage(out).vectorize("i", 2);
                all.push_back(make_output(op, out, {}));
            }
            CompileOptions options;
            options.through_halide = through_halide;
            compile(s, Target::host(), options)(all);
            for (size_t o = 0; o < meant.size(); o++)
                CHECK_MESSAGE(difference(all[inputs.size() + o], expected[o]) == "",
                              op.to_string() << how << std::string(through_halide ? ", through Halide" : ", LLVM"));
        }
    }
}

// value(i), cast to every integer type, where it is values[i].
void check_casts(const Axis &i, const std::function<Element(const Expr &)> &value, const std::vector<double> &values) {
    std::vector<Tensor> tensors;
    std::vector<Buffer<>> expected;
    for (const Type t : integers) {
        tensors.push_back(compute("Y_" + type_name(t), {i}, cast(t, value(i))));
        expected.emplace_back(t, std::vector<int64_t>{n});
        for (int l = 0; l < n; l++) {
            const uint64_t want = saturated(t, values[size_t(l)]);
            memcpy(static_cast<char *>(expected.back().data()) + l * t.bytes(), &want, size_t(t.bytes()));
        }
    }
    check(Op("casts", {}, tensors), {}, expected);
}

double rounded(Type t, double x) {
    const Expr e = Halide::Internal::make_const(t, x);
    return *Halide::Internal::as_const_float(e);
}

} // namespace

TEST_CASE("of an unrolled loop's index") {
    Axis i("i", n);
    for (const Type f : {f16, bf16, f32, f64}) {
        for (const double scale : {0.75, 100.0, 9000.0, 1e9, 4e18, 1e30}) {
            if (f == f16 && scale > 1e4) continue;
            const double step = rounded(f, scale);
            std::vector<double> values;
            for (int l = 0; l < n; l++) values.push_back(rounded(f, (l - 4) * step));
            check_casts(
                i, [&](const Expr &l) { return (Element(cast(f, l)) - 4) * step; }, values);
        }
    }
}

TEST_CASE("of a producer that is one number") {
    Axis i("i", n);
    for (const Type f : {f16, bf16, f32, f64}) {
        for (const double v : {-0.5, 0.5, -3.0, 300.0, 40000.0, -1e30, 1e30, double(INFINITY), double(NAN)}) {
            Tensor C = compute("C", {i}, Halide::Internal::make_const(f, v));
            check_casts(
                i, [&](const Expr &l) { return C(l); }, std::vector<double>(n, rounded(f, v)));
        }
    }
}

TEST_CASE("integers become bool by comparison with zero") {
    Axis i("i", n);
    for (const Type t : integers) {
        if (t.is_bool()) continue;
        Buffer<bool> expected({n});
        for (int l = 0; l < n; l++) expected(l) = l != 4;
        check(Op("nonzero", {}, {compute("Y", {i}, cast(boolean, Element(cast(t, Expr(i) - 4))))}), {}, {expected});
    }
}

// Reads at an `index` computed in floats, the value of which is known at compile time.
TEST_CASE("indices") {
    Axis i("i", 3), a("a", 200);
    Tensor X = input("X", f32, {a});
    const Buffer<> x = random_integers(f32, {200}, 3);
    const Expr f = cast(f32, Expr(i));
    const auto check_read = [&](const std::vector<int> &at, const Expr &value) {
        Buffer<float> expected({3});
        for (int l = 0; l < 3; l++) expected(l) = at[size_t(l)] < 0 ? 0 : Buffer<float>(x)(at[size_t(l)]);
        check(Op("read", {X}, {compute("Y", {i}, value)}), {x}, {expected});
    };
    check_read({0, 127, 127}, X(cast(i8, f * 300.f)));
    check_read({0, 199, 199}, X(min(cast(i32, f * 1e30f), 199)));
    check_read({0, 0, 0}, X(max(cast(i32, f * -1e30f), 0)));
    check_read({3, 0, 0}, X(cast(u8, 3.f - f * 300.f)));
    check_read({0, -1, -1}, zero_padded(X)(cast(i32, f * 1e30f)));
    check_read({0, 1, 3}, X(cast(i32, f * 1.5f)));
    check_read({0, 1, 1}, X(cast(i32, cast(boolean, f))));
    check_read({7, 5, 5}, X(select(cast(boolean, f), 5, 7)));
    const auto refused = [&](const Expr &index) {
        try {
            Op("read", {X}, {compute("Y", {i}, X(index))});
        } catch (const UserError &e) {
            return std::string(e.what());
        }
        return std::string("none");
    };
    CHECK(refused(cast(i32, f * 1e30f)).find("goes from 0 to 2147483647, but axis a has 200 elements") !=
          std::string::npos);
    CHECK(refused(cast(i32, cast(u8, f * 300.f))).find("goes from 0 to 255, but axis a has 200") != std::string::npos);
}

TEST_CASE("a stage that is read at such an index, where it is read") {
    Axis a("a", 40), i("i", 30);
    Tensor X = input("X", i32, {a});
    Tensor S = compute("S", {a}, X(a) * 2);
    const Buffer<> x = random_integers(i32, {40}, 5);
    const Expr f = cast(f32, Expr(i));
    for (const Expr &index :
         {cast(i32, f * 0.7f), cast(i32, cast(u8, f * 300.f)) % 40, min(cast(i32, f * f * 1e9f), 39)}) {
        const Op op("resize", {X}, {compute("Y", {i}, S(index))});
        for (const bool through_halide : {false, true}) {
            Schedule s(op);
            s.stage("Y").split("i", 4, {"io", "ii"});
            s.stage("S").compute_at("Y", "io");
            CompileOptions options;
            options.through_halide = through_halide;
            const Buffer<> y(i32, {30});
            compile(s, Target::host(), options)(std::vector<Buffer<>>{x, y});
            CHECK(difference(y, interpret(op, x)[0]) == "");
        }
    }
}
