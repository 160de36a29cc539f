// For any processor.
#define KUMIKO_KERNELS baseline
#define KUMIKO_KERNELS_NAME "baseline"
#include "sim/kernels/implementation.h"

namespace kumiko::sim {
const Kernels *baseline_kernels() { return &baseline::table; }
} // namespace kumiko::sim
