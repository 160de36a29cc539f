// From records of tuning to a cost model, and how good it is on tasks that it never saw.
#pragma once

#include "autotune/model/accuracy.h"
#include "autotune/model/cost_model.h"
#include "autotune/record.h"

#include <functional>

namespace kumiko {

// The records that have all features of that version; those that failed are kept, as infinitely slow.
ModelTask model_task(const std::string &name, const std::vector<Record> &records, int version = features_version);

struct Validation {
    std::vector<std::string> tasks;
    // Of each task. `learned`: by a model that saw only tasks of other folds. `before`: by the
    // model from which that learnt on, which may have seen the task; empty where there is none.
    std::vector<Accuracy> learned, analytical, before;
};

// Task i is in fold i mod `folds`. Tasks with fewer than 30 candidates teach but are not asked about. `progress` hears of each fold.
Validation cross_validate(const std::vector<ModelTask> &tasks, size_t folds,
                          const TreeOptions &options = CostModel::default_options(),
                          const std::function<void(size_t)> &progress = nullptr, const CostModel *before = nullptr);

} // namespace kumiko
