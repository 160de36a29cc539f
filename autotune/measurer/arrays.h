/* The kernel's arrays, each between guard pages, and what the outputs must be. */
#ifndef KUMIKO_MEASURER_ARRAYS_H
#define KUMIKO_MEASURER_ARRAYS_H

#include "autotune/measurer/protocol.h"

#include <stddef.h>

typedef struct {
    const uint8_t *file;
    const measurer_task *task;
    const int64_t *sizes;
    const measurer_tensor *tensors;
    const measurer_function *functions;
    void **pointers; /* what kernels are called with */
} measurer_arrays;

/* An array between guard pages, of bytes that are no value's; data is NULL where there is no memory. */
typedef struct {
    uint8_t *data;
    size_t bytes;
} guarded_array;
guarded_array make_guarded(size_t bytes);
void free_guarded(guarded_array *array);
/* From now on, who writes to it ends the process. */
void protect_guarded(const guarded_array *array);

/* Maps the task file and fills inputs. Returns 0, or another number with the cause in `text`. */
int open_arrays(int descriptor, measurer_arrays *arrays, char *text, size_t text_bytes);
/* Takes arrays out of the caches, as if others had used these since the last call. */
void evict_arrays(const measurer_arrays *arrays);
void evict_guarded(const guarded_array *array);
/* Arrays that are updated hold again what they held before the first call. */
void restore_updated(const measurer_arrays *arrays);
/* These too; other outputs become NaN or a pattern, so that an element which a kernel does not write is seen. */
void clear_outputs(const measurer_arrays *arrays);
/* Of all bytes of the outputs; equal for equal bytes. */
uint64_t hash_outputs(const measurer_arrays *arrays);
/* Returns 0 when the outputs are what they must be and the inputs what they were; else 1 with the first difference. */
int check_arrays(const measurer_arrays *arrays, char *text, size_t text_bytes);

#endif
