/* The C interface that generated kernels call: threads, workspaces and errors. Plain C11; it also goes, as C sources or as
 * objects, into every generated library, so that a C program needs nothing of Kumiko but that library.
 *
 * Every symbol begins with kumiko_. A library that must not share its pool, caches and hooks with another one in the same
 * process compiles these sources (and its kernels) with -DKUMIKO_PREFIX=mylib: the symbols are then mylib_parallel_for ...
 *
 * Kernels are reentrant. The number of threads changes the time a kernel takes, never its result. */
#ifndef KUMIKO_RUNTIME_H
#define KUMIKO_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

/* Raised when a signature or a meaning below changes; kumiko_abi_version() gives the number that was compiled in. */
#define KUMIKO_ABI_VERSION 2

/* 1: for machines without an operating system or a C library. Then loops are serial unless a hook
 * is set, workspaces need kumiko_set_memory(), all threads share one error text, and the processor
 * is taken to have every feature unless kumiko_set_cpu_features() says otherwise. */
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
    KUMIKO_BAD_SIZE = 2,          /* a size, or an extent made of sizes, is negative or above 2^31 - 1 */
    KUMIKO_FAILED_ASSUMPTION = 3, /* an assume(...) of the schedule does not hold */
    KUMIKO_OUT_OF_MEMORY = 4,     /* a workspace could not be had */
    KUMIKO_BAD_TYPE = 5,          /* an element type differs from the kernel's */
    KUMIKO_BAD_SHAPE = 6,         /* an extent or a number of dimensions differs from the kernel's */
    KUMIKO_BAD_STRIDE = 7,        /* a stride differs from what the kernel states */
    KUMIKO_TASK_FAILED = 8,       /* a parallel task failed without a code of its own */
    KUMIKO_MISSING_FEATURE = 9,   /* the processor lacks an instruction set that the kernel was built for */
    KUMIKO_BAD_INDEX = 10         /* an index read from a tensor is out of range */
};

int kumiko_abi_version(void);

/* ---- Threads ------------------------------------------------------------------------------------------------------- */

/* One iteration of a parallel loop; returns 0 or an error code. */
typedef int (*kumiko_task)(void *closure, int64_t index);
typedef int (*kumiko_parallel_for_hook)(kumiko_task task, void *closure, int64_t begin, int64_t count);

/* Runs task(closure, i) for i in [begin, begin + count), in any order and on any thread, and returns when all are done.
 * Returns 0, or the code of the first task that failed (tasks not yet begun are then left out) with its text in the
 * caller's kumiko_error(). Goes through the hook. */
int kumiko_parallel_for(kumiko_task task, void *closure, int64_t begin, int64_t count);

/* Replaces the pool by a program's own; NULL brings the default back. Returns the hook that was set before. */
kumiko_parallel_for_hook kumiko_set_parallel_for(kumiko_parallel_for_hook hook);

/* The default: a pool of POSIX threads, begun by the first loop that needs it. The caller works too. A loop inside a task,
 * and a loop begun while another thread uses the pool, run serially in their caller. A forked child starts its own pool. */
int kumiko_default_parallel_for(kumiko_task task, void *closure, int64_t begin, int64_t count);

/* How many threads work on a loop, the caller among them. 0 (the default): one per processor that this process may use.
 * A loop that is running keeps its threads. */
void kumiko_set_num_threads(int threads);
int kumiko_num_threads(void);

/* Ends and joins the pool's threads; the next loop starts them again. Called by itself when the library is unloaded. */
void kumiko_shutdown_threads(void);

/* ---- Workspaces ---------------------------------------------------------------------------------------------------- */

typedef void *(*kumiko_malloc_hook)(size_t bytes);
typedef void (*kumiko_free_hook)(void *block);

/* A block of at least `bytes`, aligned to 64 bytes, contents undefined; NULL when there is none. Blocks of up to a few
 * megabytes are kept per thread when freed, so that a kernel called again finds its pages mapped and warm. */
void *kumiko_malloc(size_t bytes);
void kumiko_free(void *block); /* NULL is allowed; any thread may free */

/* Replaces both; NULL, NULL brings the defaults back. Set them while no block is in use. The replacement aligns to 64. */
void kumiko_set_memory(kumiko_malloc_hook allocate, kumiko_free_hook release);

/* Gives the calling thread's kept blocks back to the system. */
void kumiko_trim_memory(void);

/* ---- Processor ----------------------------------------------------------------------------------------------------- */

/* What the processor and the system let programs use: a set of bits, one a feature, as kumiko_cpu_feature() names them. AMX is
 * among them once kumiko_request_tiles() was granted.
 * Kernels of libraries ask before they run, and refuse with KUMIKO_MISSING_FEATURE what would end in an illegal
 * instruction; where a library holds a kernel for several processors, the best that may run does. */
uint64_t kumiko_cpu_features(void);

/* The bit of a feature, by LLVM's name ("avx2", "avx512f", "dotprod"); 0 for one that is not known. */
uint64_t kumiko_cpu_feature(const char *name);

/* Asks the system, once, for AMX's tile registers, which Linux gives a process only on request. 1 when they may be used; 0 where there
 * are none, or the system refuses. Kernels of libraries ask by themselves, and only those that have code for AMX. */
int kumiko_request_tiles(void);

/* Has kumiko_cpu_features() return what the hook makes of the features that were detected: less, to keep kernels from
 * using something; or more, without an operating system that could be asked. On x86 what rests on a feature that is not there goes
 * with it: without avx2 there is no avx512f. NULL: what was detected. Returns the hook that was set before. Set it while no
 * kernel runs. */
typedef uint64_t (*kumiko_features_hook)(uint64_t detected);
kumiko_features_hook kumiko_set_cpu_features(kumiko_features_hook hook);

/* 0 when all bits of `needed` are there, else KUMIKO_MISSING_FEATURE with a text that names the kernel and what it lacks. */
int kumiko_require_features(uint64_t needed, const char *kernel);

/* ---- Errors -------------------------------------------------------------------------------------------------------- */

/* Stores the text (cut at 511 bytes) for this thread and returns code. */
int kumiko_fail(int code, const char *text);

/* The text of this thread's last failure, "" if there was none. Valid until the thread's next failure. */
const char *kumiko_error(void);
void kumiko_clear_error(void);

#ifdef __cplusplus
}
#endif

#endif
