/* What this processor has. Asked once; the answer never changes, so that threads may find it out at the same time. */
#include "cpu_features.h"
#include "kumiko_runtime.h"

#include <stdatomic.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__linux__) && (defined(__aarch64__) || defined(__riscv))
#include <sys/auxv.h>
#endif

enum { TEXT_BYTES = 400 };
static const uint64_t known = (uint64_t)1 << 63; /* no feature's bit: the answer is there */

#if defined(__x86_64__) || defined(__i386__)

typedef struct {
    const char *name;
    unsigned leaf, subleaf;
    int reg, bit;
    unsigned state;
} feature;

#define ROW(name, leaf, subleaf, reg, bit, state) {name, leaf, subleaf, reg, bit, state},
static const feature table[] = {KUMIKO_X86_FEATURES(ROW)};

/* The registers that the system saves when it switches between programs: XCR0. */
static unsigned saved_state(void) {
    unsigned r[4], low, high;
    if (!__get_cpuid_count(1, 0, &r[0], &r[1], &r[2], &r[3]) || !(r[2] >> 27 & 1)) return 0; /* no XGETBV */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static uint64_t detect(void) {
    const unsigned state = saved_state();
    uint64_t found = 0;
    unsigned r[4];
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        /* Asking is slow in virtual machines: once for all rows of a leaf. */
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

static uint64_t detect(void) {
    uint64_t found = 0;
#if defined(__linux__) && (defined(__aarch64__) || defined(__riscv))
    const unsigned long words[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        if (words[table[i].word] >> table[i].bit & 1) found |= (uint64_t)1 << i;
    }
#else
    found = ~known; /* nobody to ask: whoever links the kernels knows the processor, or sets the hook */
#endif
    return found;
}

#endif

static _Atomic(kumiko_features_hook) hook;
static _Atomic uint64_t detected;

uint64_t kumiko_cpu_features(void) {
    const kumiko_features_hook h = atomic_load_explicit(&hook, memory_order_acquire);
    uint64_t found = atomic_load_explicit(&detected, memory_order_relaxed);
    if (!found) {
        found = detect() | known;
        atomic_store_explicit(&detected, found, memory_order_relaxed);
    }
    found &= ~known;
    return h ? h(found) : found;
}

kumiko_features_hook kumiko_set_cpu_features(kumiko_features_hook h) { return atomic_exchange(&hook, h); }

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
    char text[TEXT_BYTES];
    unsigned n = 0;
    const char *separator = ": this processor lacks ";
    if (!missing) return KUMIKO_OK;
#define APPEND(part)                                                                                                   \
    for (const char *p = (part); *p && n < TEXT_BYTES - 1; p++) text[n++] = *p
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
