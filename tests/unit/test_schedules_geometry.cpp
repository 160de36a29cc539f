// When an answer about a stage's loops may be reused: only if nothing that it depends on has
// changed, in any copy of the schedule.
#include "machine/machine.h"
#include "schedules/loop_geometry.h"
#include "schedules/schedule.h"
#include "support/error.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

Op product_of_any_height() {
    const Size m("M");
    const Axis i("i", m), j("j", 128), k("k", 64);
    const Tensor a = input("A", f32, {i, k}), b = input("B", f32, {k, j});
    return Op("product", {a, b}, {compute("C", {i, j}, sum(a(i, k) * b(k, j), k))});
}

// One accumulator row at a time, in registers.
Schedule rows(const Op &op) {
    Schedule s(op, Machine::named("x86-64-avx2"));
    auto c = s.stage("C");
    c.split("j", 16);
    c.reorder({"i", "j.o", "k", "j.i"});
    s.accumulate_in("C", "registers", "j.o");
    return s;
}

// With loop i inside the loop at which accumulators are kept, their number is its extent.
bool takes_all_rows(Schedule &s) {
    try {
        s.stage("C").reorder({"j.o", "i", "k", "j.i"});
        return true;
    } catch (const UserError &) {
        return false;
    }
}

LoopGeometry geometry(const Schedule &s) { return {s.state(), s.state().stage("C")}; }

} // namespace

TEST_CASE("copies of a schedule with assumptions of their own have answers of their own") {
    const Op op = product_of_any_height();
    const Expr m = op.stages()[0].axes[0].extent();
    for (const bool bounded_first : {true, false}) {
        const Schedule both = rows(op);
        Schedule bounded = both, unbounded = both;
        bounded.assume(m <= 16);
        unbounded.assume(m >= 16);
        if (bounded_first) CHECK(takes_all_rows(bounded));
        CHECK_FALSE(takes_all_rows(unbounded));
        if (!bounded_first) CHECK(takes_all_rows(bounded));
    }
}

TEST_CASE("regions of loops depend on splits, order and assumptions, not on loop kinds") {
    const Op op = product_of_any_height();
    const Expr m = op.stages()[0].axes[0].extent();
    const Schedule s = rows(op);
    CHECK(geometry(s) == geometry(s));
    const auto same = [&](const std::function<void(Schedule &)> &change) {
        Schedule changed = s;
        change(changed);
        return geometry(changed) == geometry(s);
    };
    CHECK(same([](Schedule &t) { t.stage("C").vectorize("j.i"); }));
    CHECK(same([](Schedule &t) { t.stage("C").parallel("i"); }));
    CHECK_FALSE(same([](Schedule &t) { t.stage("C").split("k", 8); }));
    CHECK_FALSE(same([](Schedule &t) { t.stage("C").split("i", 4); }));
    CHECK_FALSE(same([](Schedule &t) { t.stage("C").reorder({"i", "j.o", "j.i", "k"}); }));
    // The stage then reads another tensor.
    CHECK_FALSE(same([](Schedule &t) { t.place_in("B", "L1", "C", "k"); }));
    CHECK_FALSE(same([&](Schedule &t) { t.assume(m >= 4); }));
    Schedule more = s, less = s;
    more.assume(m >= 16);
    less.assume(m <= 16);
    CHECK_FALSE(geometry(more) == geometry(less));
}

TEST_CASE("the last answer is cached for equal questions") {
    const Op op = product_of_any_height();
    Schedule s = rows(op);
    const LastAnswer<int> answer;
    const LastAnswer<int> shared = answer; // as copies of an obligation share it
    int asked = 0;
    const auto ask = [&](const LastAnswer<int> &of) { return of.get_or_compute(geometry(s), [&] { return ++asked; }); };
    CHECK(ask(answer) == 1);
    CHECK(ask(answer) == 1);
    s.stage("C").vectorize("j.i");
    CHECK(ask(shared) == 1);
    s.stage("C").split("k", 8);
    CHECK(ask(shared) == 2);
    CHECK(ask(answer) == 2);
    CHECK(asked == 2);
}
