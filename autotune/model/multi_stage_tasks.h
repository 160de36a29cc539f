// Ops of several stages that the cost model of processors learns from. Each is a chain of two to
// four structures, such as products, convolutions, statistics of rows, gathers, scans and
// permutations, with pointwise stages between some of them. Each ordered pair of two different
// structures begins one chain. Others read or write pixels, multiply small matrices, or have two
// outputs.
#pragma once

#include "autotune/model/training_tasks.h"

namespace kumiko {

// 280 ops of 2 to 10 stages, the same on every machine: the number of an op is the seed of its
// random choices. Extents are numbers. A call of a good schedule takes about 10 µs to 1 ms on one
// core.
std::vector<TrainingTask> multi_stage_tasks();

} // namespace kumiko
