/* Links one relocatable object into this process: ELF, x86-64. What it may leave undefined are the runtime's functions,
 * and functions of the C and math libraries. No constructors, no thread-local data, no common symbols. */
#ifndef KUMIKO_MEASURER_LINK_H
#define KUMIKO_MEASURER_LINK_H

#include <stddef.h>

typedef struct {
    void *base; /* NULL: nothing linked */
    size_t bytes;
    void *entry;
} linked_image;

/* Returns 0 and fills `image`, with the address of the function named `entry`; or 1 and says why in `text`. */
int link_object(const void *object, size_t bytes, const char *entry, linked_image *image, char *text,
                size_t text_bytes);
void unlink_image(linked_image *image);

#endif
