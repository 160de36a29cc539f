// Tasks that the cost models that come with Kumiko learn from. The ops of the bench suites `tune`,
// `tune-chip` and `own-ops` are not among them.
#pragma once

#include "dsl/op.h"

#include <string>
#include <vector>

namespace kumiko {

struct TrainingTask {
    std::string name; // "matmul m=256,n=256,k=256"
    Op op;
    bool formula_space = false; // only the space made from the formula is searched
};

// For processors: ops at shapes of networks and at odd ones, with every template of the library for
// CPUs among them, then multi_stage_tasks().
std::vector<TrainingTask> training_tasks();
// For chips, with every template of theirs, and shapes that are simulated in a tenth of a second; those of `tune-chip` are not among them.
std::vector<TrainingTask> chip_training_tasks();

} // namespace kumiko
