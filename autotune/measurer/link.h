/* Links one relocatable object (ELF, x86-64) into this process. Undefined symbols may be functions
 * of the runtime, of the C and math libraries, and those passed to load_functions. No constructors,
 * thread-local data or common symbols. */
#ifndef KUMIKO_MEASURER_LINK_H
#define KUMIKO_MEASURER_LINK_H

#include "autotune/measurer/protocol.h"

#include <stddef.h>

enum { LINKED_ENTRIES = 8 };

typedef struct {
    void *base; /* NULL: nothing linked */
    size_t bytes;
    void *entries[LINKED_ENTRIES];
} linked_image;

/* Loads the shared libraries of `functions`, which must outlive the objects that call them. Returns
 * 0, or 1 with the cause in `text`. */
int load_functions(const measurer_function *functions, size_t count, char *text, size_t text_bytes);
/* Returns 0 and fills `image`, with the addresses of the named functions, at most LINKED_ENTRIES;
 * otherwise 1, with the cause in `text`. */
int link_object(const void *object, size_t bytes, const char *const *names, size_t count, linked_image *image,
                char *text, size_t text_bytes);
void unlink_image(linked_image *image);

#endif
