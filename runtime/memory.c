/* Workspaces: 64-byte aligned blocks, with a small cache per thread.
 *
 * A kernel allocates its packing buffers in every call. Allocating from the system each time would
 * map and fault the pages again (about 0.1 us per page, more than packing costs), so a thread keeps
 * the last few blocks that it freed. */
#define _GNU_SOURCE
#include "fill_workspaces.h"
#include "kumiko_runtime.h"

#include <stdatomic.h>
#if !KUMIKO_FREESTANDING
#include <stdlib.h>
#endif

#if !KUMIKO_FREESTANDING && (defined(__unix__) || defined(__APPLE__))
#define HAVE_PTHREADS 1
#include <pthread.h>
#endif
#if !KUMIKO_FREESTANDING && defined(__linux__)
#include <sys/mman.h>
#endif

/* With the address sanitizer every block comes from the system, so that it detects use after
 * free. */
#if defined(__SANITIZE_ADDRESS__) || !defined(HAVE_PTHREADS)
#define CACHED_BLOCKS 0
#else
#define CACHED_BLOCKS 32
#endif

#if KUMIKO_FREESTANDING

/* There is no system allocator: the program provides one. */
static void *default_malloc(size_t bytes) {
    (void)bytes;
    return NULL;
}

static void default_free(void *block) { (void)block; }

void kumiko_trim_memory(void) {}

#else

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };
static const size_t cached_bytes_limit = (size_t)64 << 20;

/* Stored in the 64 bytes before the block. */
typedef struct {
    size_t capacity; /* bytes that the caller may use */
    unsigned filled; /* the last kumiko_fill_workspaces applied to it; 0: none */
} header;

_Static_assert(sizeof(header) <= ALIGNMENT, "the header fits before an aligned block");

static header *header_of(void *block) { return (header *)((char *)block - ALIGNMENT); }

static void *system_allocate(size_t bytes) {
    size_t total, align = ALIGNMENT;
    if (bytes > SIZE_MAX / 2) return NULL;
    total = bytes + ALIGNMENT;
#if defined(MADV_HUGEPAGE)
    if (total >= 2 * (size_t)HUGE_PAGE) align = HUGE_PAGE;
#endif
    total = (total + align - 1) & ~(align - 1);
    char *raw = aligned_alloc(align, total);
    if (!raw) return NULL;
#if defined(MADV_HUGEPAGE)
    if (align == HUGE_PAGE) madvise(raw, total, MADV_HUGEPAGE); /* harmless if it fails */
#endif
    void *block = raw + ALIGNMENT;
    header_of(block)->capacity = total - ALIGNMENT;
    header_of(block)->filled = 0;
    return block;
}

static void system_release(void *block) { free(header_of(block)); }

#if CACHED_BLOCKS

/* The cached blocks, the newest first. */
typedef struct {
    void *blocks[CACHED_BLOCKS];
    int count;
    int registered; /* the thread's exit handler is set */
    size_t bytes;
} block_cache;

static _Thread_local block_cache cache;
static pthread_key_t exit_key;
static pthread_once_t exit_key_once = PTHREAD_ONCE_INIT;
static int exit_key_made;

static void cache_empty(block_cache *c) {
    while (c->count > 0) system_release(c->blocks[--c->count]);
    c->bytes = 0;
}

static void at_thread_exit(void *c) {
    cache_empty(c);
    ((block_cache *)c)->registered = 0;
}

static void make_exit_key(void) { exit_key_made = pthread_key_create(&exit_key, at_thread_exit) == 0; }

static void cache_remove(block_cache *c, int i) {
    c->bytes -= header_of(c->blocks[i])->capacity;
    for (; i + 1 < c->count; i++) c->blocks[i] = c->blocks[i + 1];
    c->count--;
}

/* The smallest cached block that fits and wastes less than half of itself, or NULL. */
static void *cache_take(size_t bytes) {
    int best = -1;
    for (int i = 0; i < cache.count; i++) {
        size_t capacity = header_of(cache.blocks[i])->capacity;
        if (capacity < bytes || capacity / 2 > bytes + 4096) continue;
        if (best < 0 || capacity < header_of(cache.blocks[best])->capacity) best = i;
    }
    if (best < 0) return NULL;
    void *block = cache.blocks[best];
    cache_remove(&cache, best);
    return block;
}

static int cache_keep(void *block) {
    size_t capacity = header_of(block)->capacity;
    if (capacity > cached_bytes_limit) return 0;
    if (!cache.registered) {
        pthread_once(&exit_key_once, make_exit_key);
        if (!exit_key_made || pthread_setspecific(exit_key, &cache) != 0) return 0;
        cache.registered = 1;
    }
    while (cache.count == CACHED_BLOCKS || cache.bytes + capacity > cached_bytes_limit) {
        void *oldest = cache.blocks[cache.count - 1];
        cache_remove(&cache, cache.count - 1);
        system_release(oldest);
    }
    for (int i = cache.count; i > 0; i--) cache.blocks[i] = cache.blocks[i - 1];
    cache.blocks[0] = block;
    cache.count++;
    cache.bytes += capacity;
    return 1;
}

void kumiko_trim_memory(void) { cache_empty(&cache); }

/* The main thread does not run key destructors, and an unloaded library must not leave any
 * registered. */
__attribute__((destructor)) static void empty_at_unload(void) {
    cache_empty(&cache);
    if (exit_key_made) pthread_key_delete(exit_key);
    exit_key_made = 0;
}

#else

static void *cache_take(size_t bytes) {
    (void)bytes;
    return NULL;
}

static int cache_keep(void *block) {
    (void)block;
    return 0;
}

void kumiko_trim_memory(void) {}

#endif

static _Atomic unsigned fills; /* calls of kumiko_fill_workspaces */
static _Atomic uint64_t fill_pattern;

static void fill_once(void *block, unsigned call) {
    header *h = header_of(block);
    if (h->filled == call) return;
    h->filled = call;
    const uint64_t pattern = atomic_load_explicit(&fill_pattern, memory_order_relaxed);
    uint64_t *words = block;
    for (size_t i = 0; i < h->capacity / sizeof pattern; i++) words[i] = pattern;
}

void kumiko_fill_workspaces(uint64_t pattern) {
    atomic_store_explicit(&fill_pattern, pattern, memory_order_relaxed);
    atomic_fetch_add_explicit(&fills, 1, memory_order_release);
}

static void *default_malloc(size_t bytes) {
    void *block = cache_take(bytes);
    if (!block) block = system_allocate(bytes);
    const unsigned call = atomic_load_explicit(&fills, memory_order_acquire);
    if (call && block) fill_once(block, call);
    return block;
}

static void default_free(void *block) {
    if (block && !cache_keep(block)) system_release(block);
}

#endif

static _Atomic(kumiko_malloc_hook) allocate_hook = default_malloc;
static _Atomic(kumiko_free_hook) release_hook = default_free;

void *kumiko_malloc(size_t bytes) { return atomic_load_explicit(&allocate_hook, memory_order_acquire)(bytes); }

void kumiko_free(void *block) { atomic_load_explicit(&release_hook, memory_order_acquire)(block); }

void kumiko_set_memory(kumiko_malloc_hook allocate, kumiko_free_hook release) {
    int both = allocate && release;
    atomic_store_explicit(&allocate_hook, both ? allocate : default_malloc, memory_order_release);
    atomic_store_explicit(&release_hook, both ? release : default_free, memory_order_release);
}
