// Error messages of the chip and the tuner for in-place updates, extern functions, scans and
// scatters.
#include "autotune/task.h"
#include "autotune/tune.h"
#include "driver/default_schedule.h"
#include "driver/machines.h"
#include "dsl/extern.h"
#include "dsl/inout.h"
#include "dsl/scan.h"
#include "dsl/scatter.h"
#include "support/error.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

int reversed(void *const *arrays, const int64_t *extents, const int64_t *) {
    const auto *from = static_cast<const float *>(arrays[0]);
    auto *to = static_cast<float *>(arrays[1]);
    for (int64_t i = 0; i < extents[0]; i++) to[i] = from[extents[0] - 1 - i];
    return 0;
}

Op updated() {
    Axis i("i", 64);
    Tensor X = input("X", f32, {i}), Y = inout("Y", f32, {i});
    return Op("updated", {X, Y}, {update(Y, Y(i) + X(i))});
}
Op called() {
    Axis i("i", 64);
    Tensor X = input("X", f32, {i});
    Tensor R = extern_stage("R", f32, {i}, {X}, {"reversed", reversed});
    return Op("called", {X}, {compute("Y", {i}, R(i) * 2)});
}
Op running() {
    Axis i("i", 64);
    Tensor X = input("X", f32, {i});
    return Op("running", {X}, {compute("Y", {i}, scan([](Expr a, Expr b) { return a + b; }, 0, X(i), i))});
}
Op counted() {
    Axis n("n", 64), v("v", 16);
    Tensor ids = input("ids", i32, {n});
    return Op("counted", {ids}, {compute("Y", {v}, scatter(sum, 1, v, ids(n), n))});
}

template<typename F>
std::string unsupported(F f) {
    try {
        f();
    } catch (const Unsupported &e) {
        return e.what();
    } catch (const UserError &e) {
        return std::string("user error: ") + e.what();
    }
    return "no error";
}

} // namespace

TEST_CASE("the chip refuses them, by default and under a schedule") {
    const auto told = [](const Op &op) {
        const Machine chip = machine_named("chip:small");
        const std::string by_default = unsupported([&] { default_schedule(op, chip); }),
                          scheduled = unsupported([&] { compile_chip(Schedule(op, chip)); });
        return std::pair(by_default, scheduled);
    };
    const std::string update =
        "op updated updates its input Y in place; programs of the chip have outputs of their own";
    CHECK(told(updated()) == std::pair(update, update));
    const std::string call = "stage R of op called is made by an extern function, which the chip cannot call";
    CHECK(told(called()) == std::pair(call, call));
    CHECK(told(running()) ==
          std::pair(
              std::string("stage Y of op running reads its own elements before; the chip has no scans and recurrences"),
              std::string("stage Y reads its own elements before; the chip has no scans and recurrences")));
    CHECK(
        told(counted()) ==
        std::pair(std::string(
                      "stage Y of op counted is a scatter along v; the chip has no stores at data-dependent addresses"),
                  std::string("stage Y is a scatter along v; the chip has no stores at data-dependent addresses")));
}

TEST_CASE("the tuner refuses what it cannot run again and again in a process of its own") {
    TuneOptions options;
    options.quiet = true;
    const auto told = [&](const Op &op) {
        const std::string task = unsupported([&] { MeasureTask(op, {}, 1); });
        CHECK(unsupported([&] { tune(op, Machine::host(), CpuTarget::host(), options); }) == task);
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
