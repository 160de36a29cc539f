// For x86-64 with AVX-512 F, BW, VL and DQ; empty if the compiler lacks these options.
#include "sim/kernels/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && defined(__F16C__)

#define KUMIKO_KERNELS avx512
#define KUMIKO_KERNELS_NAME "avx512"
#include "sim/kernels/implementation.h"

namespace kumiko::sim {
const Kernels *avx512_kernels() {
    const bool there = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                       __builtin_cpu_supports("f16c");
    return there ? &avx512::table : nullptr;
}
} // namespace kumiko::sim

#else

namespace kumiko::sim {
const Kernels *avx512_kernels() { return nullptr; }
} // namespace kumiko::sim

#endif
