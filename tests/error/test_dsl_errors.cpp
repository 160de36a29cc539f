// Error messages for wrong formulas. Each case has one mistake and the expected text. One file,
// because it is one table.
#include "dsl/interpret.h"
#include "dsl/top_k.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

// The message of the UserError that f throws; "here: " stands for this file and a line.
template<typename F>
std::string error_of(F f) {
    const std::string text = refusal(f);
    return text.starts_with("test_dsl_errors.cpp:") ? "here: " + text.substr(text.find(": error: ") + 9) : text;
}

struct Names {
    Axis i{"i", 4}, j{"j", 5}, k{"k", 6};
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j}), I = input("I", i32, {i});
};

} // namespace

TEST_CASE("axes and sizes") {
    CHECK(error_of([] { Axis("i", -3); }) == "here: axis \"i\" has the negative extent -3; legal is 0 or more");
    CHECK(error_of([] { Axis("2i", 3); }) ==
          "here: axis name \"2i\" is not an identifier; legal are letters, digits and _, not starting with a digit");
    CHECK(error_of([] { Size("a b"); }) ==
          "here: size name \"a b\" is not an identifier; legal are letters, digits and _, not starting with a digit");
    CHECK(error_of([] { Axis("i", Expr(2.5f)); }) ==
          "here: the extent of axis \"i\" has type float; it must be a number or an int32 expression of sizes");
    CHECK(error_of([] { Axis("i", Expr()); }) == "here: axis \"i\" has an undefined extent");
    CHECK(error_of([] {
              Axis i("i", Size("k")), k("k", 3);
              Tensor X = input("X", f32, {i, k});
              Op("op", {X}, {compute("Y", {i}, sum(X(i, k), k))});
          }) == "here: op \"op\" uses \"k\" both as an axis and as a size; give one of them another name");
    CHECK(error_of([] {
              Axis i("i", 8), t("t", i + 1);
              Tensor A = input("A", f32, {i, Axis("j", 8)});
              Op("triangle", {A}, {compute("Y", {i}, sum(A(i, t), t))});
          }) == "here: the extent of axis \"t\" of tensor \"Y\" uses \"i\", which is an axis of it: extents cannot "
                "depend on axes, and a size needs another name. For a part of the terms write select(condition, term, "
                "identity)");
    // An axis is not a size, even if no tensor has it.
    const auto told = [](const std::function<Expr(Axis, Axis)> &value, const Expr &extent = 4) {
        return error_of([&] {
            Axis i("i", extent), j("j", 3);
            Tensor X = input("X", i32, {i});
            Op("op", {X}, {compute("Y", {i}, X(i) + value(i, j))});
        });
    };
    CHECK(told([](Axis, Axis j) { return j * 0; }) ==
          "here: tensor \"Y\" uses axis \"j\", over which it does not range; name it among the tensor's axes or reduce "
          "over it");
    CHECK(told([](Axis, Axis) { return Size("j"); }) == "no error");
    CHECK(told([](Axis, Axis) { return Size("i"); }) ==
          "here: op \"op\" uses \"i\" both as an axis and as a size; give one of them another name");
    CHECK(told([](Axis i, Axis) { return i; }, Axis("m", 8) + 1) ==
          "here: op \"op\" uses axis \"m\" in an extent or a stride; legal are numbers and sizes, as Size(\"m\")");
    // Axes and sizes are also told apart in expressions with shared parts.
    const auto grown = [](Expr e) {
        for (int n = 0; n < 12; n++) e = e * e + 1;
        return e;
    };
    CHECK(told([&](Axis, Axis) { return grown(Size("n")); }) == "no error");
    CHECK(told([&](Axis, Axis j) {
              return grown(j);
          }).starts_with("here: tensor \"Y\" uses axis \"j\", over which it does not range"));
}

TEST_CASE("tensors") {
    Names n;
    CHECK(error_of([&] {
              Tensor t;
              t(n.i);
          }) == "here: a tensor that is undefined is read; make it with input(…) or compute(…)");
    CHECK(error_of([&] { n.A(n.i); }) == "here: tensor \"A\" has 2 axes but is read with 1 indices");
    CHECK(error_of([&] { n.A(n.i, cast<float>(n.k)); }) ==
          "here: index 1 of tensor \"A\" has type f32; an index is an int32 expression: cast it");
    CHECK(error_of([&] {
              input("X", f32, {n.i, n.i});
          }) == "here: axis \"i\" occurs twice in the axes of tensor \"X\"");
    CHECK(error_of([&] {
              input("X", f32, {n.i, n.j}, {.strides = {1}});
          }) == "here: input \"X\" has 2 axes but 1 strides; state one per axis, in elements");
    CHECK(error_of([&] { compute("X", {n.i}, Expr()); }) == "here: the value of tensor \"X\" is undefined");
    CHECK(error_of([&] { zero_padded(n.A, {n.j}); }) == "here: tensor \"A\" has no axis \"j\"");
}

TEST_CASE("mixed types need a cast") {
    Names n;
    CHECK(error_of([&] { n.A(n.i, n.k) * n.I(n.i); }) ==
          "here: \"*\" has a f32 on its left and a i32 on its right; cast one "
          "of them, so that the type of the arithmetic is stated: A(i, k) and I(i)");
    CHECK(error_of([&] { n.A(n.i, n.k) + n.i; }) ==
          "here: \"+\" has a f32 on its left and a i32 on its right; cast one of "
          "them, so that the type of the arithmetic is stated: A(i, k) and i");
    // The error is reported at the line of the last operand.
    const auto line = [](const auto &f) {
        try {
            f();
        } catch (const UserError &e) {
            return e.place();
        }
        return std::string();
    };
    const int first = __LINE__ + 1;
    const Element a = exp(n.A(n.i, n.k) * 2.f);
    const Element b = n.I(n.i) + 1;
    CHECK_EQ(line([&] { a *b; }), fmt::format("test_dsl_errors.cpp:{}", first + 1));
    CHECK_EQ(line([&] { b *a; }), fmt::format("test_dsl_errors.cpp:{}", first + 1));
    CHECK(error_of([&] { n.A(n.i, n.k) * 2; }) == "no error");
    CHECK(error_of([&] { n.A(n.i, n.k) * 2.5; }) == "no error");
    CHECK(error_of([&] { 2.5 * n.I(n.i); }) ==
          "here: \"*\" has a i32 on one side and the number 2.5 on the other; cast the i32 to a float type");
    CHECK(error_of([&] { n.A(n.i, n.k) * cast<float>(n.I(n.i)); }) == "no error");
    // Expressions of elements are checked too.
    Tensor H = input("H", f16, {n.i}), U = input("U", u8, {n.i}), W = input("W", bf16, {n.i}),
           F = input("F", f32, {n.i});
    const auto mixed = [](const char *op, const char *left, const char *right) {
        return fmt::format(
            "here: \"{}\" has a {} on its left and a {} on its right; cast one of them, so that the type of the "
            "arithmetic is stated: ",
            op, left, right);
    };
    CHECK(error_of([&] { F(n.i) * 2.f + H(n.i) * 2.f; }).starts_with(mixed("+", "f32", "f16")));
    CHECK(error_of([&] { -F(n.i) - -H(n.i); }).starts_with(mixed("-", "f32", "f16")));
    CHECK(error_of([&] { exp(F(n.i)) + exp(W(n.i)); }).starts_with(mixed("+", "f32", "bf16")));
    CHECK(error_of([&] { select(F(n.i) > 0, U(n.i), cast(i8, n.I(n.i))); }).starts_with(mixed("select", "u8", "i8")));
    CHECK(error_of([&] { select(n.i > 2, F(n.i), n.i > 1, H(n.i), 0); }) != "no error");
    CHECK(error_of([&] { max(F(n.i), n.I(n.i)); }).starts_with(mixed("max", "f32", "i32")));
    CHECK(error_of([&] { min(0, U(n.i), n.I(n.i)); }).starts_with(mixed("min", "u8", "i32")));
    CHECK(error_of([&] { clamp(U(n.i), n.I(n.i), 5); }) != "no error");
    CHECK(error_of([&] { pow(F(n.i), H(n.i)); }).starts_with(mixed("pow", "f32", "f16")));
    CHECK(error_of([&] { sum(F(n.i), n.i) + sum(H(n.i), n.i); }).starts_with(mixed("+", "f32", "f16")));
    CHECK(error_of([&] { sigmoid(F(n.i)) * silu(H(n.i)); }).starts_with(mixed("*", "f32", "f16")));
    CHECK(error_of([&] { leaky_relu(H(n.i), F(n.i)); }).starts_with(mixed("*", "f16", "f32")));
    // Literals adapt if the type holds them.
    CHECK(error_of([&] { U(n.i) + 1000; }) ==
          "here: \"+\" has a u8 on one side and the number 1000 on the other; a u8 holds 0 to 255: cast one of them");
    CHECK(error_of([&] { U(n.i) > -1; }) ==
          "here: \">\" has a u8 on one side and the number -1 on the other; a u8 holds 0 to 255: cast one of them");
    CHECK(error_of([&] { n.I(n.i) * 3000000000u; }) == "here: \"*\" has a i32 on one side and the number 3000000000 on "
                                                       "the other; a i32 holds -2147483648 to 2147483647: "
                                                       "cast one of them");
    CHECK(error_of([&] { U(n.i) * 2.5f; }) ==
          "here: \"*\" has a u8 on one side and the number 2.5 on the other; cast the u8 to a float type");
    CHECK(error_of([&] { H(n.i) * 1e6; }) == "here: \"*\" has a f16 on one side and the number 1000000.0 on the other; "
                                             "a f16 cannot hold it: cast one of them");
    for (const Element &e : {H(n.i) * 2.f, 2 * H(n.i), H(n.i) + 0.5, max(H(n.i), 0), select(n.i > 1, 0.f, H(n.i)),
                             exp(H(n.i)), pow(H(n.i), 2), leaky_relu(H(n.i), 0.1f), clamp(H(n.i), -1, 1.5f)})
        CHECK(e.type() == f16);
    CHECK(exp(W(n.i)).type() == bf16);
    CHECK((U(n.i) << 2).type() == u8);
    CHECK((F(n.i) > 0 && n.i < 3).type() == boolean);
    // Types that an operation does not accept.
    CHECK(error_of([&] { !F(n.i); }) == "here: \"!\" takes bool, not f32; compare it, as in x != 0: F(i)");
    CHECK(error_of([&] { F(n.i) && n.i > 2; }) == "here: \"&&\" takes bool, not f32; compare it, as in x != 0: F(i)");
    CHECK(select(n.i > 2, H(n.i), n.i > 1, 3, n.i > 0, H(n.i) * 2, 0).type() == f16);
    CHECK(error_of([&] { select(F(n.i), 1, 2); }) ==
          "here: \"select\" takes bool, not f32; compare it, as in x != 0: F(i)");
    CHECK(error_of([&] { exp(n.I(n.i)); }) == "here: exp of a i32 expression; cast it to a float type: I(i)");
    CHECK(error_of([&] { hard_swish(U(n.i)); }) == "here: hard_swish of a u8 expression; cast it to a float type");
    CHECK(error_of([&] { F(n.i) & F(n.i); }) != "no error");
    CHECK(error_of([&] { pow(n.I(n.i), 2); }) == "here: pow of a i32 expression; cast it to a float type: I(i)");
    CHECK(error_of([&] { popcount(F(n.i)); }) == "here: popcount of a f32 expression; it takes integers: F(i)");
    CHECK(error_of([&] { is_nan(n.I(n.i)); }) == "here: is_nan of a i32 expression; cast it to a float type: I(i)");
    CHECK(error_of([&] { atan2(F(n.i), H(n.i)); }).starts_with(mixed("atan2", "f32", "f16")));
    CHECK(error_of([&] { lerp(F(n.i), H(n.i), 0.5f); }).starts_with(mixed("lerp", "f32", "f16")));
    CHECK(lerp(H(n.i), H(n.i), 0.5).type() == f16);
    CHECK(error_of([&] { cast(Halide::Handle(), F(n.i)); }).find("a cast has elements of type") != std::string::npos);
    CHECK(error_of([&] { reinterpret(f64, F(n.i)); }) ==
          "here: reinterpret of a f32 as f64, which has other bits; cast converts the value");
    CHECK(error_of([&] { Op("op", {F}, {compute("Y", {n.i}, F(n.i) << 2)}); }).find("shifts by or of a f32") !=
          std::string::npos);
    CHECK((pow(W(n.i), 2) + W(n.i)).type() == bf16);
    CHECK(abs(U(n.i)).type() == u8);
    // Assignments behave as the operators do.
    const auto assign = [&](auto f) { return error_of([&] { f(); }); };
    CHECK(assign([&] {
              Element a = n.I(n.i);
              a += 0.5f;
          }).find("cast the i32 to a float type") != std::string::npos);
    CHECK(assign([&] {
              Element a = n.I(n.i);
              a /= F(n.i);
          }).starts_with(mixed("/", "i32", "f32")));
    CHECK(assign([&] {
              Expr a = H(n.i);
              a -= F(n.i);
          }).starts_with(mixed("-", "f16", "f32")));
    Expr total = 0;
    for (int q = 0; q < 3; q++) total += F(q);
    CHECK(total.type() == f32);
    Element half = F(n.i);
    half *= 0.5;
    CHECK(half.type() == f32);
    // Numbers at the limits of the types.
    Tensor L = input("L", i64, {n.i}), V = input("V", u64, {n.i});
    CHECK(error_of([&] { H(n.i) * 100000; }).find("a f16 cannot hold it") != std::string::npos);
    CHECK(error_of([&] { L(n.i) + 9223372036854775808.0; }).find("a i64 holds") != std::string::npos);
    CHECK(error_of([&] { V(n.i) + 18446744073709551616.0; }).find("a u64 holds") != std::string::npos);
    CHECK(error_of([&] { V(n.i) + 18446744073709551615ull; }) == "no error");
    CHECK(
        error_of([&] { reduce([](Expr a, Expr b) { return a + b; }, 300, U(n.i), n.i); }) ==
        "here: \"reduce\" has a u8 on one side and the number 300 on the other; a u8 holds 0 to 255: cast one of them");
    // Literals as a user would first write them.
    CHECK(select(F(n.i) > 0, 1.0, 0.0).type() == f64);
    CHECK(select(F(n.i) > 0, true, false).type() == boolean);
    CHECK(select(n.i > 0, F(n.i), F(n.i) > -1, 0.5, 0.0).type() == f32);
    CHECK(leaky_relu(F(n.i), 0.01).type() == f32);
    CHECK(max(F(n.i), 0.0, 1.0f).type() == f32);
    CHECK(sum(F(n.i), {n.i}).type() == f32);
}

TEST_CASE("errors show reductions as they were written") {
    Names n;
    CHECK(error_of([&] { sum(n.A(n.i, n.k), n.k) + n.I(n.i); }) ==
          "here: \"+\" has a f32 on its left and a i32 on its right; cast one of them, so that the type of the "
          "arithmetic is stated: sum(A(i, k), k) and I(i)");
    const Tuple best = top_k(n.A(n.i, n.k), n.k, 2);
    CHECK(error_of([&] { best[0] + best[2]; }) ==
          "here: \"+\" has a f32 on its left and a i32 on its right; cast one of them, so that the type of the "
          "arithmetic is stated: top_k(A(i, k), k, 2)[0] and top_k(A(i, k), k, 2)[2]");
    CHECK(error_of([&] { Op("op", {n.A}, {compute("Y", {n.i}, n.A(n.i, best[2] + 1))}); }) ==
          "here: tensor \"Y\" reads \"A\" at top_k(A(i, k), k, 2)[2] + 1, a data-dependent index that may be outside "
          "of axis \"k\"; legal are indices that are always inside: clamp(…, 0, 5), … % 6, or a read of "
          "zero_padded(A) or "
          "clamped(A)");
    const Axis m("m", Size("M"));
    const Tensor B = input("B", f32, {m});
    const Op op("op", {n.A, B}, {compute("Y", {n.i}, B(Expr(best[2]) % m.extent()))});
    CHECK(op.requirements().at(0).text == "1 <= M (stage Y reads B at top_k(A(i, k), k, 2)[2] % M of axis m)");
}

TEST_CASE("undefined expressions") {
    Names n;
    const Expr e;
    Tensor F = input("F", f32, {n.i});
    CHECK(error_of([&] { sum(e, n.i); }) == "here: sum of an undefined expression");
    CHECK(error_of([&] { F(e); }) == "here: index 0 of tensor \"F\" is undefined");
    CHECK(error_of([&] { gelu(e); }) == "gelu of an undefined expression");
    CHECK(error_of([&] { exp(Element(e)); }) == "\"exp\" of an undefined expression");
    CHECK(error_of([&] { !Element(e); }) == "\"!\" of an undefined expression");
    CHECK(error_of([&] { F(n.i) + e; }) == "\"+\" of an undefined expression");
    CHECK(error_of([&] { reduce([](Expr, Expr) { return Expr(); }, 0, F(n.i), n.i); }) ==
          "here: the combiner of reduce gives an undefined expression");
    CHECK(error_of([&] { reduce(nullptr, 0, F(n.i), n.i); }) == "here: reduce without a combiner");
}

TEST_CASE("reductions") {
    Names n;
    CHECK(error_of([&] { sum(n.A(n.i, n.k), AxisList(std::vector<Axis>{})); }) ==
          "here: sum over no axes; name at least one");
    CHECK(error_of([&] { sum(n.A(n.i, n.k) > 0.f, n.k); }) ==
          "here: sum of a bool expression; cast it to the type in which to accumulate");
    CHECK(error_of([&] { reduce([](Expr a, Expr) { return cast<int>(a); }, 0.f, n.A(n.i, n.k), n.k); }) ==
          "here: reduce folds f32 but its identity is f32 and its combiner gives i32; all three must be of one type");
    CHECK(error_of([&] {
              Op("op", {n.A}, {compute("Y", {n.i, n.k}, sum(n.A(n.i, n.k), n.k))});
          }) == "here: tensor \"Y\" reduces over axis \"k\", which is already an axis outside of the reduction; reduce "
                "over another axis, as Axis(\"k2\", 6)");
}

TEST_CASE("ops") {
    Names n;
    Tensor C = compute("C", {n.i, n.j}, sum(n.A(n.i, n.k) * n.B(n.k, n.j), n.k));
    CHECK(error_of([&] { Op("op", {n.A}, {C}); }) == "here: op \"op\" reads \"B\", which is not among its inputs");
    CHECK(error_of([&] { Op("op", {n.A, n.A, n.B}, {C}); }) == "here: op \"op\" names an input twice");
    CHECK(error_of([&] {
              Op("op", {n.A, Tensor()}, {C});
          }) == "here: an input of op \"op\" is undefined; make it with input(…)");
    CHECK(error_of([&] {
              Op("op", {n.A, n.B}, {Tensor()});
          }) == "here: an output of op \"op\" is undefined; make it with compute(…)");
    CHECK(error_of([&] { Op("op", {n.A, n.B}, {}); }) == "here: op \"op\" has no outputs");
    CHECK(error_of([&] {
              Op("op", {n.A, n.B}, {n.A});
          }) == "here: \"A\" cannot be an output; legal are tensors made by compute(…) and update(…)");
    CHECK(error_of([&] {
              Op("op", {n.A, n.B, C}, {C});
          }) == "here: \"C\" is computed, so it cannot be an input of op \"op\"");
    CHECK(error_of([&] { Op("op", {n.A, n.B}, {C, C}); }) == "here: op \"op\" names the output \"C\" twice");
    CHECK(error_of([&] { Op("op", {n.A}, {compute("Y", {n.i}, n.A(n.i, n.k))}); }) ==
          "here: tensor \"Y\" uses axis \"k\", over which it does not range; name it among the tensor's axes or reduce "
          "over it");
    CHECK(error_of([&] { Op("op", {n.A, n.B}, {C}).stage("D"); }) == "op \"op\" has no stage \"D\"; its stages are C");
}

TEST_CASE("a tensor cannot be defined by itself") {
    Names n;
    Tensor C = compute("C", {n.i}, cast<float>(n.i));
    Tensor D = compute("D", {n.i}, C(n.i) + 1.f);
    CHECK(error_of([&] { Op("op", {}, {compute("C", {n.i}, D(n.i) * 2.f)}); }) ==
          "here: tensor \"C\" is defined by itself: C reads D reads C; a stage may read only tensors that are defined "
          "before it");
    CHECK(error_of([&] { Op("op", {}, {compute("Y", {n.i}, D(n.i) + compute("C", {n.i}, 1.f)(n.i))}); }) ==
          "here: two different tensors are named \"C\"");
}

TEST_CASE("Halide's errors keep their type") {
    Names n;
    const auto op_of = [&](const Expr &e) { return error_of([&] { Op("op", {}, {compute("Y", {n.i}, e)}); }); };
    const auto variable = [](Type t, const std::string &name) { return Halide::Internal::Variable::make(t, name); };
    CHECK(op_of(variable(f32, "alpha")) == "here: tensor \"Y\" uses \"alpha\", a variable of type f32; variables are "
                                           "axes and sizes, which are i32; pass other numbers as input(…)");
    CHECK(op_of(cast<float>(variable(u8, "b"))) == "here: tensor \"Y\" uses \"b\", a variable of type u8; variables "
                                                   "are axes and sizes, which are i32; pass other numbers as input(…)");
    CHECK(op_of(variable(i32, "x$2") + n.i) ==
          "here: tensor \"Y\" uses \"x$2\", which is neither an Axis nor a Size; name it as one of them");
    CHECK(op_of(Halide::Param<float>("alpha") * 2.f) == "here: tensor \"Y\" uses the Halide parameter \"alpha\"; legal "
                                                        "is a Size, for an int32, or an input without axes: "
                                                        "input(\"alpha\", f32, {})");
    Halide::RDom r(0, 4, "r");
    CHECK(op_of(r + n.i).starts_with("here: tensor \"Y\" uses \"r"));
    CHECK(op_of(r + n.i).ends_with("\" of a Halide reduction domain; reduce over an Axis, as in sum(…, k)"));
    CHECK(op_of(Halide::ImageParam(f32, 1, "image")(n.i))
              .starts_with("here: tensor \"Y\" calls the Halide Func \"image"));
    CHECK(op_of(Halide::Buffer<float>(4, "buffer")(n.i)) ==
          "here: tensor \"Y\" reads the Halide image \"buffer\"; read a tensor made by input(…)");
    Halide::Var x("x");
    Halide::Func f("f");
    f(x) = x;
    CHECK(op_of(f(n.i)) == "here: tensor \"Y\" calls the Halide Func \"f\"; write it as a tensor, by compute(…)");
    CHECK(error_of([&] { compute("Y", {n.i}, Halide::Internal::Broadcast::make(n.i, 4)); }) ==
          "here: tensor \"Y\" has elements of type i32x4; legal are bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, "
          "bf16, "
          "f32, f64");
    CHECK(op_of(Halide::Internal::VectorReduce::make(Halide::Internal::VectorReduce::Add,
                                                     Halide::Internal::Broadcast::make(n.i, 4), 1)) ==
          "here: tensor \"Y\" holds a vector, i32x4; a formula defines one element, and vectorize(…) of a schedule "
          "makes vectors");
    CHECK(error_of([&] { input("X", f32.with_lanes(4), {n.i}); }) ==
          "here: input \"X\" has elements of type f32x4; legal are bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, "
          "bf16, "
          "f32, f64");
    CHECK(error_of([&] { input("X", Int(24), {n.i}); }).starts_with("here: input \"X\" has elements of type "));
}

TEST_CASE("functions that no machine here evaluates") {
    Names n;
    const auto unsupported = [&](const Expr &e) {
        try {
            Op("op", {n.A}, {compute("Y", {n.i, n.k}, e)});
        } catch (const Unsupported &error) {
            const std::string text = error.what();
            return text.substr(text.find("tensor"));
        }
        return std::string("none");
    };
    const Expr a = n.A(n.i, n.k);
    const std::string because = ", which formulas do not have: a value depends only on tensors that the formula reads; "
                                "legal functions are in dsl/math.h and dsl/halide.h";
    CHECK(unsupported(Halide::print(a)) == "tensor \"Y\" calls \"halide_print\"" + because);
    CHECK(unsupported(Halide::require(a > 0.f, a, "positive")) == "tensor \"Y\" calls \"require\"" + because);
    CHECK(unsupported(Halide::random_float()) == "tensor \"Y\" calls \"random\"" + because);
    CHECK(unsupported(Halide::Internal::Call::make(f32, "mine", {a}, Halide::Internal::Call::PureExtern)) ==
          "tensor \"Y\" calls \"mine\"" + because);
    CHECK(unsupported(Halide::lerp(a, a, 0.5f)) == "none");
    CHECK(unsupported(Halide::fast_exp(a) + Halide::fast_sin(a) + Halide::atan2(a, a)) == "none");
}

TEST_CASE("what a reduce folds with") {
    Names n;
    const auto folded = [&](const Expr &identity, const std::function<Expr(Expr, Expr)> &combiner) {
        return error_of([&] {
            Op("op", {n.A, n.I}, {compute("Y", {n.i}, reduce(combiner, identity, n.A(n.i, n.k), n.k))});
        });
    };
    CHECK(
        folded(0.f, [&](Expr a, Expr b) { return a + b * cast<float>(n.i); }) ==
        "here: tensor \"Y\" uses \"i\" in the combiner of a reduce, which may use its two arguments and numbers only");
    CHECK(folded(0.f, [&](Expr a, Expr b) { return a + b * cast<float>(n.I(n.i)); }) ==
          "here: tensor \"Y\" reads a tensor in the combiner of a reduce, which may use its two arguments and numbers "
          "only");
    CHECK(
        folded(cast<float>(n.i), [&](Expr a, Expr b) { return a + b; }) ==
        "here: tensor \"Y\" uses \"i\" in the combiner of a reduce, which may use its two arguments and numbers only");
    CHECK(folded(1.f, [&](Expr a, Expr b) { return a * b + a * 2.f; }) == "no error");
}

TEST_CASE("extents and strides") {
    Names n;
    CHECK(error_of([&] { Axis("y", n.I(n.i)); }) ==
          "here: the extent of axis \"y\" reads a tensor; legal are int32 numbers and sizes under + - * / %");
    CHECK(error_of([&] { Axis("y", sum(n.I(n.i), n.i)); }) ==
          "here: the extent of axis \"y\" contains a reduction, which is not allowed there; compute it as a stage of "
          "its own");
    CHECK(error_of([&] { Axis("y", cast<int>(sqrt(cast<float>(Size("M"))))); }) ==
          "here: the extent of axis \"y\" is of type f32 in a part of it; legal are int32 numbers and sizes under + - "
          "* / %");
    CHECK(error_of([&] {
              Axis("y", Halide::Param<int>("p"));
          }).starts_with("here: the extent of axis \"y\" uses the Halide parameter \"p\""));
    CHECK(error_of([&] {
              input("X", f32, {n.i, n.j}, {.strides = {5, -1}});
          }) == "here: the stride of axis \"j\" of input \"X\" is -1; legal is 0 or more");
    CHECK(error_of([&] { compute("Y", {n.i}, n.i + 0, {.strides = {-1}}); }) ==
          "here: the stride of axis \"i\" of tensor \"Y\" is -1; legal is 0 or more");
    CHECK(error_of([&] { input("X", f32, {n.i}, {.strides = {Expr(2.5f)}}); }) ==
          "here: the stride of axis \"i\" of input \"X\" is of type f32 in a part of it; legal are int32 numbers and "
          "sizes under "
          "+ - * / %");
    CHECK(error_of([&] { input("X", f32, {n.i}, {.strides = {Expr()}}); }) ==
          "here: the stride of axis \"i\" of input \"X\" is undefined");
    Tensor X = input("X", f32, {n.i}, {.strides = {Size("L") - 5}});
    CHECK(error_of([&] {
              interpret(Op("op", {X}, {compute("Y", {n.i}, X(n.i))}), {Buffer<float>({4})}, {.sizes = {{"L", 2}}});
          }) == "the stride (L - 5) is -3 at these sizes; legal is 0 or more");
}

TEST_CASE("names") {
    Names n;
    const Tensor Y = compute("Y", {n.i}, n.i + 0);
    CHECK(error_of([&] { Op("", {}, {Y}); }) ==
          "here: op name \"\" is not an identifier; legal are letters, digits and _, not starting with a digit");
    CHECK(
        error_of([&] { compute("C.sum", {n.i}, n.i + 0); }) ==
        "here: tensor name \"C.sum\" is not an identifier; legal are letters, digits and _, not starting with a digit");
    CHECK(error_of([&] { input("a b", f32, {n.i}); }) ==
          "here: input name \"a b\" is not an identifier; legal are letters, digits and _, not starting with a digit");
}

TEST_CASE("extents beyond 32 bits") {
    Size M("M");
    CHECK(error_of([] {
              Axis i("i", Halide::Internal::Variable::make(i32, "x.y"));
              Op("op", {}, {compute("Y", {i}, i + 0)});
          }) ==
          "here: size name \"x.y\" is not an identifier; legal are letters, digits and _, not starting with a digit");
    CHECK(error_of([] { Axis("i", Expr(65536) * 65536); }) ==
          "here: the extent of axis \"i\" overflows 32 bits; legal is up to 2147483647");
    Axis i("i", M * M), a("a", 3), b("b", 70000), c("c", 70000);
    CHECK(error_of([&] {
              interpret(Op("op", {}, {compute("Y", {i}, i + 0)}), {}, {.sizes = {{"M", 65536}}});
          }) == "axis i has the extent 4294967296 at these sizes; legal is 0 to 2147483647");
    Tensor X = input("X", f32, {a, b, c});
    CHECK_THROWS_WITH_AS(Op("op", {X}, {compute("Y", {a}, X(a, 0, 0))}),
                         "axis a has a stride of 4900000000 elements and more; legal is up to 2147483647", Unsupported);
}

TEST_CASE("an index without a known range is refused, and bitwise operations have one") {
    Size N("N");
    Axis d("d", 6), w("w", 8);
    Tensor T = input("T", f32, {w}), S = input("S", f32, {d});
    const auto reads = [&](const Expr &e) { return error_of([&] { Op("op", {T, S}, {compute("Y", {d}, e)}); }); };
    CHECK(reads(T(d ^ N)).find("an index of unknown range that may be outside of axis \"w\"") != std::string::npos);
    CHECK(reads(T(clamp(d ^ N, 0, 7))) == "no error");
    for (const Expr &e : {d | 1, d & 37, d ^ 7, 4 & (d - 9), d ^ 1}) CHECK(reads(T(e)) == "no error");
    CHECK(reads(S(d ^ 1)) == "no error");
    for (const Expr &e : {d ^ 37, d | 8, (d & 15) | 8}) CHECK(reads(T(e)).find("outside") != std::string::npos);
    CHECK(reads(S(d | 2)).find("outside") != std::string::npos); // 5 | 2 is 7
    for (const Expr &e : {1 ^ d, d | 0, d ^ 0}) CHECK(reads(S(e)) == "no error");
    // Both analyses have a range here, and neither proves the read.
    Axis x("x", 32), t("t", 27), n("n", N), m("m", N);
    Tensor R = input("R", f32, {t}), M = input("M", f32, {m});
    CHECK(error_of([&] { Op("op", {R}, {compute("Y", {x}, R(((x % 18) ^ 1) | 10))}); }).find("outside") !=
          std::string::npos);
    const Op open("op", {M}, {compute("Y", {n}, M(((n % 32) ^ 10) | 9))});
    CHECK(!open.requirements().empty());
}

TEST_CASE("an index that is read stays inside for all values") {
    Size N("N");
    Axis i("i", 4), v("v", N), w("w", 10);
    Tensor E = input("E", f32, {v}), T = input("T", f32, {w}), I = input("I", i32, {i}), U = input("U", u8, {i});
    Tensor F = input("F", f32, {i}), L = input("L", u64, {i});
    const auto gather = [&](const Expr &e) {
        return error_of([&] { Op("gather", {E, T, I, U, F, L}, {compute("Y", {i}, e)}); });
    };
    CHECK(gather(E(I(i))) ==
          "here: tensor \"Y\" reads \"E\" at I(i), a data-dependent index that may be outside of axis \"v\"; legal are "
          "indices that are always inside: clamp(…, 0, N - 1), … % N, or a read of "
          "zero_padded(E) or clamped(E)");
    CHECK(gather(T(I(i) % 11)).find("reads \"T\" at I(i) % 11, a data-dependent index") != std::string::npos);
    CHECK(gather(T(U(i))).find("of axis \"w\"; legal are indices that are always inside: clamp(…, 0, 9), … % 10") !=
          std::string::npos);
    CHECK(gather(T(clamp(I(i), -1, 9))).find("may be outside") != std::string::npos);
    CHECK(gather(T(argmax(E(v), v))).find("may be outside") != std::string::npos);
    CHECK(gather(select(I(i) >= 0 && I(i) < 10, T(I(i)), 0.f)).find("may be outside") != std::string::npos);
    for (const Expr &good :
         {E(clamp(I(i), 0, N - 1)), E(I(i) % N), T(I(i) % 10), T(clamp(I(i) + i, 2, 7) + 2), T(cast<int>(U(i)) / 26),
          T(cast<int>(U(i) & 7)), T(max(min(I(i), 9), 0)), zero_padded(E)(I(i)), clamped(T)(I(i) * 3)}) {
        CHECK(gather(good) == "no error");
    }
}

TEST_CASE("reads beyond a tensor") {
    Axis i("i", 10), j("j", 4), r("r", 3), none("none", 0), a("a", 10), b("b", 3);
    Tensor X = input("X", f32, {a}), XX = input("XX", f32, {a, b});
    const auto op = [](const Tensor &in, const Tensor &out) { return [=] { Op("op", {in}, {out}); }; };
    CHECK(error_of(op(X, compute("Y", {i}, X(i * 2 - 1)))) ==
          "here: stage Y reads X outside: its index i * 2 - 1 goes from -1 to 17, but axis a has 10 elements; legal "
          "beyond a "
          "tensor are reads of zero_padded and clamped");
    CHECK(error_of(op(X, compute("Y", {i}, sum(X(i + r), r))))
              .starts_with("here: stage Y reads X outside: its index i + r"));
    CHECK(error_of(op(X, compute("Y", {i}, X(3 - i)))).starts_with("here: stage Y reads X outside: its index 3 - i"));
    // Each residue class of a remainder counts separately.
    Axis d("d", 62), odd("odd", 63), size("size", Size("D"));
    const auto swapped = [](const Axis &at, const std::function<Expr(const Axis &)> &index) {
        return [=] { Op("op", {input("X", f32, {at})}, {compute("Y", {at}, input("X", f32, {at})(index(at)))}); };
    };
    const std::vector<std::function<Expr(const Axis &)>> swaps = {
        [](const Axis &at) { return at + 1 - 2 * (at % 2); }, [](const Axis &at) { return at ^ 1; },
        [](const Axis &at) { return select(at % 2 == 0, at + 1, at - 1); }};
    for (const auto &swap : swaps) {
        CHECK(error_of(swapped(d, swap)) == "no error");
        CHECK(error_of(swapped(odd, swap)).find("goes from 0 to 63, but axis odd has 63 elements") !=
              std::string::npos);
    }
    // Padding along one axis does not pad another.
    CHECK(error_of(op(XX, compute("Y", {i, j}, zero_padded(XX, {a})(i - 1, j))))
              .starts_with("here: stage Y reads XX.padded outside: its index j goes from 0 to 3"));
    CHECK(error_of(op(XX, compute("Y", {i, j}, clamped(XX, {b})(i + 1, j))))
              .starts_with("here: stage Y reads XX.clamped outside: its index i + 1"));
    CHECK(error_of(op(X, compute("Y", {i}, zero_padded(X)(i - 5)))) == "no error");
    CHECK(
        error_of(op(X, compute("Y", {i}, select(i > 0, X(i - 1), 0.0f)))).starts_with("here: stage Y reads X outside"));
    CHECK(error_of(op(X, compute("Y", {i, none}, X(i + 1)))) == "no error"); // never
    CHECK(error_of(op(X, compute("Y", {i}, X(i / 2 + i % 2)))) == "no error");
    CHECK(error_of(op(X, compute("Y", {i}, X(i / 2 + 100))))
              .starts_with("here: stage Y reads X outside: its index i / 2 + 100 goes from 100 to 104"));
    CHECK(error_of(op(X, compute("Y", {i, j}, X(i * j)))).starts_with("here: stage Y reads X outside"));
    CHECK(error_of(op(X, compute("Y", {i}, X(min(i - 5, 3))))).starts_with("here: stage Y reads X outside"));
    Size M("M"), N("N");
    Axis m("m", M), n("n", N), inner("inner", M - 2);
    Tensor Z = input("Z", f32, {n}), S = input("S", f32, {m});
    CHECK(Op("op", {Z}, {compute("Y", {n}, Z(n))}).requirements().empty());
    CHECK(Op("op", {S}, {compute("Y", {inner}, sum(S(inner + r), r))}).requirements().empty());
    const Op open("op", {Z}, {compute("Y", {m}, Z(m + 1))});
    REQUIRE(open.requirements().size() == 1);
    CHECK(open.requirements()[0].text == "M < N (stage Y reads Z at m + 1 of axis n)");
    CHECK(error_of([&] { clamped(input("E", f32, {none})); }) ==
          "here: clamped(E) has no element to clamp indices to: axis none has no elements; legal is 1 or more");
    const Op border("op", {Z}, {compute("Y", {m}, clamped(Z)(m + 1))});
    REQUIRE(border.requirements().size() == 1);
    const std::string some =
        "1 <= N (stage Y reads Z.clamped, which clamps the index of axis n to one of its elements)";
    CHECK(border.requirements()[0].text == some);
    CHECK(error_of([&] { interpret(border, Buffer<float>({0}), Buffer<float>({3})); }) == "op \"op\" requires " + some);
    CHECK(error_of([&] { interpret(border, Buffer<float>({0}), Buffer<float>({0})); }) == "no error");
    CHECK(Op("op", {Z}, {compute("Y", {m}, zero_padded(Z)(m + 1))}).requirements().empty());
    // With a data-dependent index, the tensor must be non-empty.
    Tensor at = input("at", i32, {m});
    const Op by_data("op", {Z, at}, {compute("Y", {m}, Z(clamp(at(m), 0, N - 1)))});
    REQUIRE(by_data.requirements().size() == 1);
    CHECK(by_data.requirements()[0].text == "1 <= N (stage Y reads Z at max(min(at(m), N - 1), 0) of axis n)");
    const auto run = [&](int64_t elements, int64_t results) {
        return error_of(
            [&] { interpret(by_data, Buffer<float>({elements}), Buffer<int>({results}), Buffer<float>({results})); });
    };
    CHECK(run(0, 3) == "op \"op\" requires " + by_data.requirements()[0].text);
    CHECK(run(0, 0) == "no error");
    Axis large("large", 1 << 20);
    CHECK(error_of(op(X, compute("Y", {large}, X(large * 4096)))) ==
          "here: stage Y reads X outside: its index large * 4096 leaves 32 bits; legal beyond a tensor are reads of "
          "zero_padded and clamped");
}

TEST_CASE("buffers larger than memory") {
    CHECK(error_of([] {
              Buffer<double>({1 << 30, 1 << 20});
          }) == "there is no memory for a buffer of f64 with extents [1073741824, 1048576]");
    const int64_t most = INT32_MAX;
    CHECK(error_of([&] {
              Buffer<>(f64, {most, most, most}, {most, most, most});
          }) == "there is no memory for a buffer of f64 with extents [2147483647, 2147483647, 2147483647]");
    CHECK(error_of([&] { Buffer<float>({most, most, most}); }).find("a stride must fit 32 bits") != std::string::npos);
}

TEST_CASE("errors of the interpreter") {
    Names n;
    Op op("op", {n.A, n.B}, {compute("C", {n.i, n.j}, sum(n.A(n.i, n.k) * n.B(n.k, n.j), n.k))});
    Buffer<float> a({4, 6}), b({6, 5}), c({4, 5});
    CHECK(error_of([&] { interpret(op, a); }) == "op \"op\" takes 2 inputs and 1 outputs, but 1 buffers were given");
    CHECK(error_of([&] {
              interpret(op, a, Buffer<float>({6, 4}));
          }) == "op \"op\": tensor B has extent 5 along axis j but its buffer has 4");
    CHECK(error_of([&] {
              interpret(op, a, Buffer<double>({6, 5}));
          }) == "op \"op\": tensor B is f32 but its buffer is f64");
    CHECK(error_of([&] {
              interpret(op, a, b, Buffer<float>({5, 4}));
          }) == "op \"op\": tensor C has extent 4 along axis i but its buffer has 5");
    CHECK(error_of([&] {
              interpret(op, a, Buffer<>(f32, {6, 5}, {1, 6}));
          }) == "op \"op\": tensor B is row-major, with strides [5, 1] but its buffer has [1, 6]");
    CHECK(error_of([&] { interpret(op, {a, b}, {.sizes = {{"M", 3}}}); }) == "op \"op\" has no size M");
    Axis m("m", Size("M") - 5);
    CHECK(error_of([&] {
              interpret(Op("op", {}, {compute("Y", {m}, m + 0)}), {}, {.sizes = {{"M", 2}}});
          }) == "axis m has the negative extent -3 at these sizes");
    CHECK(error_of([&] {
              interpret(Op("op", {}, {compute("Y", {m}, m + 0)}), {}, {.sizes = {{"M", -2}}});
          }) == "size M is -2; legal is 0 to 2147483647");
    CHECK(error_of([&] {
              interpret(Op("op", {}, {compute("Y", {m}, m * 1000000000)}), {}, {.sizes = {{"M", 9}}});
          }) == "stage \"Y\": i32 overflow in 3 * 1000000000; cast to a wider type");
}
