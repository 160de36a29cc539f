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

} // namespace kumiko
