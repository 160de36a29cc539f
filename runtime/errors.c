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

int kumiko_check_indices(const void *indices, int bits, int64_t count, const int64_t *extents, int64_t depth,
                         const char *text) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t extent = extents[i % depth];
        const int64_t index = bits == 64 ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
        if (index < -extent || index >= extent) return kumiko_fail(KUMIKO_BAD_INDEX, text);
    }
    return KUMIKO_OK;
}
