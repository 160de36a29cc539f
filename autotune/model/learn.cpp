#include "autotune/model/learn.h"

#include "autotune/features/feature_sets.h"

#include <limits>
#include <map>

namespace kumiko {

ModelTask model_task(const std::string &name, const std::vector<Record> &records, int version) {
    ModelTask task{name, {}, {}, {}};
    for (const Record &r : records) {
        if (r.features.version != version || !is_current(r.features)) continue;
        task.features.push_back(r.features);
        task.seconds.push_back(r.outcome == Outcome::Ok ? r.timing.least : std::numeric_limits<double>::infinity());
        task.estimates.push_back(r.estimated_seconds);
    }
    return task;
}

namespace {

Accuracy accuracy_of(const CostModel &model, const ModelTask &task) {
    const std::vector<float> scores = model.score(task.features);
    return accuracy({scores.begin(), scores.end()}, task.seconds);
}

} // namespace

Validation cross_validate(const std::vector<ModelTask> &tasks, size_t folds, const TreeOptions &options,
                          const std::function<void(size_t)> &progress, const CostModel *before) {
    Validation v;
    // One op measured on several machines is held out as a whole.
    std::map<std::string, size_t> ops;
    for (const ModelTask &t : tasks) ops.emplace(t.name, ops.size());
    const auto fold_of = [&](const ModelTask &t) { return ops.at(t.name) % folds; };
    for (size_t fold = 0; fold < folds; fold++) {
        std::vector<ModelTask> seen;
        for (const ModelTask &t : tasks) {
            if (fold_of(t) != fold) seen.push_back(t);
        }
        const CostModel model = CostModel::learn(seen, options, before);
        for (const ModelTask &task : tasks) {
            if (fold_of(task) != fold || task.features.size() < 30) continue;
            std::vector<double> analytical;
            for (double e : task.estimates) analytical.push_back(-e);
            v.tasks.push_back(task.name);
            v.learned.push_back(accuracy_of(model, task));
            if (before) v.before.push_back(accuracy_of(*before, task));
            v.analytical.push_back(accuracy(analytical, task.seconds));
        }
        if (progress) progress(fold);
    }
    return v;
}

} // namespace kumiko
