// For x86-64 with AVX2, FMA and F16C; empty if the compiler lacks these options.
#include "sim/kernels/kernels.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#define KUMIKO_KERNELS avx2
#define KUMIKO_KERNELS_NAME "avx2"
#include "sim/kernels/implementation.h"

namespace kumiko::sim {
const Kernels *avx2_kernels() {
    const bool there =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    return there ? &avx2::table : nullptr;
}
} // namespace kumiko::sim

#else

namespace kumiko::sim {
const Kernels *avx2_kernels() { return nullptr; }
} // namespace kumiko::sim

#endif
