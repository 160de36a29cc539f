// Trains a cost model on tuning records, and validates it on held-out tasks.
#pragma once

#include "autotune/model/accuracy.h"
#include "autotune/model/cost_model.h"
#include "autotune/record.h"

#include <functional>

namespace kumiko {

// The records that have all features of that version; failed ones are included as infinitely slow.
ModelTask model_task(const std::string &name, const std::vector<Record> &records, int version = features_version);

struct Validation {
    std::vector<std::string> tasks;
    // Per task. `learned`: a model trained only on other folds. `before`: the model that it
    // extends, which may have seen the task; empty if there is none.
    std::vector<Accuracy> learned, analytical, before;
};

// Task i is in fold i mod `folds`. Tasks with fewer than 30 candidates are used for training but
// not validated. `progress` is called for each fold.
Validation cross_validate(const std::vector<ModelTask> &tasks, size_t folds,
                          const TreeOptions &options = CostModel::default_options(),
                          const std::function<void(size_t)> &progress = nullptr, const CostModel *before = nullptr);

} // namespace kumiko
