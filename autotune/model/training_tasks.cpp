#include "autotune/model/training_tasks.h"

#include "autotune/model/multi_stage_tasks.h"
#include "ops/registry.h"
#include "support/embedded.h"

#include <nlohmann/json.hpp>

// {"cpu": {operator: [its parameters, …], …}, "chip": {…}}
KUMIKO_EMBEDDED_FILE(kumiko_training_tasks, KUMIKO_TRAINING_TASKS)

namespace kumiko {

namespace {

std::vector<TrainingTask> tasks_for(const std::string &kind) {
    const auto file = nlohmann::ordered_json::parse(kumiko_training_tasks, kumiko_training_tasks_end);
    std::vector<TrainingTask> all;
    for (const auto &[op, tasks] : file.at(kind).items()) {
        for (const nlohmann::json parameters : tasks) { // its keys are sorted
            std::string name = op;
            char separator = ' ';
            for (const auto &[key, value] : parameters.items()) {
                name += separator + key + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
                separator = ',';
            }
            all.push_back({std::move(name), ops::make(op, Json(parameters))});
        }
    }
    return all;
}

} // namespace

std::vector<TrainingTask> training_tasks() {
    std::vector<TrainingTask> all = tasks_for("cpu");
    for (TrainingTask &t : multi_stage_tasks()) all.push_back(std::move(t));
    return all;
}
std::vector<TrainingTask> chip_training_tasks() { return tasks_for("chip"); }

} // namespace kumiko
