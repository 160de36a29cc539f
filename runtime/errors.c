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
