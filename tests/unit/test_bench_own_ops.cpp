// Ops of the suite own-ops: their default and hand schedules, and schedules of the space in which
// they are tuned, compute what `interpret` computes.
// Links: bench driver
// Sanitized: no
#include "autotune/build.h"
#include "autotune/tune.h"
#include "bench/own_ops/loops.h"
#include "driver/default_schedule.h"
#include "driver/kernel.h"
#include "dsl/inout.h"
#include "support/error.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

using namespace kumiko;
using namespace kumiko::bench;

namespace {

constexpr double seconds = 0.2; // of interpreting each result

void check(const OwnOp &own, const Op &op, const Kernel &kernel) {
    const std::vector<Buffer<>> inputs = make_inputs(own, op), arguments = make_arguments(op, inputs);
    kernel(arguments);
    CHECK_NOTHROW(check_outputs(own, op, inputs, output_arrays(op, arguments), seconds));
}

} // namespace

TEST_CASE("default and hand schedules compute what interpret computes") {
    for (const OwnOp &own : own_ops()) {
        CAPTURE(own.name);
        const Op op = own.op();
        check(own, op, compile(op));
        if (!own.hand) continue;
        Schedule s(op);
        REQUIRE_NOTHROW(own.hand(s));
        check(own, op, compile(s));
    }
}

TEST_CASE("tuning begins with the default schedule, and other points compute the same") {
    int legal = 0, tried = 0;
    for (const OwnOp &own : own_ops()) {
        CAPTURE(own.name);
        const Op op = own.op();
        const auto [name, space] = space_for(op, Machine::host(), SpaceKind::Fitting);
        CHECK_EQ(space->schedule(space->default_point()).to_json(), default_schedule(op, Machine::host()).to_json());
        Random random(own.name.size());
        for (const Point &point : {space->sample(random), space->sample(random)}) {
            CAPTURE(space->text(point));
            tried++;
            if (!can_be_lowered(*space, point)) continue;
            legal++;
            check(own, op, compile(space->schedule(point)));
            break;
        }
    }
    CHECK_GE(2 * legal, tried);
}

TEST_CASE("names are unique, and loops are functions of those names") {
    std::set<std::string> names;
    for (const OwnOp &own : own_ops()) {
        CAPTURE(own.name);
        CHECK(names.insert(own.name).second);
        CHECK_EQ(own.op().name(), own.name);
        CHECK_NE(loop_source(own).find("void " + own.name + "(void **arrays)"), std::string::npos);
    }
    CHECK_GE(names.size(), 116);
}

TEST_CASE("a wrong result is found") {
    const OwnOp &own = own_ops().front();
    const Op op = own.op();
    const std::vector<Buffer<>> inputs = make_inputs(own, op);
    const std::vector<Buffer<>> outputs = output_arrays(op, make_arguments(op, inputs));
    CHECK_THROWS_AS(check_outputs(own, op, inputs, outputs, 1e-9), UserError); // one element
    CHECK_THROWS_AS(check_outputs(own, op, inputs, outputs, 100), UserError);  // all
}

TEST_CASE("loops are compiled, or the error names the compiler") {
    const OwnOp &own = own_ops().front();
    {
        // The second has bf16 and inout tensors, the third several outputs of two types.
        std::vector<const OwnOp *> some = {&own};
        for (const OwnOp &other : own_ops()) {
            if (other.name == "lion_bf16" || other.name == "moe_gate") some.push_back(&other);
        }
        REQUIRE_EQ(some.size(), 3);
        const CompiledLoops loops(some);
        for (const OwnOp *each : some) {
            if (!loops.failure().empty()) break;
            CAPTURE(each->name);
            const Op op = each->op();
            const std::vector<Buffer<>> inputs = make_inputs(*each, op), arguments = make_arguments(op, inputs);
            std::vector<void *> arrays;
            for (const Buffer<> &b : arguments) arrays.push_back(b.data());
            REQUIRE((loops.find(each->name) != nullptr));
            loops.find(each->name)(arrays.data());
            CHECK_NOTHROW(check_outputs(*each, op, inputs, output_arrays(op, arguments), seconds));
        }
        CHECK((loops.find("no_such_op") == nullptr));
    }
    const char *before = std::getenv("CXX");
    const std::string kept = before ? before : "";
    setenv("CXX", "no-such-compiler", 1);
    const CompiledLoops none({&own});
    if (before)
        setenv("CXX", kept.c_str(), 1);
    else
        unsetenv("CXX");
    CHECK_NE(none.failure().find("no-such-compiler"), std::string::npos);
    CHECK((none.find(own.name) == nullptr));
}
