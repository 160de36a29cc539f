// Halide functions that formulas may call, and data-dependent indices: the interpreter, LLVM and
// Halide must agree.
// Links: driver
#include "driver/kernel.h"
#include "dsl/interpret.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

// Equal bits from all three, scalar and in vectors with a tail.
void check_agrees(const Op &op, const std::vector<Buffer<>> &inputs) {
    INFO(op.to_string());
    const Buffer<> expected = interpret(op, inputs)[0];
    for (const bool through_halide : {false, true}) {
        for (const int lanes : {0, 8}) {
            Schedule s(op);
            if (lanes) s.stage(op.outputs()[0]).vectorize(s.stage(op.outputs()[0]).state().order.back(), lanes);
            CompileOptions options;
            options.through_halide = through_halide;
            Buffer<> y(expected.type(), expected.extents());
            std::vector<Buffer<>> all = inputs;
            all.push_back(y);
            compile(s, Target::host(), options)(all);
            CHECK_MESSAGE(difference(y, expected) == "", (through_halide ? "Halide" : "LLVM") << " lanes " << lanes);
        }
    }
}

} // namespace

TEST_CASE("integer intrinsics") {
    const int n = 37;
    Axis i("i", n);
    for (const Type t : {i8, i16, i32, u8, u16, u32}) {
        Tensor A = input("A", t, {i}), B = input("B", t, {i});
        Buffer<> a = random_integers(t, {n}, 1, -1000, 1000), b = random_integers(t, {n}, 2, -1000, 1000);
        const Expr ends[] = {t.min(), t.max()};
        for (int l = 0; l < 8; l++) { // the ends of the range beside each other
            for (Buffer<> *x : {&a, &b}) {
                const int64_t v = *Halide::Internal::as_const_int(
                    Halide::Internal::simplify(Halide::cast(Int(64), ends[(x == &a ? l : l / 2) % 2])));
                memcpy(static_cast<uint8_t *>(x->data()) + l * t.bytes(), &v, static_cast<size_t>(t.bytes()));
            }
        }
        const Expr x = A(i), y = B(i);
        std::vector<Expr> all = {Halide::saturating_add(x, y),
                                 Halide::saturating_sub(x, y),
                                 Halide::halving_add(x, y),
                                 Halide::rounding_halving_add(x, y),
                                 Halide::halving_sub(x, y),
                                 Halide::widening_add(x, y),
                                 Halide::widening_mul(x, y),
                                 Halide::absd(x, y),
                                 Halide::saturating_cast(i8, x),
                                 Halide::saturating_cast(u16, x),
                                 Halide::rounding_shift_right(x, 2),
                                 Halide::mul_shift_right(x, y, t.bits() / 2),
                                 Halide::lerp(x, y, cast(UInt(t.bits()), 7)),
                                 Halide::mux(cast<int>(i) % 3, {x, y, cast(t, 5)})};
        if (t.is_uint()) {
            all.push_back(Halide::extract_bits(UInt(8), x, 0));
            if (t.bits() <= 16) all.push_back(Halide::concat_bits({x, y}));
        }
        for (const Expr &e : all) check_agrees(Op("f", {A, B}, {compute("Y", {i}, e + cast(e.type(), y - y))}), {a, b});
    }
}

TEST_CASE("lerp of floats, and strict arithmetic") {
    Axis i("i", 21);
    Tensor A = input("A", f32, {i}), B = input("B", f32, {i});
    const Buffer<> a = random_integers(f32, {21}, 1), b = random_integers(f32, {21}, 2);
    check_agrees(Op("lerp", {A, B}, {compute("Y", {i}, Halide::lerp(A(i), B(i), 0.25f))}), {a, b});
    check_agrees(Op("strict", {A, B}, {compute("Y", {i}, Halide::strict_float(A(i) * B(i) + A(i)))}), {a, b});
}

TEST_CASE("gathers from inputs, stages and paddings") {
    Axis i("i", 50), v("v", 10), c("c", 5);
    Tensor E = input("E", f32, {v, c}), I = input("I", i32, {i});
    const Buffer<> e = random_integers(f32, {10, 5}, 1), index = random_integers(i32, {50}, 2, -30, 30);
    Tensor T = compute("T", {v, c}, E(v, c) * 2.f);
    const Expr inside = clamp(I(i), 0, 9);
    check_agrees(Op("rows", {E, I}, {compute("Y", {i, c}, E(inside, c))}), {e, index});
    check_agrees(Op("modulo", {E, I}, {compute("Y", {c, i}, E(I(i) % 10, c))}), {e, index});
    check_agrees(Op("stage", {E, I}, {compute("Y", {i, c}, T(inside, c))}), {e, index});
    check_agrees(Op("zeros", {E, I}, {compute("Y", {i, c}, zero_padded(E)(I(i), c - 1))}), {e, index});
    check_agrees(Op("ends", {E, I}, {compute("Y", {i, c}, clamped(T)(I(i), c))}), {e, index});
    Axis k("k", 50);
    check_agrees(Op("bag", {E, I}, {compute("Y", {c}, sum(E(clamp(I(k), 0, 9), c), k))}), {e, index});
}
