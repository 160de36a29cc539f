// Limits of loop unrolling.
#include "machine/machine.h"
#include "schedules/schedule.h"
#include "support/error.h"
#include "targets/lower/lower.h"

#include <doctest/doctest.h>

#include <sys/resource.h>

using namespace kumiko;

namespace {

long resident_mib() {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss / 1024;
}

} // namespace

TEST_CASE("a loop with far too many copies is refused before anything is made for each of them") {
    constexpr int n = 20000000;
    const Axis i("i", n), k("k", 4);
    const Tensor a = input("A", f32, {i, k});
    const Op op("rows", {a}, {compute("C", {i}, sum(a(i, k), k))});
    Schedule s(op, Machine::named("x86-64-avx2"));
    auto c = s.stage("C");
    const auto [outer, inner] = c.split("k", 4);
    c.reorder({outer, "i", inner});
    s.accumulate_in("C", "registers", outer); // so loop i is unrolled
    const long before = resident_mib();
    for (const bool to_count : {false, true}) {
        std::string said = "no error";
        try {
            lower(s, {.to_count = to_count});
        } catch (const UserError &e) {
            said = e.what();
        }
        CHECK(said.find("statements 20000000 times; at most 10000 are allowed") != std::string::npos);
    }
    CHECK(resident_mib() - before < 200); // an expression for each copy would be more than 1000
}
