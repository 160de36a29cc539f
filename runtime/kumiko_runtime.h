/* The C interface that generated kernels call: threads, workspaces and errors. Plain C11. Every
 * generated library contains it, as C sources or as objects, so a C program depends only on that
 * library.
 *
 * Every symbol starts with kumiko_. If a library must not share its pool, caches and hooks with
 * another one in the same process, these sources and its kernels are compiled with
 * -DKUMIKO_PREFIX=mylib. The symbols are then mylib_parallel_for ...
 *
 * Kernels are reentrant. The number of threads changes the run time of a kernel, never its
 * result. */
#ifndef KUMIKO_RUNTIME_H
#define KUMIKO_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "kumiko_context.h"

/* Incremented when a signature or its semantics change below. kumiko_abi_version() returns the
 * number that was compiled in. */
#define KUMIKO_ABI_VERSION 3

/* 1: for machines without an operating system or a C library. Loops are then serial unless a hook
 * is set, workspaces require kumiko_set_memory(), all threads share one error text, and the
 * processor is assumed to have every feature unless kumiko_set_cpu_features() limits them. */
#ifndef KUMIKO_FREESTANDING
#define KUMIKO_FREESTANDING 0
#endif
#if KUMIKO_FREESTANDING
#define KUMIKO_THREAD_LOCAL
#else
#define KUMIKO_THREAD_LOCAL _Thread_local
#endif

#ifdef KUMIKO_PREFIX
#define KUMIKO_JOIN2(a, b) a##_##b
#define KUMIKO_JOIN(a, b) KUMIKO_JOIN2(a, b)
#define kumiko_abi_version KUMIKO_JOIN(KUMIKO_PREFIX, abi_version)
#define kumiko_parallel_for KUMIKO_JOIN(KUMIKO_PREFIX, parallel_for)
#define kumiko_set_parallel_for KUMIKO_JOIN(KUMIKO_PREFIX, set_parallel_for)
#define kumiko_default_parallel_for KUMIKO_JOIN(KUMIKO_PREFIX, default_parallel_for)
#define kumiko_set_num_threads KUMIKO_JOIN(KUMIKO_PREFIX, set_num_threads)
#define kumiko_num_threads KUMIKO_JOIN(KUMIKO_PREFIX, num_threads)
#define kumiko_shutdown_threads KUMIKO_JOIN(KUMIKO_PREFIX, shutdown_threads)
#define kumiko_malloc KUMIKO_JOIN(KUMIKO_PREFIX, malloc)
#define kumiko_free KUMIKO_JOIN(KUMIKO_PREFIX, free)
#define kumiko_set_memory KUMIKO_JOIN(KUMIKO_PREFIX, set_memory)
#define kumiko_trim_memory KUMIKO_JOIN(KUMIKO_PREFIX, trim_memory)
#define kumiko_cpu_features KUMIKO_JOIN(KUMIKO_PREFIX, cpu_features)
#define kumiko_cpu_feature KUMIKO_JOIN(KUMIKO_PREFIX, cpu_feature)
#define kumiko_ready_features KUMIKO_JOIN(KUMIKO_PREFIX, ready_features)
#define kumiko_set_cpu_features KUMIKO_JOIN(KUMIKO_PREFIX, set_cpu_features)
#define kumiko_request_tiles KUMIKO_JOIN(KUMIKO_PREFIX, request_tiles)
#define kumiko_require_features KUMIKO_JOIN(KUMIKO_PREFIX, require_features)
#define kumiko_fail KUMIKO_JOIN(KUMIKO_PREFIX, fail)
#define kumiko_check_indices KUMIKO_JOIN(KUMIKO_PREFIX, check_indices)
#define kumiko_select_nonzero KUMIKO_JOIN(KUMIKO_PREFIX, select_nonzero)
#define kumiko_select_compress KUMIKO_JOIN(KUMIKO_PREFIX, select_compress)
#define kumiko_select_unique KUMIKO_JOIN(KUMIKO_PREFIX, select_unique)
#define kumiko_select_boxes KUMIKO_JOIN(KUMIKO_PREFIX, select_boxes)
#define kumiko_parallel_for_in KUMIKO_JOIN(KUMIKO_PREFIX, parallel_for_in)
#define kumiko_begin_step KUMIKO_JOIN(KUMIKO_PREFIX, begin_step)
#define kumiko_end_step KUMIKO_JOIN(KUMIKO_PREFIX, end_step)
#define kumiko_hash_weights KUMIKO_JOIN(KUMIKO_PREFIX, hash_weights)
#define kumiko_match_weights KUMIKO_JOIN(KUMIKO_PREFIX, match_weights)
#define kumiko_verify_weights KUMIKO_JOIN(KUMIKO_PREFIX, verify_weights)
#define kumiko_error KUMIKO_JOIN(KUMIKO_PREFIX, error)
#define kumiko_clear_error KUMIKO_JOIN(KUMIKO_PREFIX, clear_error)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a kernel returns: 0, or one of these with a text in kumiko_error(). */
enum kumiko_status {
    KUMIKO_OK = 0,
    KUMIKO_NULL_POINTER = 1,      /* a tensor pointer is null */
    KUMIKO_BAD_SIZE = 2,          /* a size or symbolic extent is out of its range */
    KUMIKO_FAILED_ASSUMPTION = 3, /* an assume(...) of the schedule does not hold */
    KUMIKO_OUT_OF_MEMORY = 4,     /* a workspace could not be allocated */
    KUMIKO_BAD_TYPE = 5,          /* an element type differs from the kernel's */
    KUMIKO_BAD_SHAPE = 6,         /* an extent or the rank differs from the kernel's */
    KUMIKO_BAD_STRIDE = 7,        /* a stride differs from what the kernel states */
    KUMIKO_TASK_FAILED = 8,       /* a parallel task failed without a code of its own */
    KUMIKO_MISSING_FEATURE = 9,   /* the processor lacks an instruction set of the kernel */
    KUMIKO_BAD_INDEX = 10,        /* an index read from a tensor is out of range */
    KUMIKO_BAD_WEIGHTS = 11,      /* the weights are not those that were built with the library */
    KUMIKO_BAD_COUNT = 12         /* a loop of a model has more iterations than its bound */
};

int kumiko_abi_version(void);

/* ---- Threads --------------------------------------------------------------------------------- */

/* One iteration of a parallel loop; returns 0 or an error code. */
typedef int (*kumiko_task)(void *closure, int64_t index);
typedef int (*kumiko_parallel_for_hook)(kumiko_task task, void *closure, int64_t begin, int64_t count);

/* Runs task(closure, i) for i in [begin, begin + count), in any order and on any thread, and
 * returns when all are done. Returns 0, or the code of the first task that failed, with its text in
 * the caller's kumiko_error(); tasks that have not started are then skipped. Calls the hook. */
int kumiko_parallel_for(kumiko_task task, void *closure, int64_t begin, int64_t count);

/* Replaces the pool by the program's own; NULL restores the default. Returns the previous hook. */
kumiko_parallel_for_hook kumiko_set_parallel_for(kumiko_parallel_for_hook hook);

/* The default: a pool of POSIX threads, started by the first loop that needs it. The caller takes
 * part. A loop inside a task, and a loop that starts while another thread uses the pool, run
 * serially in their caller. A forked child starts its own pool. */
int kumiko_default_parallel_for(kumiko_task task, void *closure, int64_t begin, int64_t count);

/* The number of threads per loop, including the caller. 0 (the default): one per processor that
 * this process may use. A running loop keeps its threads. */
void kumiko_set_num_threads(int threads);
int kumiko_num_threads(void);

/* Stops and joins the pool's threads; the next loop starts them again. Called automatically when
 * the library is unloaded. */
void kumiko_shutdown_threads(void);

/* ---- Workspaces ------------------------------------------------------------------------------ */

typedef void *(*kumiko_malloc_hook)(size_t bytes);
typedef void (*kumiko_free_hook)(void *block);

/* A block of at least `bytes`, aligned to 64 bytes, uninitialised; NULL on failure. Freed blocks of
 * up to a few megabytes are cached per thread, so that the next call of a kernel reuses mapped and
 * cached pages. */
void *kumiko_malloc(size_t bytes);
void kumiko_free(void *block); /* NULL is allowed; any thread may free */

/* Replaces both; NULL, NULL restores the defaults. Call it while no block is in use. Replacements
 * must align to 64 bytes. */
void kumiko_set_memory(kumiko_malloc_hook allocate, kumiko_free_hook release);

/* Returns the calling thread's cached blocks to the system. */
void kumiko_trim_memory(void);

/* ---- Processor ------------------------------------------------------------------------------- */

/* The features that the processor has and the system enables: a bit set, one bit per feature (see
 * kumiko_cpu_feature()). AMX is included after kumiko_request_tiles() has succeeded. Kernels of
 * libraries check it before they run, and return KUMIKO_MISSING_FEATURE instead of executing an
 * illegal instruction. If a library has a kernel for several processors, the best usable variant
 * runs. */
uint64_t kumiko_cpu_features(void);

/* The bit of a feature, by LLVM's name ("avx2", "avx512f", "dotprod"); 0 for an unknown one. */
uint64_t kumiko_cpu_feature(const char *name);

/* Requests AMX's tile registers from the system, once: Linux enables them per process on request.
 * Returns 1 if they may be used, 0 if there are none or the system refuses. Kernels of libraries
 * with code for AMX call it themselves. */
int kumiko_request_tiles(void);

/* Sets a hook that maps the detected features to the result of kumiko_cpu_features(): fewer, to
 * keep kernels from using some; or more, where there is no operating system to ask. On x86,
 * features that depend on a missing one are removed: without avx2 there is no avx512f. NULL: the
 * detected features. Returns the previous hook. Set it while no kernel runs. */
typedef uint64_t (*kumiko_features_hook)(uint64_t detected);
kumiko_features_hook kumiko_set_cpu_features(kumiko_features_hook hook);

/* Returns 0 if all bits of `needed` are set, otherwise KUMIKO_MISSING_FEATURE with a text that
 * names the kernel and the missing features. */
int kumiko_require_features(uint64_t needed, const char *kernel);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Stores the text (truncated to 511 bytes) for this thread and returns `code`. */
int kumiko_fail(int code, const char *text);

/* The text of this thread's last failure; "" if there was none. Valid until its next failure. */
const char *kumiko_error(void);
void kumiko_clear_error(void);

/* Returns 0 if all indices are in range, otherwise KUMIKO_BAD_INDEX with this text. Index i has
 * `bits` bits, 32 or 64. It is legal from -extents[i % depth] to extents[i % depth] - 1. */
int kumiko_check_indices(const void *indices, int bits, int64_t count, const int64_t *extents, int64_t depth,
                         const char *text);

/* ---- Models ---------------------------------------------------------------------------------- */

typedef enum { KUMIKO_UNSIGNED, KUMIKO_SIGNED, KUMIKO_FLOAT, KUMIKO_BRAIN_FLOAT } kumiko_element_kind;

/* Operators of ONNX whose results have an extent that depends on data. `arrays`: the inputs, then
 * the outputs, then that extent, an int64_t. Outputs have room for the largest extent, and are
 * dense with the actual one. `workspace`: int64_t numbers. All return KUMIKO_OK.
 *
 *   function   arrays                                      parameters                     workspace
 *   nonzero    x; places                                   kind, bytes, rank, extents     none
 *   compress   x, condition; y                             outside, extent, bytes of a    none
 *                                                          row of the axis, conditions
 *   unique     x; y, indices, inverse, counts              kind, bytes, slices, outside,  5 a slice
 *                                                          inside, whether y is sorted
 *   boxes      boxes, scores, inputs 2 to 4 of             batches, classes, boxes, by    2 a box
 *              NonMaxSuppression that are given; selected  centre, given inputs 2 to 4
 */
int kumiko_select_nonzero(void *const *arrays, const int64_t *parameters, void *workspace);
int kumiko_select_compress(void *const *arrays, const int64_t *parameters, void *workspace);
int kumiko_select_unique(void *const *arrays, const int64_t *parameters, void *workspace);
int kumiko_select_boxes(void *const *arrays, const int64_t *parameters, void *workspace);

/* The same as kumiko_parallel_for() by the context's hook, if it has one. `context` may be NULL. */
int kumiko_parallel_for_in(const kumiko_context *context, kumiko_task task, void *closure, int64_t begin,
                           int64_t count);

/* A tensor that a step of a model stores. */
typedef struct {
    kumiko_tensor tensor; /* without data */
    int64_t array;        /* position in the list of arrays; -1: in the arena */
    int64_t offset;       /* bytes */
} kumiko_stored_tensor;

/* Call the context's hooks for a step, before and after it. `context` is not NULL. */
void kumiko_begin_step(const kumiko_context *context, const kumiko_step *step);
void kumiko_end_step(const kumiko_context *context, const kumiko_step *step, const kumiko_stored_tensor *made,
                     int64_t count, void *const *arrays, void *arena);

/* A file of weights. Numbers are little-endian.
 *
 *   bytes    |
 *   0 – 7    | KUMIKO_WEIGHTS_MARK
 *   8 – 11   | version: 1
 *   16 – 23  | size of the file in bytes
 *   24 – 31  | kumiko_hash_weights() of the bytes from 64 on
 *   64 –     | the weights, each at a multiple of 64 bytes
 *
 * Bytes that the table does not name are 0. */
#define KUMIKO_WEIGHTS_MARK "kumiko.w"
#define KUMIKO_WEIGHTS_HEADER 64

/* Not cryptographic: it finds damage and other files, not forgeries. */
uint64_t kumiko_hash_weights(const void *data, size_t bytes);

/* Returns 0 if the first bytes of a file state this size and hash, otherwise KUMIKO_BAD_WEIGHTS
 * with a text that begins with `model`. The file is at least KUMIKO_WEIGHTS_HEADER bytes. */
int kumiko_match_weights(const void *file, uint64_t bytes, uint64_t hash, const char *model);

/* The same for a file of `given` bytes, whose hash is computed. `file` may be NULL: an error. */
int kumiko_verify_weights(const void *file, size_t given, uint64_t bytes, uint64_t hash, const char *model);

#ifdef __cplusplus
}
#endif

#endif
