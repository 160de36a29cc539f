// Typed reading of JSON, and errors with paths.
#include "support/error.h"
#include "support/json.h"

#include <doctest/doctest.h>

using namespace kumiko;

TEST_CASE("typed reading") {
    Json j = parse_json(R"({"name": "m", "levels": [{"bytes": 32}], "clock": 2.5, "on": true})", "m.json");
    JsonView v(j, "m.json");
    CHECK(v["name"].string() == "m");
    CHECK(v["levels"][0]["bytes"].integer() == 32);
    CHECK(v["clock"].number() == 2.5);
    CHECK(v["on"].boolean());
    CHECK(v.integer_or("count", 5) == 5);
    CHECK(v.keys().front() == "name"); // as written
}

TEST_CASE("errors name the document, the path and what was found") {
    Json j = parse_json(R"({"levels": [{"bytes": "big"}, {}], "n": 2.5})", "m.json");
    JsonView v(j, "m.json");
    CHECK_THROWS_WITH_AS(v["levels"][0]["bytes"].integer(),
                         "m.json: /levels/0/bytes: expected a whole number, found \"big\"", UserError);
    CHECK_THROWS_WITH(v["levels"][1]["bytes"], "m.json: /levels/1: 'bytes' is missing");
    CHECK_THROWS_WITH(v["level"], "m.json: 'level' is missing (did you mean 'levels'?)");
    CHECK_THROWS_WITH(v["levels"][2], "m.json: /levels: there is no element 2 among 2");
    CHECK_THROWS_WITH(v["n"].integer(), "m.json: /n: expected a whole number, found 2.5");
    CHECK_THROWS_WITH(v["n"]["x"], "m.json: /n: expected an object, found 2.5");
    CHECK_THROWS_WITH(v.allow_only({"levels", "m"}), "m.json: unknown key 'n'; there are: levels, m");
}

TEST_CASE("broken text says where") {
    CHECK_THROWS_WITH_AS(parse_json("{\"a\": 1,\n  oops}", "x.json"), "x.json:2:3: this is not JSON here", UserError);
    CHECK_THROWS_WITH(parse_json("{\"a\": [1, 2", "x.json"), "x.json:1:12: the text ends early; it may be truncated");
    CHECK_THROWS_WITH_AS(parse_json(R"({"k": [{"n": 1, "m": {"n": 1}, "n": 2}]})", "x.json"),
                         "x.json: the key \"n\" occurs twice in one object", UserError);
    CHECK(parse_json(R"([{"n": 1, "m": {"n": 1}}, {"n": 2}])", "x.json").size() == 2);
    CHECK_THROWS_WITH(load_json("/nowhere/m.json"), "/nowhere/m.json: cannot be read: No such file or directory");
}

TEST_CASE("written text is UTF-8, whatever the names are") {
    CHECK(dump_json(Json{{"name", "a\xff"}}) == "{\n  \"name\": \"a\xef\xbf\xbd\"\n}\n");
}
