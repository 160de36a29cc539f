/* The last error of each thread: the kernel returns its code, the text is stored here. */
#include "kumiko_runtime.h"

enum { ERROR_BYTES = 512 };

static KUMIKO_THREAD_LOCAL char last_text[ERROR_BYTES];

int kumiko_abi_version(void) { return KUMIKO_ABI_VERSION; }

int kumiko_fail(int code, const char *text) {
    size_t n = 0;
    if (text == last_text) return code; /* propagates an error */
    while (text && text[n] && n < ERROR_BYTES - 1) {
        last_text[n] = text[n];
        n++;
    }
    last_text[n] = 0;
    return code;
}

const char *kumiko_error(void) { return last_text; }

void kumiko_clear_error(void) { last_text[0] = 0; }

/* Whether one of count indices, `step` apart, is not from -extent to extent - 1. The loops have no
 * exit, so that they become vectors. */
static int any_outside_64(const int64_t *indices, int64_t count, int64_t step, uint64_t extent) {
    int outside = 0;
    for (int64_t i = 0; i < count; i += step) outside |= (uint64_t)indices[i] + extent >= 2 * extent;
    return outside;
}

static int any_outside_32(const int32_t *indices, int64_t count, int64_t step, uint64_t extent) {
    int outside = 0;
    for (int64_t i = 0; i < count; i += step) outside |= (uint64_t)(int64_t)indices[i] + extent >= 2 * extent;
    return outside;
}

int kumiko_check_indices(const void *indices, int bits, int64_t count, const int64_t *extents, int64_t depth,
                         const char *text) {
    for (int64_t d = 0; d < depth && d < count; d++) {
        const uint64_t extent = (uint64_t)extents[d];
        if (bits == 64 ? any_outside_64((const int64_t *)indices + d, count - d, depth, extent)
                       : any_outside_32((const int32_t *)indices + d, count - d, depth, extent))
            return kumiko_fail(KUMIKO_BAD_INDEX, text);
    }
    return KUMIKO_OK;
}
