// Machine tables: the host, named machines, files, and errors in them.
#include "machine/machine.h"
#include "support/error.h"

#include <doctest/doctest.h>

using namespace kumiko;

TEST_CASE("the table of the host is complete and consistent") {
    Machine m = Machine::host();
    INFO(m.to_string());
    CHECK_NOTHROW(m.check());
    CHECK(m.level("L1").bytes >= 8 << 10);
    CHECK(m.level("L2").bytes >= m.level("L1").bytes);
    CHECK(m.level("registers").explicit_placement);
    CHECK_FALSE(m.level("L1").explicit_placement);
    CHECK(m.units_in_all("core") >= 1);
    CHECK(m.id() == Machine::host().id());
    CHECK(Machine::load(m.save()) == m);
#if defined(__x86_64__)
    __builtin_cpu_init();
    CHECK(m.has("avx2") == bool(__builtin_cpu_supports("avx2")));
    CHECK(m.has("fma") == bool(__builtin_cpu_supports("fma")));
    CHECK(m.has("avx512f") == bool(__builtin_cpu_supports("avx512f")));
    CHECK(m.has("avx512_vnni") == bool(__builtin_cpu_supports("avx512vnni")));
    CHECK(m.has("avx512_bf16") == bool(__builtin_cpu_supports("avx512bf16")));
    CHECK(m.vector_bits == (m.has("avx512f") ? 512 : m.has("avx2") ? 256 : 128));
#endif
}

TEST_CASE("named machines are loaded, saved, and differ from one another") {
    std::set<std::string> ids;
    for (const std::string &name : Machine::names()) {
        Machine m = Machine::named(name);
        CHECK(Machine::load(m.save()) == m);
        ids.insert(m.id());
    }
    CHECK(ids.size() == Machine::names().size());
    Machine m = Machine::named("x86-64-avx512-vnni");
    for (const char *feature : {"sse4.2", "fma", "avx512vl", "avx512_vnni"}) CHECK(m.has(feature));
    CHECK_FALSE(m.has("avx512_bf16"));
    CHECK(m.lanes(32) == 16);
    CHECK(m.lanes(8) == 64);
    m.clock_ghz = 3;
    CHECK(m.peak_gflops(2) == doctest::Approx(384));
    CHECK(m.id() == Machine::named("x86-64-avx512-vnni").id()); // the clock is no part of it
}

TEST_CASE("errors suggest the nearest name") {
    Machine m = Machine::named("x86-64-avx2");
    CHECK_THROWS_WITH_AS(m.level("l2"), "machine 'x86-64-avx2' has no memory level 'l2' (did you mean 'L2'?)",
                         UserError);
    CHECK_THROWS_WITH(m.level("LM0"),
                      "machine 'x86-64-avx2' has no memory level 'LM0'; there are: registers, L1, L2, L3, DRAM");
    CHECK_THROWS_WITH(m.unit("cores"), "machine 'x86-64-avx2' has no unit 'cores' (did you mean 'core'?)");
    // without an operating system
    CHECK(Machine::named("aarch64-freestanding") == Machine::named("aarch64"));
    CHECK_THROWS_WITH(Machine::named("x86-64-avx3"), "unknown machine 'x86-64-avx3' (did you mean 'x86-64-avx2'?)");
}

TEST_CASE("a table of a chip has the same fields") {
    Machine chip = Machine::load(R"({
      "format": 1, "name": "chip", "architecture": "mncore-like",
      "units": [{"name": "group", "count": 4}, {"name": "L2B", "count": 2}, {"name": "L1B", "count": 8},
                {"name": "MAB", "count": 16}, {"name": "PE", "count": 4}],
      "memory": [{"name": "GRF0", "bytes": 2048, "scope": "PE", "explicit_placement": true},
                 {"name": "LM0", "bytes": 8192, "scope": "PE", "explicit_placement": true},
                 {"name": "L1BM", "bytes": 32768, "scope": "L1B", "shared_by": 64, "explicit_placement": true},
                 {"name": "DRAM", "bytes": 0, "scope": "group", "explicit_placement": true}]})");
    CHECK(chip.units_in_all("L1B") == 64);
    CHECK(chip.units_in_all("PE") == 4096);
    CHECK(chip.level("LM0").explicit_placement);
    CHECK(Machine::load(chip.save()) == chip);
}

TEST_CASE("invalid tables are refused") {
    auto load = [](const std::string &memory, const std::string &more = "") {
        return Machine::load(
            R"({"format": 1, "name": "m", "architecture": "a", "units": [{"name": "core", "count": 2}], "memory": [)" +
                memory + "]" + more + "}",
            "m.json");
    };
    CHECK_NOTHROW(load(R"({"name": "L1", "bytes": 1, "scope": "core"})"));
    CHECK_THROWS_WITH_AS(load(R"({"name": "L1", "bytes": -1, "scope": "core"})"),
                         "m.json: /memory/0/bytes: expected a whole number from 0 to 9223372036854775807, found -1",
                         UserError);
    CHECK_THROWS_WITH(
        load(R"({"name": "L1", "bytes": 1, "scope": "cor"})"),
        "m.json: machine 'm': memory level 'L1' has the scope 'cor', which is not a unit level (did you mean 'core'?)");
    CHECK_THROWS_WITH(
        load(R"({"name": "L1", "bytes": 1, "scope": "core"}, {"name": "L1", "bytes": 2, "scope": "core"})"),
        "m.json: machine 'm': two memory levels are named 'L1'");
    CHECK_THROWS_WITH(load(R"({"name": "L1", "byte": 1, "scope": "core"})"),
                      "m.json: /memory/0: unknown key 'byte' (did you mean 'bytes'?)");
    CHECK_THROWS_WITH(load("", R"(, "vector": {"bits": 256})"),
                      "m.json: /vector: 'registers' is missing; there are: bits");
    CHECK_THROWS_WITH(Machine::load(R"({"format": 9})"),
                      "machine: /format: this machine is of format 9, newer than 1, which this version reads");
    CHECK_THROWS_WITH(Machine::load("{\"format\": 1,"), "machine:1:14: the text ends early; it may be truncated");
}
