// Compares the directives of the library's default schedule, for every case of every suite on named
// processors with 1, 2 and 16 cores, with the hashes in tests/data/default_schedules.json. A change
// means that kernels changed: measure both, then rewrite the file with
//
//   KUMIKO_WRITE_DEFAULTS=tests/data/default_schedules.json
//   build/release/tests/tests_replay_0 --source-file=*default_schedules.cpp
//
// Links: bench
// Levels: no
// Sanitized: no
#include "bench/suite.h"
#include "ops/registry.h"
#include "schedules/library/table.h"
#include "support/atomic_file.h"
#include "support/hash.h"
#include "support/json.h"

#include <cstdlib>
#include <doctest/doctest.h>

using namespace kumiko;

namespace {

// With weights packed by the kernel and, if possible, by the caller.
std::string hash_of(const Op &op, Machine machine) {
    Hasher hasher;
    for (const int cores : {1, 2, 16}) {
        for (UnitLevel &unit : machine.units) {
            if (unit.name == "core") unit.count = cores;
        }
        const LibraryTemplate *fits = library::find_template(op, machine);
        const bool packs = fits->packs_ahead && fits->packs_ahead(op);
        for (const PackedBy who : {PackedBy::Kernel, PackedBy::Caller}) {
            if (who == PackedBy::Caller && !packs) continue;
            const auto space = fits->make_space(op, machine, who);
            hasher.text(space->schedule(space->default_point()).to_json()["directives"].dump());
        }
    }
    return hasher.hex().substr(0, 16);
}

Json all_hashes() {
    Json all = Json::object();
    for (const std::string &suite : bench::suite_names()) {
        for (const bench::BenchCase &c : bench::suite_cases(suite)) {
            const Op op = ops::make(c.op, c.parameters);
            Json &hashes = all[suite + " " + c.name];
            for (const char *machine : {"x86-64-sse4.2", "x86-64-avx2", "x86-64-avx512", "x86-64-avx512-vnni",
                                        "x86-64-amx", "aarch64", "aarch64-dotprod", "riscv64-v"})
                hashes[machine] = hash_of(op, Machine::named(machine));
        }
    }
    return all;
}

} // namespace

TEST_CASE("the default schedules of the suites are those that were measured") {
    const Json now = all_hashes();
    CHECK(now.size() > 100);
    if (const char *file = std::getenv("KUMIKO_WRITE_DEFAULTS")) return write_file_atomically(file, dump_json(now));
    const Json measured = load_json(KUMIKO_SOURCE_DIR "/tests/data/default_schedules.json");
    for (const auto &[name, hashes] : now.items()) {
        CAPTURE(name);
        if (!measured.contains(name)) {
            FAIL_CHECK("a new case: write the file anew");
            continue;
        }
        for (const auto &[machine, hash] : hashes.items()) {
            CAPTURE(machine);
            CHECK_EQ(measured[name].value(machine, ""), hash.get<std::string>());
        }
    }
    for (const auto &[name, hashes] : measured.items()) {
        CAPTURE(name);
        CHECK(now.contains(name)); // else it has left its suite: write the file anew
    }
}
