// Lowering of vector loops whose stores do not vary by lane.
#include "machine/machine.h"
#include "schedules/examples.h"
#include "support/error.h"
#include "targets/lower/lowering.h"

#include <doctest/doctest.h>
#include <sstream>

using namespace kumiko;
using namespace Halide::Internal;

namespace {

// A loop v over four lanes that stores `value` to element `at` of T where v < n and `also` holds.
std::string vectorized(const Expr &value, const Expr &also = const_true(), const Expr &at = 0) {
    Lowering l{.state =
                   ScheduleState(example_op("add"), std::make_shared<const Machine>(Machine::named("x86-64-avx2")))};
    Storage t;
    t.tensor = "T";
    t.type = Int(32);
    t.region = {{0}, {1}};
    t.axes = {"i"};
    l.storage["T"] = t;
    const Expr v = Variable::make(Int(32), "v"), n = Variable::make(Int(32), "n");
    const Stmt store = Store::make("T", value, at, Halide::Parameter(), const_true(), ModulusRemainder());
    l.nest.body = For::make("v", 0, 4, ForType::Vectorized, Halide::Partition::Never, Halide::DeviceAPI::None,
                            IfThenElse::make(is_const_one(also) ? v < n : v < n && also, store));
    vectorize_loops(l);
    std::ostringstream text;
    text << l.nest.body;
    return text.str();
}

} // namespace

TEST_CASE("one value from every lane is stored once, where any lane runs") {
    CHECK(vectorized(7) == "if ((uint1)vector_reduce_or(ramp(0, 1, 4) < x4(n))) {\n T[0] = 7\n}\n");
}

TEST_CASE("a value of each lane has no place in one element") {
    CHECK_THROWS_WITH_AS(vectorized(Variable::make(Int(32), "v")), "all lanes of loop v store to one element of T",
                         InternalError);
}

TEST_CASE("what all lanes share is tested by itself, before what they read") {
    const Expr v = Variable::make(Int(32), "v"), s = Variable::make(Int(32), "s");
    const Expr read = Load::make(Int(32), "T", s, Halide::Buffer<>(), Halide::Parameter(), const_true(), {});
    CHECK(vectorized(read, s < 1, v) ==
          "if (s < 1) {\n if ((uint1)vector_reduce_or(ramp(0, 1, 4) < x4(n))) {\n"
          "  predicate (ramp(0, 1, 4) < x4(n))\n   T[ramp(0, 1, 4)] = x4((int32)T[s])\n }\n}\n");
}
