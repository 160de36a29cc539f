// Error messages of the chip for in-place updates, extern functions, scans and scatters.
// Links: driver
// Levels: no
#include "driver/default_schedule.h"
#include "driver/machines.h"
#include "targets/chip/compile.h"
#include "tests/error/beyond_loops.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

using namespace kumiko;

TEST_CASE("the chip refuses stages beyond loops, by default and under a schedule") {
    const auto told = [](const Op &op) {
        const Machine chip = machine_named("chip:small");
        const std::string by_default = unsupported_text([&] { default_schedule(op, chip); }),
                          scheduled = unsupported_text([&] { compile_chip(Schedule(op, chip)); });
        return std::pair(by_default, scheduled);
    };
    const std::string update =
        "op updated updates its input Y in place; programs of the chip have outputs of their own";
    CHECK(told(updated()) == std::pair(update, update));
    const std::string call = "stage R of op called is made by an extern function, which the chip cannot call";
    CHECK(told(called()) == std::pair(call, call));
    CHECK(told(running()) ==
          std::pair(std::string(
                        "stage Y of op running reads its own earlier elements; the chip has no scans and recurrences"),
                    std::string("stage Y reads its own earlier elements; the chip has no scans and recurrences")));
    CHECK(
        told(counted()) ==
        std::pair(std::string(
                      "stage Y of op counted is a scatter along v; the chip has no stores at data-dependent addresses"),
                  std::string("stage Y is a scatter along v; the chip has no stores at data-dependent addresses")));
}
