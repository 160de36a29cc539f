// Parameters by reflection: JSON, text, space, samples, neighbours.
#include "ops/matmul.h"
#include "schedules/library/table.h"
#include "schedules/primitive.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

struct Demo {
    BOOST_HANA_DEFINE_STRUCT(Demo, (Tile, rows), (Choice, pack), (Flag, parallel));
};

Demo demo() {
    Demo d;
    d.rows = Tile(4, {1, 2, 4, 6});
    d.pack = Choice("L2", {"none", "L1", "L2"});
    d.parallel = Flag(false);
    return d;
}

std::unique_ptr<Space> demo_space() {
    return make_template<Demo>(
               "demo", "a demonstration", [](const Op &) { return true; },
               [](const Op &, const Machine &) { return demo(); },
               [](const Op &op, const Machine &m, const Demo &d) {
                   Schedule s(op, m);
                   s.stage("C").split("i", d.rows);
                   return s;
               },
               [](const Op &, const Machine &, const Demo &d) {
                   return d.rows == 6 && d.parallel ? "six rows in parallel" : "";
               })
        .make_space(ops::matmul(Float(32), 8, 8, 8), Machine::host());
}

} // namespace

TEST_CASE("a described struct round-trips through JSON and text") {
    Demo d = demo();
    CHECK(parameter_names<Demo>() == std::vector<std::string>{"rows", "pack", "parallel"});
    CHECK(parameters_to_json(d).dump() == R"({"rows":4,"pack":"L2","parallel":false})");
    CHECK(parameters_text(d) == "rows=4,pack=L2,parallel=false");
    const std::string before = parameters_hash(d);
    parameters_from_text(d, "rows=6,parallel=yes");
    CHECK(parameters_hash(d) != before);
    CHECK(d.rows == 6);
    CHECK(bool(d.parallel));
    Demo e = demo();
    parameters_from_json(e, parameters_to_json(d));
    CHECK(parameters_text(e) == "rows=6,pack=L2,parallel=true");
    CHECK_THROWS_WITH_AS(parameters_from_text(e, "rows=5"), "parameter rows cannot be 5; here it may be 1, 2, 4, 6",
                         UserError);
    CHECK_THROWS_WITH_AS(parameters_from_text(e, "row=4"), "there is no parameter \"row\" (did you mean 'rows'?)",
                         UserError);
    CHECK_THROWS_WITH_AS(parameters_from_json(e, Json{{"pack", 3}}),
                         "parameter pack cannot be 3; here it may be none, L1, L2", UserError);
    CHECK(parameters_text(e) == "rows=6,pack=L2,parallel=true");
}

TEST_CASE("tile sizes hold divisors and powers of two") {
    CHECK(Tile::sizes(56, 4, 32) == std::vector<int64_t>{4, 6, 7, 8, 12, 14, 16, 24, 28, 32});
    CHECK(Tile::sizes(1, 4, 32) == std::vector<int64_t>{1});
    CHECK(Tile::nearest(7, {4, 8}).value() == 8);
}

TEST_CASE("a space samples, steps and schedules") {
    auto space = demo_space();
    CHECK(space->size() == 24);
    const Point begin = space->default_point();
    CHECK(space->to_json(begin).dump() == R"({"rows":4,"pack":"L2","parallel":false})");
    CHECK(space->from_json(space->to_json(begin)) == begin);
    CHECK(space->schedule(begin).directives().size() == 1);
    std::vector<std::string> near;
    for (const Point &p : space->neighbours(begin)) near.push_back(space->text(p));
    CHECK(near == std::vector<std::string>{"rows=2,pack=L2,parallel=false", "rows=6,pack=L2,parallel=false",
                                           "rows=4,pack=none,parallel=false", "rows=4,pack=L1,parallel=false",
                                           "rows=4,pack=L2,parallel=true"});
    Random random(1);
    std::set<Point> seen;
    for (int i = 0; i < 1000; i++) seen.insert(space->sample(random));
    CHECK(seen.size() == 21); // three of the 24 have a reason against them
    CHECK_THROWS_WITH_AS(space->from_json(Json{{"rows", 4}}), "parameter pack is missing", UserError);
}
