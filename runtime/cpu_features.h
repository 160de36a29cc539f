/* The processor features that kernels can be built for, by architecture. A feature's bit in the
 * 64-bit sets of kumiko_cpu_features() is the position of its row, so rows are only added at the
 * end. Names are LLVM's, as in the compiler's targets. */
#ifndef KUMIKO_RUNTIME_CPU_FEATURES_H
#define KUMIKO_RUNTIME_CPU_FEATURES_H

/* F(name, CPUID leaf, subleaf, register 0..3 for EAX..EDX, bit, state components that the system
 * must save). The components are bits of XCR0: 0x6 for AVX registers, 0xe6 for AVX-512 registers,
 * 0x60000 for AMX tiles. */
#define KUMIKO_X86_FEATURES(F)                                                                                         \
    F("sse3", 1, 0, 2, 0, 0)                                                                                           \
    F("ssse3", 1, 0, 2, 9, 0)                                                                                          \
    F("sse4.1", 1, 0, 2, 19, 0)                                                                                        \
    F("sse4.2", 1, 0, 2, 20, 0)                                                                                        \
    F("popcnt", 1, 0, 2, 23, 0)                                                                                        \
    F("movbe", 1, 0, 2, 22, 0)                                                                                         \
    F("aes", 1, 0, 2, 25, 0)                                                                                           \
    F("pclmul", 1, 0, 2, 1, 0)                                                                                         \
    F("avx", 1, 0, 2, 28, 0x6)                                                                                         \
    F("f16c", 1, 0, 2, 29, 0x6)                                                                                        \
    F("fma", 1, 0, 2, 12, 0x6)                                                                                         \
    F("lzcnt", 0x80000001, 0, 2, 5, 0)                                                                                 \
    F("sse4a", 0x80000001, 0, 2, 6, 0)                                                                                 \
    F("xop", 0x80000001, 0, 2, 11, 0x6)                                                                                \
    F("fma4", 0x80000001, 0, 2, 16, 0x6)                                                                               \
    F("tbm", 0x80000001, 0, 2, 21, 0)                                                                                  \
    F("bmi", 7, 0, 1, 3, 0)                                                                                            \
    F("bmi2", 7, 0, 1, 8, 0)                                                                                           \
    F("adx", 7, 0, 1, 19, 0)                                                                                           \
    F("sha", 7, 0, 1, 29, 0)                                                                                           \
    F("gfni", 7, 0, 2, 8, 0)                                                                                           \
    F("vaes", 7, 0, 2, 9, 0x6)                                                                                         \
    F("vpclmulqdq", 7, 0, 2, 10, 0x6)                                                                                  \
    F("avx2", 7, 0, 1, 5, 0x6)                                                                                         \
    F("avx512f", 7, 0, 1, 16, 0xe6)                                                                                    \
    F("avx512dq", 7, 0, 1, 17, 0xe6)                                                                                   \
    F("avx512cd", 7, 0, 1, 28, 0xe6)                                                                                   \
    F("avx512bw", 7, 0, 1, 30, 0xe6)                                                                                   \
    F("avx512vl", 7, 0, 1, 31, 0xe6)                                                                                   \
    F("avx512ifma", 7, 0, 1, 21, 0xe6)                                                                                 \
    F("avx512vbmi", 7, 0, 2, 1, 0xe6)                                                                                  \
    F("avx512vbmi2", 7, 0, 2, 6, 0xe6)                                                                                 \
    F("avx512vnni", 7, 0, 2, 11, 0xe6)                                                                                 \
    F("avx512bitalg", 7, 0, 2, 12, 0xe6)                                                                               \
    F("avx512vpopcntdq", 7, 0, 2, 14, 0xe6)                                                                            \
    F("avx512vp2intersect", 7, 0, 3, 8, 0xe6)                                                                          \
    F("avx512fp16", 7, 0, 3, 23, 0xe6)                                                                                 \
    F("avx512bf16", 7, 1, 0, 5, 0xe6)                                                                                  \
    F("avxvnni", 7, 1, 0, 4, 0x6)                                                                                      \
    F("avxifma", 7, 1, 0, 23, 0x6)                                                                                     \
    F("avxvnniint8", 7, 1, 3, 4, 0x6)                                                                                  \
    F("avxneconvert", 7, 1, 3, 5, 0x6)                                                                                 \
    F("avxvnniint16", 7, 1, 3, 10, 0x6)                                                                                \
    F("amx-tile", 7, 0, 3, 24, 0x60000)                                                                                \
    F("amx-int8", 7, 0, 3, 25, 0x60000)                                                                                \
    F("amx-bf16", 7, 0, 3, 22, 0x60000)

/* F(name, word, bit) in the hardware capabilities from Linux: AT_HWCAP (word 0), AT_HWCAP2 (word
 * 1). */
#define KUMIKO_AARCH64_FEATURES(F)                                                                                     \
    F("neon", 0, 1)                                                                                                    \
    F("lse", 0, 8)                                                                                                     \
    F("fullfp16", 0, 10)                                                                                               \
    F("rdm", 0, 12)                                                                                                    \
    F("dotprod", 0, 20)                                                                                                \
    F("sve", 0, 22)                                                                                                    \
    F("sve2", 1, 1)                                                                                                    \
    F("i8mm", 1, 13)                                                                                                   \
    F("bf16", 1, 14)

#define KUMIKO_RISCV_FEATURES(F) F("v", 0, 21)

#endif
