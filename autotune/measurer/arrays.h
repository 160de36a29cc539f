/* The kernel's arrays, each between guard pages, and the expected outputs. */
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
    void **pointers; /* arguments of the kernels */
} measurer_arrays;

/* An array between guard pages, filled with bytes that are not a value; data is NULL if there is no
 * memory. */
typedef struct {
    uint8_t *data;
    size_t bytes;
} guarded_array;
guarded_array make_guarded(size_t bytes);
void free_guarded(guarded_array *array);
/* Makes the array read-only: a write ends the process. */
void protect_guarded(const guarded_array *array);

/* Maps the task file and fills inputs. Returns 0, or nonzero with the cause in `text`. */
int open_arrays(int descriptor, measurer_arrays *arrays, char *text, size_t text_bytes);
/* Evicts the arrays from the caches. */
void evict_arrays(const measurer_arrays *arrays);
void evict_guarded(const guarded_array *array);
/* Restores the initial contents of arrays that are updated in place. */
void restore_updated(const measurer_arrays *arrays);
/* Restores updated arrays, and fills other outputs with NaN or a pattern, so that elements which a
 * kernel does not write are detected. */
void clear_outputs(const measurer_arrays *arrays);
/* A hash of all bytes of the outputs. */
uint64_t hash_outputs(const measurer_arrays *arrays);
/* Returns 0 if the outputs are correct and the inputs unchanged; otherwise 1, with the first
 * difference in `text`. */
int check_arrays(const measurer_arrays *arrays, char *text, size_t text_bytes);

#endif
