/* The functions that a program without an operating system has to define: output, and those that
 * compilers generate calls of. */
#include <stddef.h>

void board_semihost(long operation, const void *argument);
void board_exit(long code);

void far_selftest_write(const char *text);
void far_selftest_write(const char *text) { board_semihost(4, text); } /* SYS_WRITE0 */

void board_exit(long code) {
    const long block[2] = {0x20026, code}; /* ADP_Stopped_ApplicationExit */
    board_semihost(0x20, block);           /* SYS_EXIT_EXTENDED */
    for (;;) {
    }
}

void *memset(void *to, int value, size_t n) {
    volatile char *t = to;
    while (n--) *t++ = (char)value;
    return to;
}

void *memcpy(void *to, const void *from, size_t n) {
    volatile char *t = to;
    const char *f = from;
    while (n--) *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t n) {
    volatile char *t = to;
    const char *f = from;
    if (t < f) return memcpy(to, from, n);
    while (n--) t[n] = f[n];
    return to;
}
