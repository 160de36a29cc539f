// How well the shipped cost models rank measured candidates of tasks that they were not trained on
// (tests/data/ranked_candidates*.json: the first of each task is the space's default). A regression
// of the features, of lowering or of the model shows here.
#include "autotune/features/features.h"
#include "autotune/model/accuracy.h"
#include "autotune/model/cost_model.h"
#include "autotune/work.h"
#include "ops/registry.h"
#include "support/json.h"
#include "targets/lower/lower.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

// Compares the measured order of candidates of four tasks with the order by the model of the
// machine on which they were measured.
void check_order(const std::string &file) {
    const Json all = load_json(KUMIKO_SOURCE_DIR "/tests/data/" + file);
    const Machine machine = Machine::load(nlohmann::json(all["machine"]).dump());
    std::vector<Accuracy> learned, estimated;
    for (const Json &task : all["tasks"]) {
        const Op op = ops::make(task["op"].get<std::string>(), task["parameters"]);
        INFO(op.to_string());
        const double operations = count_work(op, {}).operations;
        std::vector<Features> features;
        std::vector<double> seconds, estimates;
        for (const Json &candidate : task["candidates"]) {
            LowerOptions options;
            options.to_count = true;
            const Schedule s = Schedule::from_json(op, machine, nlohmann::json(candidate["schedule"]));
            NestCost cost = cost_of(lower(s, options), machine, 1, {}, operations);
            set_beside(cost.features, features.empty() ? cost.features : features.front());
            features.push_back(std::move(cost.features));
            seconds.push_back(candidate["seconds"].get<double>());
            estimates.push_back(-cost.seconds);
        }
        // The default's features relative to itself.
        CHECK(std::all_of(features[0].values.begin() + static_cast<long>(own_features()), features[0].values.end(),
                          [](float v) { return v == 0; }));
        const std::vector<float> scores = CostModel::shipped(machine)->score(features);
        learned.push_back(accuracy({scores.begin(), scores.end()}, seconds));
        estimated.push_back(accuracy(estimates, seconds));
        CHECK(learned.back().pairs > 0.8);
        CHECK(learned.back().top_5 > 0.9);
    }
    CHECK(learned.size() == 4);
    CHECK(mean(learned).pairs > 0.88);
    CHECK(mean(learned).pairs > mean(estimated).pairs + 0.1);
    MESSAGE("pairs ", mean(learned).pairs, ", by the estimate ", mean(estimated).pairs);
}

} // namespace

TEST_CASE("candidates of tasks that were not learned from are put in order") { check_order("ranked_candidates.json"); }

TEST_CASE("and those of a machine that multiplies and adds two vectors a cycle by a model of its own") {
    check_order("ranked_candidates_wide.json");
    Machine m = Machine::named("x86-64-avx512");
    m.fmas_per_cycle = 2;
    const auto wide = CostModel::shipped(m);
    m.fmas_per_cycle = 1;
    const auto narrow = CostModel::shipped(m);
    CHECK(wide->save() != narrow->save());
    CHECK(CostModel::shipped(Machine::named("x86-64-avx2")) == narrow);
    CHECK(CostModel::shipped(features_version) == narrow);
}
