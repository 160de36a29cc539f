// A C function for extern stages that stores the registers which functions keep for their callers.
#pragma once

#include <cstdint>

namespace kumiko {

// The output, 5 int64, is rbx and r12 to r15; zeros on other architectures.
#if defined(__x86_64__)
[[gnu::naked]] inline int kept_registers(void *const *, const int64_t *, const int64_t *) {
    asm("movq 8(%rdi), %rax\n\t"
        "movq %rbx, (%rax)\n\t"
        "movq %r12, 8(%rax)\n\t"
        "movq %r13, 16(%rax)\n\t"
        "movq %r14, 24(%rax)\n\t"
        "movq %r15, 32(%rax)\n\t"
        "xorl %eax, %eax\n\t"
        "ret");
}
#else
inline int kept_registers(void *const *arrays, const int64_t *, const int64_t *) {
    for (int r = 0; r < 5; r++) static_cast<int64_t *>(arrays[1])[r] = 0;
    return 0;
}
#endif

} // namespace kumiko
