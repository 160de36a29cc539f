// The decisions of schedules for each stage, and the alternatives that a space offers beside a
// point.
// Links: driver
// Levels: no
#include "autotune/alternatives.h"
#include "autotune/tune.h"
#include "driver/default_schedule.h"
#include "driver/kernel.h"
#include "dsl/reduction.h"
#include "schedules/summary.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

Op norm() {
    Axis i("i", 64), j("j", 200), k("k", 200);
    Tensor X = input("X", f32, {i, j});
    Tensor square = compute("square", {i, j}, X(i, j) * X(i, j));
    Tensor total = compute("total", {i}, sum(square(i, k), k));
    return Op("norm", {X}, {compute("Y", {i, j}, square(i, j) / total(i)), compute("most", {j}, maximum(X(i, j), i))});
}

std::string text_of(const std::vector<StageSummary> &all, const std::string &stage) {
    for (const StageSummary &s : all) {
        if (s.stage == stage) return s.text;
    }
    return "no such stage";
}

std::string sketch(const std::vector<StageSummary> &all, const std::string &stage) {
    for (const StageSummary &s : all) {
        if (s.stage == stage) return s.sketch;
    }
    return "no such stage";
}

} // namespace

TEST_CASE("a line for each stage") {
    Axis i("i", 32), j("j", 64), k("k", 16);
    Tensor A = input("A", f32, {i, k}), B = input("B", f32, {k, j});
    Tensor twice = compute("twice", {i, k}, A(i, k) * 2);
    Tensor C = compute("C", {i, j}, sum(twice(i, k) * B(k, j), k));
    Schedule s(Op("product", {A, B}, {compute("Y", {i, j}, C(i, j) + 1)}));
    s.stage("twice").inline_into();
    s.stage("C").finish_in("Y");
    s.stage("C").split("i", 4);
    s.stage("C").reorder({"i.o", "j", "k", "i.i"}).parallel("i.o").unroll("i.i");
    s.stage("C").accumulate_in("registers", "j");
    s.place_in("B", "L2", "C", "i.o");
    const std::vector<StageSummary> all = summaries(s);
    CHECK(text_of(all, "twice") == "inlined into C");
    CHECK(text_of(all, "B.L2") == "a copy of B, computed at loop i.o of C");
    CHECK(text_of(all, "C") ==
          "in a nest of its own; parallel along i.o; unrolled i.i (4); partial results in registers "
          "inside of j; computes Y at its end");
    CHECK(text_of(all, "Y") == "computed at the end of C");
    CHECK(sketch(all, "C") == "scalar");
    CHECK(sketch(all, "twice") == "");
    CHECK(sketch(all, "B.L2") == "");
    Schedule tiled(s.op());
    tiled.stage("C").split("i", 4);
    tiled.stage("C").split("j", 8);
    tiled.stage("C").reorder({"i.o", "j.o", "k", "i.i", "j.i"}).unroll("i.i").vectorize("j.i");
    CHECK(sketch(summaries(tiled), "C") == "vectors");
    tiled.stage("C").accumulate_in("registers", "j.o");
    CHECK(sketch(summaries(tiled), "C") == "register tile");
    const Kernel kernel = compile(s);
    CHECK(kernel.report().stages.size() == all.size());
    CHECK(text_of(kernel.report().stages, "twice") == "inlined into C");
}

TEST_CASE("a kernel reports what its default schedule was compared with") {
    Axis t("t", 4096), x("x", 16);
    Tensor X = input("X", f32, {t, x});
    const Op op("places", {X}, {compute("Y", {t}, argmax(X(t, x), x))});
    const Kernel kernel = compile(op);
    const auto &all = kernel.report().compared;
    REQUIRE(!all.empty());
    for (const ComparedPoint &other : all) {
        CHECK(other.relative_time > 0);
        if (other.chosen) CHECK(other.relative_time <= 0.9);
    }
    CHECK(all.front().change.find("Y.loops = sketch") != std::string::npos);
    CHECK(compile(Schedule(op)).report().compared.empty());
}

TEST_CASE("alternatives are the neighbours of a point, the best by the model first") {
    const auto [name, space] = space_for(norm(), Machine::named("x86-64-avx2"), SpaceKind::Fitting);
    CHECK(name == "auto");
    const Point point = space->default_point();
    const auto all = alternatives(*space, point, *CostModel::shipped(space->machine()), 1, {});
    CHECK(all.size() == space->neighbours(point).size());
    REQUIRE(!all.empty());
    bool inlined = false;
    for (size_t n = 0; n < all.size(); n++) {
        inlined = inlined || all[n].change == "square.at = root";
        CHECK((all[n].against.empty() ? all[n].relative > 0 : all[n].relative == 0));
        if (n && all[n].against.empty()) CHECK(all[n - 1].score >= all[n].score);
    }
    CHECK(inlined);
    // An untrained model changes neither the order nor the estimates.
    const auto plain = alternatives(*space, point, CostModel(), 1, {});
    CHECK(plain.size() == all.size());
    for (const Alternative &a : plain) CHECK(a.score == 0);
}
