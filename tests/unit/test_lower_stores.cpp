// The order of consecutive stores.
#include "machine/machine.h"
#include "schedules/schedule.h"
#include "targets/lower/lower.h"
#include "targets/lower/nest.h"

#include <doctest/doctest.h>

#include <sstream>

using namespace kumiko;

namespace {

// The arrays of the stores in the lowered loops, in their order.
std::string stored(const Schedule &s) {
    struct Stores : Halide::Internal::IRVisitor {
        using IRVisitor::visit;
        std::string arrays;
        void visit(const Halide::Internal::Store *op) override { arrays += op->name + " "; }
    } stores;
    lower(s).body.accept(&stores);
    return stores.arrays;
}

} // namespace

TEST_CASE("stores of unrolled copies follow the arrays") {
    const Axis y("y", 3), x("x", 64);
    const Tensor X = input("X", f32, {y, x});
    const Tensor A = compute("A", {y, x}, X(y, x) + 1.f), B = compute("B", {y, x}, X(y, x) * 2.f);
    Schedule s(Op("apart", {X}, {A, B}), Machine::named("x86-64-avx2"));
    for (const char *name : {"A", "B"}) s.stage(name).split("x", 32);
    for (const char *name : {"A", "B"}) s.stage(name).vectorize("x.i", 8).unroll("x.i.o");
    s.stage("B").compute_with("A", "x.i.v");
    CHECK(stored(s) == "A A A A B B B B ");
}
