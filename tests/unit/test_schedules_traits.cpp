// The compatibility table of traits (schedules/traits.h).
#include "schedules/examples.h"
#include "schedules/schedule.h"
#include "schedules/traits.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

using namespace kumiko;

TEST_CASE("the table has the reason and the remedy") {
    Schedule s(example_op("matmul"));
    const StageState &C = s.state().stage("C");
    CHECK_FALSE(excluded(s.state(), C, Trait::Tensorized));
    const Exclusion laid = excluded(s.state(), C, Trait::Laid);
    CHECK(laid.reason == "stage C is an output; its layout belongs to the op");
    CHECK(laid.remedy == "layout on stages made by place_in, and on internal stages");
    CHECK(excluded(s.state(), C, Trait::Streamed, "it").reason ==
          "it is a reduction, whose partial results are read again");
    const std::string refused = message_of([&] { s.stage("C").layout({"j", "i"}); });
    CHECK(refused.find("): C is an output; its layout belongs to the op\n") != std::string::npos);
    CHECK(refused.find("legal here: " + laid.remedy) != std::string::npos);
}

TEST_CASE("two traits that exclude each other are found in any state, and the older is named") {
    const Schedule s(example_op("matmul"));
    CHECK_FALSE(conflict(s.state(), s.state()));
    ScheduleState instruction = s.state(), both = s.state(), visits = s.state();
    instruction.stage("C").tensorize = Tensorize{"i", "any"};
    visits.stage("C").scattered = "i";
    both.stage("C").tensorize = Tensorize{"i", "any"};
    both.stage("C").scattered = "i";
    CHECK_FALSE(conflict(instruction, s.state()));
    CHECK(conflict(both, instruction).reason == "stage C is tensorized");
    CHECK(conflict(both, visits).reason == "stage C visits the elements that its index selects");
}

TEST_CASE("traits that a stage gives to another") {
    Schedule s(example_op("matmul"));
    auto [ko, ki] = s.stage("C").split("k", 64);
    s.stage("C").reorder({ko, "i", "j", ki});
    s.place_in("B", "L2", "C", ko).double_buffer();
    CHECK(excluded(s.state(), s.state().stage("C"), Trait::SharesLoops).reason ==
          "stage C has the multi-buffered copy B.L2 in its loops");
}

TEST_CASE("a stage is untouched until a directive changes it") {
    Schedule s(example_op("dense"));
    const auto untouched = [&](const char *stage) { return is_untouched(s.state(), s.state().stage(stage)); };
    CHECK(untouched("Y"));
    CHECK(untouched("Y.sum"));
    s.stage("Y").stream();
    CHECK_FALSE(untouched("Y"));
    s.stage("Y.sum").split("k", 8);
    CHECK_FALSE(untouched("Y.sum"));
}
