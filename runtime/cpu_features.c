/* Detects the processor's features, once. The result never changes, so threads may detect it
 * concurrently. */
#define _GNU_SOURCE /* syscall */
#include "cpu_features.h"
#include "kumiko_runtime.h"

#include <stdatomic.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#if !KUMIKO_FREESTANDING && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif !KUMIKO_FREESTANDING && defined(__linux__) && (defined(__aarch64__) || defined(__riscv))
#include <sys/auxv.h>
#endif

enum { MISSING_BYTES = 400 };
static const uint64_t known = (uint64_t)1 << 63; /* not a feature: marks the value as known */

#if defined(__x86_64__) || defined(__i386__)

typedef struct {
    const char *name;
    unsigned leaf, subleaf;
    int reg, bit;
    unsigned state;
} feature;

#define ROW(name, leaf, subleaf, reg, bit, state) {name, leaf, subleaf, reg, bit, state},
static const feature table[] = {KUMIKO_X86_FEATURES(ROW)};

/* The register state that the system saves on context switches: XCR0. */
static unsigned saved_state(void) {
    unsigned r[4], low, high;
    /* Without XGETBV no state is enabled. */
    if (!__get_cpuid_count(1, 0, &r[0], &r[1], &r[2], &r[3]) || !(r[2] >> 27 & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

enum { WITH_AVX = 0x6, WITH_AVX512 = 0xe6, WITH_TILES = 0x60000 }; /* required states */

static uint64_t all_with(unsigned state) {
    uint64_t set = 0;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].state == state) set |= (uint64_t)1 << i;
    }
    return set;
}

/* Removes features that depend on a missing one. */
static uint64_t closed(uint64_t set) {
    const uint64_t wide = kumiko_cpu_feature("avx2") | kumiko_cpu_feature("fma") | kumiko_cpu_feature("f16c") |
                          kumiko_cpu_feature("avx512f");
    if (!(set & kumiko_cpu_feature("avx"))) set &= ~all_with(WITH_AVX);
    if ((set & wide) != wide) set &= ~all_with(WITH_AVX512);
    if (!(set & kumiko_cpu_feature("avx512bw")))
        set &=
            ~(kumiko_cpu_feature("avx512bf16") | kumiko_cpu_feature("avx512vbmi") | kumiko_cpu_feature("avx512vbmi2") |
              kumiko_cpu_feature("avx512bitalg") | kumiko_cpu_feature("avx512fp16"));
    if (!(set & kumiko_cpu_feature("avx512dq")) || !(set & kumiko_cpu_feature("avx512vl")))
        set &= ~kumiko_cpu_feature("avx512fp16");
    if (!(set & kumiko_cpu_feature("amx-tile"))) set &= ~all_with(WITH_TILES);
    return set;
}

static uint64_t tile_features(void) { return all_with(WITH_TILES); }

/* Linux saves the tile registers only for processes that have requested them: ARCH_REQ_XCOMP_PERM
 * for XFEATURE_XTILEDATA. */
static int may_use_tiles(void) {
#if !KUMIKO_FREESTANDING && defined(__linux__) && defined(SYS_arch_prctl)
    return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
#else
    return 0;
#endif
}

static uint64_t detect(void) {
    const unsigned state = saved_state();
    uint64_t found = 0;
    unsigned r[4];
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        /* CPUID is slow in virtual machines: run it once for all rows of a leaf. */
        if (i == 0 || table[i].leaf != table[i - 1].leaf || table[i].subleaf != table[i - 1].subleaf) {
            if (!__get_cpuid_count(table[i].leaf, table[i].subleaf, &r[0], &r[1], &r[2], &r[3]))
                r[0] = r[1] = r[2] = r[3] = 0;
        }
        if ((r[table[i].reg] >> table[i].bit & 1) && (state & table[i].state) == table[i].state)
            found |= (uint64_t)1 << i;
    }
    return found;
}

#else

typedef struct {
    const char *name;
    int word, bit;
} feature;

#define ROW(name, word, bit) {name, word, bit},
#if defined(__aarch64__)
static const feature table[] = {KUMIKO_AARCH64_FEATURES(ROW)};
#elif defined(__riscv)
static const feature table[] = {KUMIKO_RISCV_FEATURES(ROW)};
#else
static const feature table[] = {{"", 0, 0}};
#endif

static uint64_t closed(uint64_t set) { return set; }
static uint64_t tile_features(void) { return 0; }

static uint64_t detect(void) {
    uint64_t found = 0;
#if !KUMIKO_FREESTANDING && defined(__linux__) && (defined(__aarch64__) || defined(__riscv))
    const unsigned long words[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        if (words[table[i].word] >> table[i].bit & 1) found |= (uint64_t)1 << i;
    }
#else
    found = ~known; /* cannot be detected: assume all; the program can set the hook */
#endif
    return found;
}

#endif

static _Atomic(kumiko_features_hook) hook;
static _Atomic uint64_t detected;

/* The cached result of kumiko_cpu_features(), or 0 if it must be called: before the first call, and
 * while a hook is set. Entry points of libraries read it first: two calls took 3 of the 25 ns of a
 * product of 8x8 matrices. */
#if defined(__GNUC__)
__attribute__((visibility("hidden")))
#endif
_Atomic uint64_t kumiko_ready_features;

uint64_t kumiko_cpu_features(void) {
    const kumiko_features_hook h = atomic_load_explicit(&hook, memory_order_acquire);
    uint64_t found = atomic_load_explicit(&detected, memory_order_relaxed);
    if (!found) {
        found = (detect() & ~tile_features()) | known;
        atomic_store_explicit(&detected, found, memory_order_relaxed);
    }
    found &= ~known;
    if (h) return closed(h(found));
    atomic_store_explicit(&kumiko_ready_features, found, memory_order_relaxed);
    return found;
}

#if defined(__x86_64__) || defined(__i386__)

static _Atomic uint64_t granted; /* the features that need tiles, once requested */

int kumiko_request_tiles(void) {
    uint64_t got = atomic_load_explicit(&granted, memory_order_relaxed);
    if (!got) { /* concurrent requests get the same result */
        const uint64_t there = detect() & tile_features();
        got = (there && may_use_tiles() ? there : 0) | known;
        (void)kumiko_cpu_features();
        atomic_fetch_or_explicit(&detected, got, memory_order_relaxed);
        atomic_store_explicit(&granted, got, memory_order_relaxed);
    }
    return got != known;
}

#else

int kumiko_request_tiles(void) { return 0; }

#endif

kumiko_features_hook kumiko_set_cpu_features(kumiko_features_hook h) {
    const kumiko_features_hook before = atomic_load(&hook);
    atomic_store(&hook, h);
    atomic_store(&kumiko_ready_features, 0);
    return before;
}

static int same(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

uint64_t kumiko_cpu_feature(const char *name) {
    for (unsigned i = 0; name && i < sizeof table / sizeof *table; i++) {
        if (same(table[i].name, name)) return (uint64_t)1 << i;
    }
    return 0;
}

int kumiko_require_features(uint64_t needed, const char *kernel) {
    const uint64_t missing = needed & ~kumiko_cpu_features();
    char text[MISSING_BYTES];
    unsigned n = 0;
    const char *separator = ": this processor lacks ";
    if (!missing) return KUMIKO_OK;
#define APPEND(part)                                                                                                   \
    for (const char *p = (part); *p && n < MISSING_BYTES - 1; p++) text[n++] = *p
    APPEND(kernel);
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        if (!(missing >> i & 1)) continue;
        APPEND(separator);
        APPEND(table[i].name);
        separator = ", ";
    }
    APPEND(", for which the kernel was built");
    text[n] = 0;
    return kumiko_fail(KUMIKO_MISSING_FEATURE, text);
}
