// How well the cost model that comes with Kumiko orders candidates that were measured once, of tasks that it never saw
// (tests/data/ranked_candidates.json: the first of each task is the space's default). A change of features, of lowering or of
// the model that makes it forget shows here.
#include "autotune/features/features.h"
#include "autotune/model/accuracy.h"
#include "autotune/model/cost_model.h"
#include "autotune/work.h"
#include "ops/registry.h"
#include "support/json.h"
#include "targets/lower/lower.h"

#include <doctest/doctest.h>

using namespace kumiko;

TEST_CASE("candidates of tasks that were not learnt from are put in order") {
    const Json all = load_json(KUMIKO_SOURCE_DIR "/tests/data/ranked_candidates.json");
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
        // What the default is beside itself.
        CHECK(std::all_of(features[0].values.begin() + static_cast<long>(own_features()), features[0].values.end(),
                          [](float v) { return v == 0; }));
        const std::vector<float> scores = CostModel::shipped()->score(features);
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
