// The training tasks of the cost models.
// Links: bench
// Levels: no
// Sanitized: no
#include "autotune/model/multi_stage_tasks.h"
#include "bench/own_ops/own_ops.h"
#include "bench/tune_tasks.h"
#include "driver/default_schedule.h"

#include <doctest/doctest.h>

#include <set>

using namespace kumiko;

TEST_CASE("there are at least 150 tasks of several stages, each another formula") {
    const std::vector<TrainingTask> tasks = multi_stage_tasks();
    CHECK(tasks.size() >= 150);
    std::set<std::string> hashes, pairs;
    size_t of_three_reductions = 0;
    for (const TrainingTask &t : tasks) {
        INFO(t.name, "\n", t.op.to_string());
        CHECK(t.op.stages().size() >= 2);
        CHECK(t.op.stages().size() <= 10);
        CHECK(t.op.sizes().empty());
        CHECK(t.formula_space);
        CHECK(hashes.insert(t.op.hash()).second);
        // "chain7 softmax, gather, scan" begins with a different pair from all others.
        const std::string parts = t.name.substr(t.name.find(' ') + 1);
        const size_t comma = parts.find(',');
        CHECK(comma != std::string::npos);
        CHECK(pairs.insert(parts.substr(0, parts.find(',', comma + 1))).second);
        size_t reductions = 0;
        for (const Stage &s : t.op.stages()) reductions += s.is_reduction();
        of_three_reductions += reductions >= 3;
    }
    CHECK(of_three_reductions > tasks.size() / 4);
    const std::vector<TrainingTask> again = multi_stage_tasks();
    for (size_t i = 0; i < tasks.size(); i++) CHECK_EQ(tasks[i].op.hash(), again[i].op.hash());
}

TEST_CASE("each task of several stages has a default schedule") {
    const Machine machine = Machine::named("x86-64-avx2");
    for (const TrainingTask &t : multi_stage_tasks()) {
        INFO(t.name, "\n", t.op.to_string());
        CHECK_NOTHROW(default_schedule(t.op, machine));
    }
}

TEST_CASE("no op of the suites for schedules and tuning is in the training set") {
    std::set<std::string> hashes;
    for (const TrainingTask &t : training_tasks()) hashes.insert(t.op.hash());
    for (const bench::OwnOp &own : bench::own_ops()) {
        INFO(own.name);
        CHECK(!hashes.count(own.op().hash()));
    }
    for (const bench::TuneCase &c : bench::tune_cases()) {
        INFO(c.name);
        CHECK(!hashes.count(c.op.hash()));
    }
}
