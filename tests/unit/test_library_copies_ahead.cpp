// Copies that kernels make of their inputs, made by the caller instead.
// Links: driver
#include "dsl/math.h"
#include "dsl/reduction.h"
#include "schedules/library/copies_ahead.h"
#include "schedules/library/table.h"
#include "tests/unit/check_runs.h"

using namespace kumiko;

namespace {

// Two products of matrices; both read weights by rows, the first a slice.
Op two_products(Type sums, Type bytes, bool both_halves) {
    const Axis i("i", 40), j("j", 600), k("k", 512), l("l", 300), d("d", 2), h("h", 600);
    const Tensor X = input("X", bytes, {i, k}), W = input("W", bytes == u8 ? i8 : bytes, {d, j, k}),
                 V = input("V", f32, {l, h});
    const auto product = [&](const char *name, int half) {
        const Element e = sum(cast(sums, X(i, k)) * cast(sums, W(half, j, k)), k);
        return compute(name, {i, j}, max(cast(f32, e), 0.f));
    };
    const Tensor T = product("T", 0);
    if (!both_halves) return Op("net", {X, W, V}, {compute("Y", {i, l}, sum(T(i, h) * V(l, h), h))});
    const Tensor U = product("U", 1);
    return Op("net", {X, W, V}, {compute("Y", {i, l}, sum((T(i, h) - U(i, h)) * V(l, h), h))});
}

std::set<std::string> prepacked(const Schedule &s) {
    std::set<std::string> inputs;
    for (const StageState &stage : s.state().stages) {
        if (stage.prepacked) inputs.insert(stage.copied.empty() ? stage.name() : stage.copied);
    }
    return inputs;
}

} // namespace

TEST_CASE("copies of constants are made ahead, others stay in the kernel") {
    for (const auto &[sums, bytes] : {std::pair(f32, f32), std::pair(i32, u8)}) {
        const Schedule s = default_schedule(two_products(sums, bytes, false), Machine::host());
        CHECK(prepacked(s).empty());
        CHECK_FALSE(library::with_copies_ahead(s, [](const std::string &) { return false; }));
        for (const std::string constant : {"W", "V"}) {
            CAPTURE(constant);
            const auto ahead =
                library::with_copies_ahead(s, [&](const std::string &input) { return input == constant; });
            // Without an instruction for bytes they are read in place.
            if (!ahead && bytes == u8 && constant == "W") continue;
            REQUIRE(ahead);
            CHECK_EQ(prepacked(*ahead).size(), 1);
            check_runs(*ahead);
        }
        const auto all = library::with_copies_ahead(s, [](const std::string &input) { return input != "X"; });
        REQUIRE(all);
        CHECK_GE(prepacked(*all).size(), bytes == u8 ? 1 : 2);
        check_runs(*all);
    }
}

TEST_CASE("results stay right if two stages read parts of an input") {
    const Schedule s = default_schedule(two_products(i32, u8, true), Machine::host());
    const auto ahead = library::with_copies_ahead(s, [](const std::string &) { return true; });
    check_runs(ahead ? *ahead : s);
}

TEST_CASE("products of slices have the schedules of products") {
    const Axis i("i", 40), j("j", 70), k("k", 48), d("d", 3);
    const Tensor A = input("A", u8, {d, i, k}), B = input("B", i8, {j, d, k});
    const Op op("slices", {A, B}, {compute("C", {i, j}, sum(cast(i32, A(1, i, k)) * cast(i32, B(j, 2, k)), k))});
    CHECK_EQ(library::find_template(op)->name, "matmul");
    check_runs(default_schedule(op, Machine::host()));
    const Tensor L = input("L", f32, {i, k, d}); // the constant index is the last one
    const Tensor R = input("R", f32, {k, j});
    check_runs(
        default_schedule(Op("last", {L, R}, {compute("C", {i, j}, sum(L(i, k, 1) * R(k, j), k))}), Machine::host()));
}
