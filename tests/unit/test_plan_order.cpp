// Orders of tasks: dependences, known optima, lifetimes, refused input.
#include "graph/plan/order.h"
#include "support/error.h"
#include "support/random.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

PlanBuffer buffer(const std::string &name, int64_t bytes) { return {.name = name, .bytes = bytes}; }

PlanBuffer alias(const std::string &name, int64_t bytes, int inside, int64_t offset) {
    return {.name = name, .bytes = bytes, .inside = inside, .inside_offset = offset};
}

PlanBuffer external(PlanBuffer b) {
    b.external = true;
    return b;
}

PlanBuffer input(PlanBuffer b) {
    b.input = true;
    return b;
}

PlanBuffer output(PlanBuffer b) {
    b.output = true;
    return b;
}

} // namespace

TEST_CASE("the branch that shrinks runs before the one that grows") {
    // x → two branches with large temporaries and small results → sum. Listed breadth first, both
    // temporaries are live together.
    const std::vector<PlanBuffer> buffers = {
        input(external(buffer("x", 6400))), buffer("t0", 1280), buffer("t1", 1280), buffer("r0", 64), buffer("r1", 64),
        output(external(buffer("y", 64)))};
    const std::vector<PlanTask> tasks = {
        {"a0", {0}, {1}}, {"a1", {0}, {2}}, {"b0", {1}, {3}}, {"b1", {2}, {4}}, {"sum", {3, 4}, {5}}};
    const TaskOrder order = choose_order(tasks, buffers);
    check_order(tasks, buffers, order.order);
    CHECK(order.given_peak == 1280 + 1280 + 64);
    CHECK(order.peak == 1280 + 64 + 64);
    const ArenaPlan plan = plan_arena(arena_buffers(tasks, buffers, order.order));
    CHECK(plan.bound == order.peak);
    CHECK(plan.bytes == order.peak);
}

TEST_CASE("equal orders: the listed one is kept") {
    const std::vector<PlanBuffer> buffers = {buffer("a", 64), buffer("b", 64), output(buffer("c", 64))};
    const TaskOrder order = choose_order({{"one", {}, {0}}, {"two", {}, {1}}, {"three", {0, 1}, {2}}}, buffers);
    CHECK(order.order == std::vector<int>{0, 1, 2});
    CHECK(order.peak == 192);
    CHECK(order.given_peak == 192);
    CHECK(order.optimal);
    CHECK(choose_order({}, buffers).order.empty());
}

TEST_CASE("tasks may be listed in an order that is not legal") {
    const std::vector<PlanTask> tasks = {{"last", {1}, {2}}, {"middle", {0}, {1}}, {"first", {}, {0}}};
    const std::vector<PlanBuffer> buffers = {buffer("a", 64), buffer("b", 64), output(buffer("c", 64))};
    CHECK(choose_order(tasks, buffers).order == std::vector<int>{2, 1, 0});
}

TEST_CASE("lifetimes of buffers, aliases and workspaces") {
    const std::vector<PlanBuffer> buffers = {input(buffer("x", 64)),        buffer("concat", 128),
                                             alias("p0", 64, 1, 0),         alias("p1", 64, 1, 64),
                                             output(buffer("y", 64)),       input(external(buffer("weights", 1 << 20))),
                                             buffer("unused", 64),          output(external(buffer("z", 64))),
                                             alias("unused part", 64, 1, 0)};
    const std::vector<PlanTask> tasks = {{"t0", {0, 5}, {2}, {}, 100},
                                         {"t1", {0}, {3}, {}, 0},
                                         {"join", {2, 3}, {1}, {}, 0},
                                         {"t3", {1}, {4, 7}, {}, 64},
                                         {"t4", {}, {}, {3}, 32}};
    const std::vector<ArenaBuffer> result = arena_buffers(tasks, buffers, {0, 1, 2, 3, 4});
    REQUIRE(result.size() == buffers.size() + tasks.size());
    const auto shows = [&](int n, int64_t bytes, int64_t first, int64_t last) {
        CAPTURE(result[n].name);
        CHECK(result[n].bytes == bytes);
        CHECK(result[n].first == first);
        CHECK(result[n].last == last);
    };
    shows(0, 64, 0, 1);
    shows(1, 128, 0, 3); // of all parts together
    shows(2, 64, 0, 2);
    shows(3, 64, 1, 2);
    shows(4, 64, 3, 4);
    for (int n : {5, 6, 7, 8}) CHECK(result[n].bytes == 0);
    shows(9, 100, 0, 0);
    shows(10, 0, 1, 1);
    shows(12, 64, 3, 3);
    CHECK(result[9].name == "workspace of task \"t0\"");
    CHECK(result[3].inside == 1);
    CHECK(result[3].inside_offset == 64);
    const TaskOrder order = choose_order(tasks, buffers);
    CHECK(order.given_peak == 64 + 128 + 128); // in step 0: x, concat, workspace
    CHECK(plan_arena(arena_buffers(tasks, buffers, order.order)).bound == order.peak);
}

TEST_CASE("a result in place costs nothing, and runs after other readers that are listed") {
    // "double" overwrites a; "other" reads a before that.
    const std::vector<PlanBuffer> buffers = {buffer("a", 640), alias("a2", 640, 0, 0), output(buffer("r", 64)),
                                             output(buffer("s", 64))};
    std::vector<PlanTask> tasks = {
        {"make", {}, {0}}, {"double", {0}, {1}, {3}}, {"sum", {1}, {2}}, {"other", {0}, {3}}};
    const TaskOrder order = choose_order(tasks, buffers);
    CHECK(order.order == std::vector<int>{0, 3, 1, 2});
    CHECK(order.peak == 640 + 64 + 64);
}

TEST_CASE("a dense block whose concatenations share one buffer") {
    // Layer k reads concat k and writes a part behind it; a concatenation is a task without a copy.
    const int layers = 20;
    const int64_t part = 256;
    std::vector<PlanBuffer> buffers;
    std::vector<PlanTask> tasks;
    // Concatenation k has k + 1 parts, and is the beginning of concatenation k + 1.
    for (int k = 0; k <= layers; k++)
        buffers.push_back({.name = "concat", .bytes = (k + 1) * part, .inside = k < layers ? k + 1 : -1});
    for (int k = 0; k < layers; k++)
        buffers.push_back({.name = "part", .bytes = part, .inside = k + 1, .inside_offset = (k + 1) * part});
    tasks.push_back({"first", {}, {0}});
    for (int k = 0; k < layers; k++) {
        tasks.push_back({"layer", {k}, {layers + 1 + k}, {}, 512});
        tasks.push_back({"concat", {k, layers + 1 + k}, {k + 1}});
    }
    buffers[layers].output = true;
    const TaskOrder order = choose_order(tasks, buffers);
    CHECK(order.peak == (layers + 1) * part + 512);
    CHECK(order.optimal);
    CHECK(plan_arena(arena_buffers(tasks, buffers, order.order)).bytes == order.peak);
}

TEST_CASE("ten thousand tasks") {
    // Chains of random lengths that join pairwise, listed breadth first.
    Random random(5);
    std::vector<PlanBuffer> buffers;
    std::vector<PlanTask> tasks;
    std::vector<int> open;
    while (tasks.size() < 10000) {
        PlanTask task;
        if (open.size() > 8)
            for (int n = 0; n < 2; n++) {
                const size_t k = random.below(open.size());
                task.reads.push_back(open[k]);
                open.erase(open.begin() + long(k));
            }
        else if (!buffers.empty() && random.chance(0.5))
            task.reads.push_back(int(random.below(buffers.size())));
        task.writes = {int(buffers.size())};
        open.push_back(int(buffers.size()));
        buffers.push_back(buffer("", 64 * random.between(1, 1000)));
        tasks.push_back(task);
    }
    const int64_t steps = 1 << 22; // which end the search
    const TaskOrder order = choose_order(tasks, buffers, steps);
    check_order(tasks, buffers, order.order);
    CHECK(order.peak < order.given_peak);
    CHECK(choose_order(tasks, buffers, steps).order == order.order);
    CHECK(choose_order(tasks, buffers, 0).peak > order.peak);
}

TEST_CASE("invalid tasks are refused") {
    const std::vector<PlanBuffer> buffers = {buffer("a", 64), buffer("b", 64), buffer("", 64)};
    const auto refuse = [&](std::vector<PlanTask> tasks, const char *message) {
        CHECK_THROWS_WITH_AS(choose_order(tasks, buffers), message, InternalError);
    };
    refuse({{"t", {3}, {}}}, "task \"t\" reads buffer 3; indices are 0 to 2");
    refuse({{"t", {}, {-1}}}, "task \"t\" writes buffer -1; indices are 0 to 2");
    refuse({{"", {}, {}, {1}}}, "task 0 runs after task 1; indices are 0 to 0");
    refuse({{"t", {0}, {}}}, "task \"t\" reads buffer \"a\", which no task writes and which is not an input");
    refuse({{"t", {2}, {2}}},
           "task \"t\" reads and writes buffer 2; a result in place is a buffer inside of the operand");
    refuse({{"start", {}, {2}}, {"t", {0, 2}, {1}}, {"u", {1}, {0}}, {"v", {0}, {}}},
           "each of these tasks runs after the one before it, and the first after the last: task \"t\", task \"u\"");
    refuse({{"t", {}, {0}, {0}}},
           "each of these tasks runs after the one before it, and the first after the last: task \"t\"");
    refuse({{"t", {}, {0}, {}, -5}}, "buffer \"workspace of task \"t\"\" has -5 bytes; 0 or more are legal");
    std::vector<PlanBuffer> parts = {buffer("whole", 64), external(alias("part", 64, 0, 0))};
    CHECK_THROWS_WITH_AS(choose_order({}, parts),
                         "buffer \"part\" is external, but inside of buffer \"whole\", which is not", InternalError);
    CHECK_THROWS_WITH_AS(
        choose_order({{"t", {}, {0, 1}}}, {buffer("a", int64_t(1) << 61), buffer("b", int64_t(1) << 61)}),
        "2 buffers have more than 2^62 bytes together, the most in one arena", UserError);
}

TEST_CASE("check_order names the task that runs too early") {
    const std::vector<PlanBuffer> buffers = {buffer("a", 64), buffer("b", 64)};
    const std::vector<PlanTask> tasks = {{"one", {}, {0}}, {"two", {0}, {1}}};
    CHECK_NOTHROW(check_order(tasks, buffers, {0, 1}));
    CHECK_THROWS_WITH_AS(check_order(tasks, buffers, {1, 0}),
                         "task \"two\" runs before task \"one\", on which it depends", InternalError);
    CHECK_THROWS_WITH_AS(check_order(tasks, buffers, {0, 0}), "the order repeats task \"one\"", InternalError);
    CHECK_THROWS_WITH_AS(check_order(tasks, buffers, {0}), "the order lacks task \"two\"", InternalError);
    CHECK_THROWS_WITH_AS(check_order(tasks, buffers, {0, 2}), "the order has task 2; there are 2 tasks", InternalError);
}
