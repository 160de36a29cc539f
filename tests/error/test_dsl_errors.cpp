// What a wrong formula is told. Each case is one mistake with the text expected.
#include "dsl/interpret.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

// The message of the UserError that f throws; "here: " stands for this file and a line.
template<typename F>
std::string error_of(F f) {
    try {
        f();
    } catch (const UserError &e) {
        std::string text = e.what();
        if (text.starts_with("test_dsl_errors.cpp:")) text = "here: " + text.substr(text.find(": error: ") + 9);
        return text;
    }
    return "no error";
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
}

TEST_CASE("tensors") {
    Names n;
    CHECK(error_of([&] {
              Tensor t;
              t(n.i);
          }) == "this tensor is undefined; make it with input(…) or compute(…)");
    CHECK(error_of([&] { n.A(n.i); }) == "tensor \"A\" has 2 axes but is read with 1 indices");
    CHECK(error_of([&] { n.A(n.i, cast<float>(n.k)); }) ==
          "index 1 of tensor \"A\" has type f32; an index is an int32 expression: cast it");
    CHECK(error_of([&] {
              input("X", f32, {n.i, n.i});
          }) == "here: axis \"i\" stands twice in the axes of tensor \"X\"");
    CHECK(error_of([&] {
              input("X", f32, {n.i, n.j}, {.strides = {1}});
          }) == "here: input \"X\" has 2 axes but 1 strides; state one per axis, in elements");
    CHECK(error_of([&] { compute("X", {n.i}, Expr()); }) == "here: the value of tensor \"X\" is undefined");
    CHECK(error_of([&] { zero_padded(n.A, {n.j}); }) == "here: tensor \"A\" has no axis \"j\"");
}

TEST_CASE("mixed types need a cast") {
    Names n;
    CHECK(error_of([&] { n.A(n.i, n.k) * n.I(n.i); }) == "\"*\" has a f32 on its left and a i32 on its right; cast one "
                                                         "of them, so that the type of the arithmetic is stated");
    CHECK(error_of([&] { n.A(n.i, n.k) + n.i; }) == "\"+\" has a f32 on its left and a i32 on its right; cast one of "
                                                    "them, so that the type of the arithmetic is stated");
    CHECK(error_of([&] { n.A(n.i, n.k) * 2; }) == "no error");
    CHECK(error_of([&] { n.A(n.i, n.k) * 2.5; }) == "no error");
    CHECK(error_of([&] { 2.5 * n.I(n.i); }) ==
          "\"*\" has a i32 on one side and the number 2.5 on the other; cast the i32 to a float type");
    CHECK(error_of([&] { n.A(n.i, n.k) * cast<float>(n.I(n.i)); }) == "no error");
}

TEST_CASE("reductions") {
    Names n;
    CHECK(error_of([&] { sum(n.A(n.i, n.k), AxisList(std::vector<Axis>{})); }) ==
          "sum over no axes; name at least one");
    CHECK(error_of([&] { sum(n.A(n.i, n.k) > 0.f, n.k); }) ==
          "sum of a bool expression; cast it to the type in which to accumulate");
    CHECK(error_of([&] { reduce([](Expr a, Expr) { return cast<int>(a); }, 0.f, n.A(n.i, n.k), n.k); }) ==
          "reduce folds f32 but its identity is f32 and its combiner gives i32; all three must be of one type");
    CHECK(error_of([&] {
              Op("op", {n.A}, {compute("Y", {n.i, n.k}, sum(n.A(n.i, n.k), n.k))});
          }) ==
          "here: tensor \"Y\" reduces over axis \"k\", which already ranges outside the reduction; use another name");
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
          }) == "here: \"A\" cannot be an output: an output is made by compute(…)");
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

TEST_CASE("interpreting") {
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
