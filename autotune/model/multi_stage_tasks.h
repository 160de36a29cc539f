// Training ops with several stages for the processors' cost model. Each is a chain of two to four
// structures (products, convolutions, row statistics, gathers, scans, permutations, …) with
// pointwise stages between some of them. Each ordered pair of two different structures starts one
// chain. Others read or write pixels, multiply small matrices, or have two outputs.
#pragma once

#include "autotune/model/training_tasks.h"

namespace kumiko {

// 280 ops of 2 to 10 stages, the same on every machine: the number of an op is its random seed.
// Extents are constants. With a good schedule, a call takes about 10 µs to 1 ms on one core.
std::vector<TrainingTask> multi_stage_tasks();

} // namespace kumiko
