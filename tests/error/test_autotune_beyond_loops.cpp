// Error messages of the tuner for ops that call extern functions.
#include "autotune/task.h"
#include "autotune/tune.h"
#include "tests/error/beyond_loops.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

using namespace kumiko;

TEST_CASE("the tuner refuses ops that it cannot run repeatedly in a separate process") {
    TuneOptions options;
    options.quiet = true;
    const auto told = [&](const Op &op) {
        const std::string task = unsupported_text([&] { MeasureTask(op, {}, 1); });
        CHECK(unsupported_text([&] { tune(op, Machine::host(), CpuTarget::host(), options); }) == task);
        return task;
    };
    CHECK(told(called()) ==
          "op called calls the extern function \"reversed\", defined in this program, which the measuring process "
          "cannot load; begin main with kumiko::act_as_measurer(argc, argv), or define it in a shared library");
    Axis i("i", 64);
    Tensor X = input("X", f32, {i}), R = extern_stage("R", f32, {i}, {X}, {"", reversed});
    CHECK(told(Op("nameless", {X}, {R})) == "op nameless calls the extern function \"\", which candidates call by its "
                                            "symbol; give ExternFunction::symbol");
    CHECK_NOTHROW(MeasureTask(updated(), {}, 1));
    CHECK_NOTHROW(MeasureTask(running(), {}, 1));
    CHECK_NOTHROW(MeasureTask(counted(), {}, 1));
}
