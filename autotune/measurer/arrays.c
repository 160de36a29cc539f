#define _GNU_SOURCE
#include "autotune/measurer/arrays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { PAGE = 4096, LINE = 64, SLACK = 0x5a };
enum { CODE_INT = 0, CODE_UINT = 1, CODE_FLOAT = 2, CODE_BFLOAT = 4 };

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* The array ends less than a cache line before a guard page, and starts on a cache line. Before it
 * is a guard page, or fill bytes that check_arrays verifies. */
guarded_array make_guarded(size_t bytes) {
    const size_t lines = round_up(bytes ? bytes : 1, LINE), inside = round_up(lines, PAGE);
    uint8_t *base = mmap(NULL, inside + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return (guarded_array){NULL, 0};
    if (mprotect(base + PAGE, inside, PROT_READ | PROT_WRITE)) {
        munmap(base, inside + 2 * PAGE);
        return (guarded_array){NULL, 0};
    }
    memset(base + PAGE, SLACK, inside);
    return (guarded_array){base + PAGE + inside - lines, lines};
}

static uint8_t *first_page(const guarded_array *a) { return a->data + a->bytes - round_up(a->bytes, PAGE); }

void free_guarded(guarded_array *a) {
    if (a->data) munmap(first_page(a) - PAGE, round_up(a->bytes, PAGE) + 2 * PAGE);
    *a = (guarded_array){NULL, 0};
}

void protect_guarded(const guarded_array *a) { mprotect(first_page(a), round_up(a->bytes, PAGE), PROT_READ); }

int open_arrays(int descriptor, measurer_arrays *a, char *text, size_t text_bytes) {
    struct stat info;
    snprintf(text, text_bytes, "the task file is malformed");
    if (fstat(descriptor, &info) || (size_t)info.st_size < sizeof(measurer_task)) return 1;
    a->file = mmap(NULL, info.st_size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (a->file == MAP_FAILED) {
        snprintf(text, text_bytes, "there is no memory for the arrays");
        return MEASURER_NO_MEMORY;
    }
    a->task = (const measurer_task *)a->file;
    if (a->task->magic != MEASURER_MAGIC || a->task->version != MEASURER_VERSION ||
        a->task->bytes != (uint64_t)info.st_size) {
        snprintf(text, text_bytes, "the task file is of another version");
        return 1;
    }
    const uint64_t described = sizeof *a->task + a->task->sizes * sizeof *a->sizes +
                               a->task->tensors * sizeof *a->tensors + a->task->functions * sizeof *a->functions;
    if (described > a->task->bytes) return 1;
    a->sizes = (const int64_t *)(a->task + 1);
    a->tensors = (const measurer_tensor *)(a->sizes + a->task->sizes);
    a->functions = (const measurer_function *)(a->tensors + a->task->tensors);
    a->pointers = calloc(a->task->tensors + 1, sizeof *a->pointers);
    for (uint32_t t = 0; a->pointers && t < a->task->tensors; t++) {
        const measurer_tensor *tensor = &a->tensors[t];
        a->pointers[t] = make_guarded(tensor->bytes).data;
        if (!a->pointers[t]) {
            snprintf(text, text_bytes, "there is no memory for the arrays");
            return MEASURER_NO_MEMORY;
        }
        if (!tensor->output) memcpy(a->pointers[t], a->file + tensor->data, tensor->bytes);
    }
    clear_outputs(a);
    return a->pointers == NULL;
}

#if defined(__x86_64__)
static void evict(const uint8_t *data, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += 64) __asm__ volatile("clflush %0" : : "m"(data[at]) : "memory");
    __asm__ volatile("mfence" : : : "memory");
}
#elif defined(__aarch64__)
static void evict(const uint8_t *data, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += 64) __asm__ volatile("dc civac, %0" : : "r"(data + at) : "memory");
    __asm__ volatile("dsb sy" : : : "memory");
}
#else /* by touching other memory, larger than most caches */
static void evict(const uint8_t *data, uint64_t bytes) {
    enum { OTHER = 128 << 20 };
    static uint8_t *other;
    (void)data, (void)bytes;
    if (!other) other = calloc(OTHER, 1);
    for (size_t at = 0; other && at < OTHER; at += 64) ((volatile uint8_t *)other)[at]++;
}
#endif

void evict_arrays(const measurer_arrays *a) {
    for (uint32_t t = 0; t < a->task->tensors; t++) {
        evict(a->pointers[t], a->tensors[t].bytes);
#if !defined(__x86_64__) && !defined(__aarch64__)
        break; /* evicts everything at once */
#endif
    }
}

void evict_guarded(const guarded_array *a) { evict(a->data, a->bytes); }

void clear_outputs(const measurer_arrays *a) {
    for (uint32_t t = 0; t < a->task->tensors; t++) {
        const measurer_tensor *tensor = &a->tensors[t];
        const int is_float = tensor->code == CODE_FLOAT || tensor->code == CODE_BFLOAT;
        if (tensor->output && !tensor->before) memset(a->pointers[t], is_float ? 0xff : 0xa5, tensor->bytes);
    }
    restore_updated(a);
}

void restore_updated(const measurer_arrays *a) {
    for (uint32_t t = 0; t < a->task->tensors; t++) {
        const measurer_tensor *tensor = &a->tensors[t];
        if (tensor->before) memcpy(a->pointers[t], a->file + tensor->before, tensor->bytes);
    }
}

uint64_t hash_outputs(const measurer_arrays *a) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, eight bytes a step */
    for (uint32_t t = 0; t < a->task->tensors; t++) {
        const measurer_tensor *tensor = &a->tensors[t];
        const uint8_t *data = a->pointers[t];
        if (!tensor->output) continue;
        for (uint64_t at = 0; at < tensor->bytes; at += 8) {
            uint64_t word = 0;
            memcpy(&word, data + at, tensor->bytes - at < 8 ? tensor->bytes - at : 8);
            hash = (hash ^ word) * 0x100000001b3u;
            hash ^= hash >> 29;
        }
    }
    return hash;
}

static double half_value(uint16_t h) {
    const double sign = h >> 15 ? -1 : 1;
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

static double bfloat_value(uint16_t h) {
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static double element(const measurer_tensor *t, const void *data, size_t i) {
    if (t->code == CODE_BFLOAT) return bfloat_value(((const uint16_t *)data)[i]);
    if (t->code == CODE_FLOAT) {
        if (t->bits == 16) return half_value(((const uint16_t *)data)[i]);
        return t->bits == 32 ? ((const float *)data)[i] : ((const double *)data)[i];
    }
    const int is_signed = t->code == CODE_INT;
    switch (t->bits) {
    case 16:
        return is_signed ? (double)((const int16_t *)data)[i] : (double)((const uint16_t *)data)[i];
    case 32:
        return is_signed ? (double)((const int32_t *)data)[i] : (double)((const uint32_t *)data)[i];
    case 64:
        return is_signed ? (double)((const int64_t *)data)[i] : (double)((const uint64_t *)data)[i];
    default:
        return is_signed ? (double)((const int8_t *)data)[i] : (double)((const uint8_t *)data)[i];
    }
}

/* Compares bits, except that +0 equals -0 and all NaNs are equal: the sign of a zero sum depends on
 * the order. */
static int check_exact(const measurer_tensor *t, const void *data, const void *expected, size_t *at) {
    if (memcmp(data, expected, t->bytes) == 0) return 0;
    const int is_float = t->code == CODE_FLOAT || t->code == CODE_BFLOAT;
    const size_t size = t->elements ? t->bytes / t->elements : 1;
    for (size_t i = 0; i < t->elements; i++) {
        if (memcmp((const uint8_t *)data + i * size, (const uint8_t *)expected + i * size, size) == 0) continue;
        if (is_float) {
            const double a = element(t, data, i), b = element(t, expected, i);
            if (a == b || (isnan(a) && isnan(b))) continue;
        }
        *at = i;
        return 1;
    }
    return 0;
}

/* Whether the element is still as clear_outputs left it: for floats, a NaN that no arithmetic
 * produces. 0 for integers, which have no such value. */
static int unwritten(const measurer_tensor *t, const void *data, size_t i) {
    if (t->code != CODE_FLOAT && t->code != CODE_BFLOAT) return 0;
    const uint8_t *p = (const uint8_t *)data + i * (t->bits / 8);
    for (int b = 0; b < t->bits / 8; b++) {
        if (p[b] != 0xff) return 0;
    }
    return 1;
}

static int is_within(double a, double expected, double bound) {
    if (isnan(bound) || isinf(bound)) return 1; /* no bound */
    return a == expected || fabs(a - expected) <= bound || (isnan(a) && isnan(expected));
}

static int check_bounded(const measurer_tensor *t, const void *data, const double *expected, size_t *at) {
    const double *bound = expected + t->elements;
    for (size_t i = 0; i < t->elements; i++) {
        if (is_within(element(t, data, i), expected[i], bound[i])) continue;
        *at = i;
        return 1;
    }
    return 0;
}

/* Checks the elements of the sample, and that all others are written. */
static int check_sample(const measurer_tensor *t, const void *data, const int64_t *places, size_t *at, double *wanted) {
    const double *expected = (const double *)(places + t->samples), *bound = expected + t->samples;
    for (size_t i = 0; i < t->elements; i++) {
        if (!unwritten(t, data, i)) continue;
        *at = i;
        return 1;
    }
    for (size_t s = 0; s < t->samples; s++) {
        if (is_within(element(t, data, (size_t)places[s]), expected[s], bound[s])) continue;
        *at = (size_t)places[s];
        *wanted = expected[s];
        return 1;
    }
    return 0;
}

/* Whether bytes differ from the fill pattern. Restores the pattern for the next kernel. */
static int was_overwritten(uint8_t *begin, const uint8_t *end) {
    int found = 0;
    for (uint8_t *p = begin; p < end; p++) {
        found |= *p != SLACK;
        *p = SLACK;
    }
    return found;
}

/* Checks the fill bytes after the array, and those before it on its first page. */
static int check_slack(const measurer_tensor *t, uint8_t *data) {
    const int before = was_overwritten((uint8_t *)((uintptr_t)data / PAGE * PAGE), data);
    return was_overwritten(data + t->bytes, data + round_up(t->bytes ? t->bytes : 1, LINE)) | before;
}

int check_arrays(const measurer_arrays *a, char *text, size_t text_bytes) {
    for (uint32_t t = 0; t < a->task->tensors; t++) {
        const measurer_tensor *tensor = &a->tensors[t];
        void *data = a->pointers[t];
        const void *expected = a->file + tensor->data;
        size_t at = 0;
        if (check_slack(tensor, data)) {
            snprintf(text, text_bytes, "writes outside tensor %u", t);
            return 1;
        }
        if (!tensor->output) {
            if (memcmp(data, expected, tensor->bytes) == 0) continue;
            snprintf(text, text_bytes, "changes input %u", t);
            memcpy(a->pointers[t], expected, tensor->bytes); /* for the next kernel */
            return 1;
        }
        double wanted = 0;
        if (tensor->bounded == 2 ? check_sample(tensor, data, expected, &at, &wanted)
            : tensor->bounded    ? check_bounded(tensor, data, expected, &at)
                                 : check_exact(tensor, data, expected, &at)) {
            if (tensor->bounded == 2 && unwritten(tensor, data, at)) {
                snprintf(text, text_bytes, "element %zu of tensor %u is not written", at, t);
                return 1;
            }
            if (tensor->bounded != 2)
                wanted = tensor->bounded ? ((const double *)expected)[at] : element(tensor, expected, at);
            snprintf(text, text_bytes, "wrong result: element %zu of tensor %u is %.9g and must be %.9g", at, t,
                     element(tensor, data, at), wanted);
            return 1;
        }
    }
    return 0;
}
