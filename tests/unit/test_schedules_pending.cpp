// Directives that are legal only together with later ones (docs/decisions/0052).
#include "dsl/math.h"
#include "schedules/examples.h"
#include "schedules/primitive.h"
#include "schedules/schedule.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

// Four stages, each of which reads the previous one at two places.
Op chain() {
    Axis i("i", 64), j("j", 64);
    Tensor X = input("X", f32, {i, j});
    Tensor last = X;
    for (const char *name : {"A", "B", "C", "Y"}) {
        const Tensor padded = clamped(last);
        last = compute(name, {i, j}, padded(i, j) + padded(i - 1, j));
    }
    return Op("chain", {X}, {last});
}

} // namespace

TEST_CASE("producers may be placed before their readers") {
    const auto split = [](Schedule &s) { return s.stage("Y").split("i", 8).first; };
    Schedule readers_first(chain()), producers_first(chain());
    const LoopName loop = split(readers_first);
    for (const char *name : {"C", "B", "A"}) readers_first.stage(name).compute_at("Y", loop);
    split(producers_first);
    for (const char *name : {"A", "B", "C"}) {
        CHECK_THROWS_AS(
            [&] {
                Schedule copy = producers_first;
                copy.stage("A").compute_at("Y", loop);
                copy.require_applied();
            }(),
            UserError);
        producers_first.stage(name).compute_at("Y", loop);
    }
    CHECK_NOTHROW(producers_first.require_applied());
    CHECK_EQ(producers_first.nest(), readers_first.nest());
    // Saved in the order in which they were given.
    CHECK_EQ(producers_first.directives()[1].arguments["stage"], "A");
    const Schedule again = Schedule::from_json(producers_first.op(), producers_first.to_json());
    CHECK_EQ(again.nest(), producers_first.nest());
    CHECK_EQ(again.to_json(), producers_first.to_json());
}

TEST_CASE("a loop may be vectorized before it is innermost") {
    Schedule s(example_op("matmul")), t(example_op("matmul"));
    s.stage("C").vectorize("j", 8).unroll("i", 4).reorder({"k", "j"});
    t.stage("C").unroll("i", 4).reorder({"k", "j"}).vectorize("j", 8);
    CHECK_EQ(s.nest(), t.nest());
    CHECK_NOTHROW(s.require_applied());
}

TEST_CASE("the nest shows pending directives, and save refuses them") {
    Schedule s(chain());
    s.stage("A").compute_at("Y", "i");
    CHECK(s.nest().find("pending: A.compute_at(\"Y\", \"i\"): loop i does not enclose all that reads A: ") !=
          std::string::npos);
    CHECK(message_of([&] { s.require_applied(); }).find("B.compute_at(\"Y\", \"i\"), before or after") !=
          std::string::npos);
    CHECK(message_of([&] { s.save("/nowhere/schedule.json"); }).starts_with("compute_at(\"Y\", \"i\")"));
    s.undo();
    CHECK_NOTHROW(s.require_applied());
    CHECK_EQ(s.nest(), Schedule(chain()).nest());
}

TEST_CASE("a schedule for a special case has nothing pending") {
    const Size N("N");
    Axis i("i", N), j("j", 8);
    Tensor X = input("X", f32, {i, j});
    Tensor A = compute("A", {i, j}, X(i, j) * 2.f), B = compute("B", {i, j}, A(i, j) + A(i, 0));
    Schedule s(Op("pair", {X}, {compute("Y", {i, j}, B(i, j) + B(i, 1))}));
    s.stage("A").compute_at("Y", "i");
    CHECK(message_of([&] { s.specialize(N == 1); }).starts_with("compute_at(\"Y\", \"i\"): loop i does not enclose"));
    s.stage("B").compute_at("Y", "i");
    CHECK_EQ(message_of([&] { s.specialize(N == 1); }), "no error");
}

TEST_CASE("the latest placement of a stage holds") {
    Schedule s(chain()), t(chain());
    s.stage("A").compute_at("Y", "i"); // pending
    s.stage("A").compute_root();
    for (Schedule *one : {&s, &t}) {
        one->stage("C").compute_at("Y", "i");
        one->stage("B").compute_at("Y", "i");
    }
    CHECK_EQ(s.nest(), t.nest());
    CHECK_NOTHROW(s.require_applied());
}

TEST_CASE("store_at and the compute_at after it wait together") {
    const auto op = [] {
        Axis i("i", 16), j("j", 32);
        Tensor X = input("X", f32, {i, j});
        Tensor A = compute("A", {i, j}, exp(X(i, j)));
        Tensor R = compute("R", {i, j}, A(i, j) * 2.f);
        return Op("kept", {X}, {compute("Y", {i, j}, R(i, j) + R(i, 0))});
    };
    Schedule s(op()), t(op());
    s.stage("A").store_at("Y", "i").compute_at("R", "j");
    s.stage("R").compute_at("Y", "i");
    t.stage("R").compute_at("Y", "i");
    t.stage("A").store_at("Y", "i").compute_at("R", "j");
    CHECK_EQ(s.nest(), t.nest());
    CHECK_NOTHROW(s.require_applied());
}

TEST_CASE("an output that is finished in a reduction may be finished later") {
    Axis i("i", 16), j("j", 32), k("k", 8);
    Tensor X = input("X", f32, {i, k}), W = input("W", f32, {k, j});
    Tensor scale = compute("scale", {i}, maximum(X(i, k), k));
    const Op op("scaled", {X, W}, {compute("Y", {i, j}, sum(X(i, k) * W(k, j), k) * scale(i))});
    Schedule s(op), t(op);
    s.stage("scale").compute_at("Y.sum", "i");
    s.stage("Y.sum").finish_in("Y");
    t.stage("Y.sum").finish_in("Y");
    t.stage("scale").compute_at("Y.sum", "i");
    CHECK_EQ(s.nest(), t.nest());
}

TEST_CASE("a directive that makes a pending one illegal is refused and changes nothing") {
    Schedule s(chain());
    s.stage("A").compute_at("Y", "i");
    const std::string before = s.nest();
    const std::string told = message_of([&] { s.stage("Y").split("i", 4); });
    CHECK(told.find("makes compute_at(\"Y\", \"i\") (test_schedules_pending.cpp:") != std::string::npos);
    CHECK(told.find("which is pending, illegal: ") != std::string::npos);
    CHECK(told.find("loop i was already split into i.o and i.i") != std::string::npos);
    CHECK_EQ(s.nest(), before);
    CHECK_EQ(s.directives().size(), 1);
}

TEST_CASE("reorder moves the loops that it names") {
    Schedule s(example_op("matmul")), t(example_op("matmul"));
    s.stage("C").split("j", 8);
    t.stage("C").split("j", 8);
    s.stage("C").reorder({"k", "i"}); // i, j.o, j.i, k: k and i change places
    t.stage("C").reorder({"k", "j.o", "j.i", "i"});
    CHECK_EQ(s.nest(), t.nest());
    s.stage("C").reorder({"j.i"});
    CHECK_EQ(s.nest(), t.nest());
}
