// What the cost model that comes with Kumiko learns from: ops at shapes of networks and at odd ones, with every template of the
// library for CPUs among them. The tasks of the bench suite `tune` are not.
#pragma once

#include "dsl/op.h"

#include <string>
#include <vector>

namespace kumiko {

struct TrainingTask {
    std::string name; // "matmul m=256,n=256,k=256"
    Op op;
};

std::vector<TrainingTask> training_tasks();
// For chips, with every template of theirs, and shapes that are simulated in a tenth of a second; those of `tune-chip` are not among them.
std::vector<TrainingTask> chip_training_tasks();

} // namespace kumiko
