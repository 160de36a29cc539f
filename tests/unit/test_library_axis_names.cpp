// An input's axes may have other names than the loops of the stage that reads it. The library's
// schedules then have the same points, legal for the same reasons, and results stay right.
// Links: driver
#include "dsl/reduction.h"
#include "schedules/library/table.h"
#include "sim/config.h"
#include "targets/chip/compile.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

Tensor named(const std::string &tensor, Type type, const std::vector<Axis> &axes, bool otherwise) {
    std::vector<Axis> names;
    for (const Axis &a : axes)
        names.push_back(otherwise ? Axis(tensor + "_" + std::to_string(names.size()), a.extent()) : a);
    return input(tensor, type, names);
}

struct Types {
    Type a, b, sum;
};

Op product(Types t, bool by_columns, bool batched, bool otherwise) {
    const Axis b("b", 2), i("i", 40), j("j", 70), k("k", 48);
    const Tensor A = named("A", t.a, batched ? std::vector<Axis>{b, i, k} : std::vector<Axis>{i, k}, otherwise),
                 B = named("B", t.b, by_columns ? std::vector<Axis>{j, k} : std::vector<Axis>{k, j}, otherwise);
    const Element x = cast(t.sum, batched ? A(b, i, k) : A(i, k)), y = cast(t.sum, by_columns ? B(j, k) : B(k, j));
    return Op("product", {A, B},
              {compute("C", batched ? std::vector<Axis>{b, i, j} : std::vector<Axis>{i, j}, sum(x * y, k))});
}

Op dots(bool otherwise) {
    const Axis i("i", 37), j("j", 4), k("k", 600);
    const Tensor A = named("A", f32, {i, k}, otherwise), B = named("B", f32, {k, j}, otherwise);
    return Op("dots", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k))});
}

Op conv(Types t, int channels, bool last, bool otherwise) {
    const Axis n("n", 1), o("o", 32), y("y", 14), x("x", 14), c("c", channels), ky("ky", 3), kx("kx", 3);
    const Tensor X = named("X", t.a, last ? std::vector<Axis>{n, y, x, c} : std::vector<Axis>{n, c, y, x}, otherwise),
                 W = named("W", t.b, last ? std::vector<Axis>{ky, kx, c, o} : std::vector<Axis>{o, c, ky, kx},
                           otherwise);
    const Tensor Z = zero_padded(X);
    const auto sums = [&](const Element &image, const Element &weight, const std::vector<Axis> &window) {
        return sum(cast(t.sum, image) * cast(t.sum, weight), window);
    };
    const Expr h = y + ky - 1, w = x + kx - 1;
    return Op("conv", {X, W},
              {last ? compute("Y", {n, y, x, o}, sums(Z(n, h, w, c), W(ky, kx, c, o), {ky, kx, c}))
                    : compute("Y", {n, o, y, x}, sums(Z(n, c, h, w), W(o, c, ky, kx), {c, ky, kx}))});
}

std::string refused(const Space &space, const Point &point) {
    return refusal([&] { space.schedule(point); }) == "no error" ? "" : "refused";
}

// Compares the spaces of the formula with both kinds of names, and runs some of their schedules.
void compare(const std::function<Op(bool)> &formula, const std::string &name) {
    const Op same = formula(false), other = formula(true);
    CAPTURE(other.to_string());
    const LibraryTemplate *t = library::find_template(same);
    REQUIRE_EQ(t->name, name);
    REQUIRE_EQ(library::find_template(other), t);
    for (const PackedBy packed_by : {PackedBy::Kernel, PackedBy::Caller}) {
        const bool packs_ahead = name == "matmul" || name == "conv_filters";
        if (packed_by == PackedBy::Caller && !packs_ahead) continue;
        const auto space = t->make_space(same, Machine::host(), packed_by),
                   renamed = t->make_space(other, Machine::host(), packed_by);
        check_runs(renamed->schedule(renamed->default_point()));
        Random random(3);
        for (int n = 0; n < 12; n++) {
            const Point point = space->sample(random);
            CAPTURE(space->text(point));
            CHECK_EQ(refused(*renamed, point), refused(*space, point));
            if (n < 2 && refused(*renamed, point).empty()) check_runs(renamed->schedule(point));
        }
    }
}

} // namespace

TEST_CASE("products of matrices whose axes have names of their own") {
    for (const Types &t : {Types{f32, f32, f32}, {bf16, bf16, f32}, {u8, i8, i32}, {i8, i8, i32}}) {
        for (const bool by_columns : {false, true})
            compare([&](bool otherwise) { return product(t, by_columns, by_columns, otherwise); }, "matmul");
    }
    compare(dots, "dots");
}

TEST_CASE("convolutions whose images and weights have axes with names of their own") {
    for (const Types &t : {Types{f32, f32, f32}, {u8, i8, i32}}) {
        for (const bool last : {false, true}) {
            for (const int channels : {3, 16})
                compare([&](bool otherwise) { return conv(t, channels, last, otherwise); },
                        last || t.a == u8 || channels == 16 ? "conv_filters" : "conv");
        }
    }
}

TEST_CASE("on the chip") {
    const sim::Config config = sim::Config::load("small");
    const auto cycles = [&](const Op &op) {
        const auto space = library::space_of(op, chip_machine(config));
        const ChipProgram p = compile_chip(space->schedule(space->default_point()), config);
        std::vector<Buffer<>> arrays;
        for (const Input &in : op.inputs()) {
            arrays.push_back(make_input(in, {}));
            fill_random_integers(arrays.back(), arrays.size(), -3, 3);
        }
        const Results expected = interpret(op, arrays);
        arrays.push_back(make_output(op, "C", {}));
        const sim::Run run = p.run(arrays);
        CHECK_EQ(difference(arrays.back(), expected.front()), "");
        return run.cycles();
    };
    CHECK_EQ(cycles(product({f32, f32, f32}, false, false, true)),
             cycles(product({f32, f32, f32}, false, false, false)));
}
