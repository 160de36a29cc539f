// Training tasks of the shipped cost models. The ops of the bench suites `tune`, `tune-chip` and
// `own-ops` are excluded.
#pragma once

#include "dsl/op.h"

#include <string>
#include <vector>

namespace kumiko {

struct TrainingTask {
    std::string name; // "matmul m=256,n=256,k=256"
    Op op;
    bool formula_space = false; // search only the space derived from the formula
};

// For processors: ops at shapes from neural networks and at odd shapes, covering every CPU template
// of the library, then multi_stage_tasks().
std::vector<TrainingTask> training_tasks();
// Tasks for chips. They cover all templates of the chip at shapes that take a tenth of a second to
// simulate. Tasks of the suite `tune-chip` are excluded.
std::vector<TrainingTask> chip_training_tasks();

} // namespace kumiko
