// The default gives a stage the loops of its sketch if these are estimated to be faster.
// Links: driver
// Levels: no
#include "autotune/choice.h"
#include "autotune/spaces/auto_space.h"
#include "autotune/tune.h"
#include "driver/default_schedule.h"
#include "dsl/reduction.h"
#include "dsl/top_k.h"
#include "schedules/library/elementwise.h"
#include "schedules/library/table.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/count.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kumiko;

namespace {

// The nearest of c centres for each of n points. Lanes along the short axis c would be mostly
// empty.
Op nearest(const Expr &n, int c) {
    Axis i("i", n), j("j", c);
    Tensor D = input("D", f32, {i, j});
    const Extreme best = argmin(D(i, j), j);
    return Op("nearest", {D}, {compute("label", {i}, best), compute("distance", {i}, best.value)});
}

// Sums of differences over a window: 9 of 16 lanes belong to one row of results.
Op search(int rows) {
    Axis v("v", rows), u("u", 24), q("q", 9), p("p", 9), j("j", 8), i("i", 8);
    Tensor L = input("L", f32, {Axis("y", 8 * rows), Axis("x", 192)});
    Tensor R = input("R", f32, {Axis("y", 8 * rows + 8), Axis("x", 200)});
    return Op(
        "search", {L, R},
        {compute("sad", {v, u, q, p}, sum(abs(L(v * 8 + j, u * 8 + i) - R(v * 8 + j + q, u * 8 + i + p)), {j, i}))});
}

Schedule by_rules(const Op &op, const Machine &machine) {
    return library::schedule_elementwise(op, machine, library::elementwise_parameters(op, machine));
}

} // namespace

TEST_CASE("the default takes sketches that count and model prefer") {
    const Machine machine = Machine::named("x86-64-avx512");
    const Op op = search(16);
    const Schedule rules = by_rules(op, machine), chosen = default_schedule(op, machine);
    CHECK(has_choice(op, rules));
    CHECK(chosen.to_json() != rules.to_json());
    CHECK(chosen.to_json() == default_schedule(op, machine).to_json());
    const auto space = auto_space(op, machine); // tuning begins there
    CHECK(space->schedule(space->default_point()).to_json() == chosen.to_json());
    CHECK(space->to_json(space->default_point()).at("sad.loops") == "sketch");
}

TEST_CASE("data-dependent rows get no register tile") {
    Axis b("b", 200), l("l", 20), d("d", 64);
    Tensor table = input("table", f32, {Axis("v", 1000), d}), id = input("id", i32, {b, l});
    const Op bag("bag", {table, id}, {compute("Y", {b, d}, sum(table(clamp(id(b, l), 0, 999), d), l))});
    const Machine machine = Machine::named("x86-64-avx512");
    CHECK(!has_choice(bag, by_rules(bag, machine)));
    CHECK(has_choice(search(16), by_rules(search(16), machine)));
}

TEST_CASE("lanes are across short rows if that is counted as much faster") {
    const Machine machine = Machine::named("x86-64-avx512");
    Axis i("i", 5000), j("j", 5);
    Tensor X = input("X", f32, {i, j});
    const Op least("least", {X}, {compute("label", {i}, argmin(X(i, j), j))}),
        total("total", {X}, {compute("S", {i}, sum(X(i, j), j))});
    CHECK(library::find_template(least)->name == "rows");
    const std::string nest = default_schedule(least, machine).nest();
    CHECK(says(nest, "label(i) argmin= …"));
    CHECK(!says(nest, "label.rf"));
    const auto space = space_for(least, machine, SpaceKind::Fitting).second;
    CHECK(space->schedule(space->default_point()).nest() == nest);
    const auto rows = library::find_template(total)->make_space(total, machine);
    CHECK(default_schedule(total, machine).to_json() == rows->schedule(rows->default_point()).to_json());
    check_runs(default_schedule(least, Machine::host()));
}

TEST_CASE("of short rows the count decides which axis has the lanes") {
    const Machine machine = Machine::named("x86-64-avx512");
    Axis i("i", 5000);
    for (const int length : {16, 20, 32, 63}) { // of which 16 and 32 are whole vectors
        CAPTURE(length);
        Axis j("j", length);
        Tensor X = input("X", f32, {i, j});
        const Op alone("alone", {X}, {compute("label", {i}, argmin(X(i, j), j))});
        for (const Op &op : {alone, nearest(5000, length)}) {
            const std::string nest = default_schedule(op, machine).nest();
            CAPTURE(nest);
            CHECK(says(nest, "vectorized i"));
            CHECK(!says(nest, "label.rf"));
            check_runs(default_schedule(op, Machine::host()));
        }
    }
    // Long rows have lanes along themselves.
    Axis k("k", 1000);
    Tensor X = input("X", f32, {i, k});
    CHECK(says(default_schedule(Op("long", {X}, {compute("label", {i}, argmin(X(i, k), k))}), machine).nest(),
               "label.rf"));
}

TEST_CASE("each value that a stage folds counts as its steps do") {
    const Machine machine = Machine::named("x86-64-avx512");
    Axis t("t", 200), x("x", 16);
    Tensor X = input("X", f32, {t, x});
    const Tuple best = top_k(X(t, x), x, 2); // 3,200 steps, each of four values
    const Op op(
        "gate", {X},
        {compute("margin", {t}, best[0] - best[1]), compute("first", {t}, best[2]), compute("second", {t}, best[3])});
    CHECK(has_choice(op, by_rules(op, machine)));
    const std::string nest = default_schedule(op, machine).nest();
    CAPTURE(nest);
    CHECK(says(nest, "margin.reduce"));
    const auto space = auto_space(op, machine);
    CHECK(space->to_json(space->default_point()).at("margin.reduce.vector") == "t");
    check_runs(default_schedule(op, Machine::host()));
}

TEST_CASE("rules replace a schedule of one reduction that makes no tile") {
    const Machine machine = Machine::named("x86-64-avx512");
    Axis i("i", 180), j("j", 160), k("k", 180);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
    const Op lower("lower", {A, B}, {compute("C", {i, j}, sum(A(i, k) * B(k, j), k, where(k <= i)))});
    CHECK(library::find_template(lower)->name == "reduce");
    CHECK(library_leaves_out(lower, machine));
    const Schedule chosen = default_schedule(lower, machine);
    CHECK(chosen.to_json() == by_rules(lower, machine).to_json());
    const auto space = space_for(lower, machine, SpaceKind::Fitting).second;
    CHECK(space->schedule(space->default_point()).to_json() == chosen.to_json());
    check_runs(default_schedule(lower, Machine::host()));
    // Symbolic sizes are not counted. Tuning nevertheless searches the tiles.
    Axis m("m", Size("M"));
    Tensor R = input("R", f32, {m, k});
    const Op open("open", {R, B}, {compute("C", {m, j}, sum(R(m, k) * B(k, j), k, where(k <= j)))});
    CHECK(library::find_template(open)->name == "reduce");
    CHECK(library_leaves_out(open, machine));
    CHECK(space_for(open, machine, SpaceKind::Fitting).first == "auto");
    const auto reduce = library::find_template(open)->make_space(open, machine);
    CHECK(default_schedule(open, machine).to_json() == reduce->schedule(reduce->default_point()).to_json());
}

TEST_CASE("the library's schedule of short rows stays a point of the space") {
    const Machine machine = Machine::named("x86-64-avx512");
    Axis i("i", 5000), j("j", 5);
    Tensor X = input("X", f32, {i, j});
    const Op least("least", {X}, {compute("label", {i}, argmin(X(i, j), j))});
    const auto space = space_for(least, machine, SpaceKind::Fitting).second;
    const auto rows = library::find_template(least)->make_space(least, machine);
    const std::vector<Point> starts = space->starts();
    CHECK(std::any_of(starts.begin(), starts.end(), [&](const Point &start) {
        return space->reason_against(start).empty() &&
               space->schedule(start).nest() == rows->schedule(rows->default_point()).nest();
    }));
}

TEST_CASE("the rules stay if little is gained") {
    const Machine machine = Machine::named("x86-64-avx512");
    for (const Op &op : {nearest(60, 20), nearest(Size("n"), 20)}) {
        const Schedule rules = by_rules(op, machine);
        CHECK(!has_choice(op, rules));
        CHECK(default_schedule(op, machine).to_json() == rules.to_json());
    }
}

TEST_CASE("chosen loops compute what the formula says") {
    for (const Op &op : {search(4), nearest(1003, 20)}) {
        check_runs(default_schedule(op, Machine::host()));
    }
}
