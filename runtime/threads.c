/* The default parallel_for: a pool of POSIX threads.
 *
 * Running a loop. The caller owns the pool for the duration of the loop (`owner`); other callers
 * run serially meanwhile. The iterations are split into one range per thread, so that a thread
 * accesses the same data in successive loops; a thread that has finished its range steals
 * iterations from the others. A range is a counter advanced by fetch_add, so each iteration runs
 * once.
 *
 * Synchronisation. `ticket` is odd while a loop is open. A worker enters by incrementing `inside`
 * and reading `ticket` again: if it has changed, the loop is over, and the worker leaves without
 * touching the loop's data. The caller closes the loop by making `ticket` even, then waits until
 * `inside` is 0. Each side writes one variable and then reads the other, with seq_cst, so either
 * the worker sees the close or the caller sees the worker. A worker that wakes up too late for a
 * small loop therefore does not delay the caller.
 *
 * Waiting threads first spin for about 20 us, because kernels are called in quick succession, and
 * then sleep on a condition variable. Waking a thread takes 50 us or more if its processor has
 * halted, above all a virtual one. So a worker whose last sleep was shorter than 1 ms, as between
 * the kernels of a model, spins for up to 1 ms the next time. */
#define _GNU_SOURCE
#include "kumiko_runtime.h"

#include <stdatomic.h>

#if !KUMIKO_FREESTANDING && (defined(__unix__) || defined(__APPLE__))

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, TEXT_BYTES = 512, LINE = 64 };
enum { SPINS = 2000, LONG_SPINS = 50 * SPINS, SHORT_SLEEP_NS = 1000000 };

typedef struct {
    _Alignas(LINE) atomic_llong next;
    long long end;
    long long step; /* iterations taken at a time */
} range;

static struct {
    /* Written by the owner before the loop opens, read by those inside. */
    kumiko_task task;
    void *closure;
    int ranges;
    atomic_int failed;     /* 0, or the first failure's code */
    char text[TEXT_BYTES]; /* its text, written by the thread that set `failed` */

    _Alignas(LINE) atomic_ulong ticket; /* odd: a loop is open */
    _Alignas(LINE) atomic_int inside;   /* workers that may touch the loop's data */
    _Alignas(LINE) atomic_int sleepers; /* workers that sleep, or are about to */
    atomic_int owner_sleeps;
    atomic_int owner_cpu; /* the processor that the owner was on when it opened the loop */
    atomic_int stopping;
    atomic_int owned;

    pthread_mutex_t mutex;
    pthread_cond_t work;  /* a loop opened, or the pool stops */
    pthread_cond_t empty; /* `inside` became 0 */

    pthread_t threads[MAX_THREADS]; /* workers 1 .. started; 0 is the caller */
    int started;
    int fork_handlers_set;
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .empty = PTHREAD_COND_INITIALIZER};

static range ranges[MAX_THREADS];
static atomic_int wanted_threads; /* 0: as many as processors */
static KUMIKO_THREAD_LOCAL int in_task;

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int processors(void) {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

void kumiko_set_num_threads(int threads) {
    if (threads < 0) threads = 0;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    atomic_store(&wanted_threads, threads);
}

int kumiko_num_threads(void) {
    int n = atomic_load(&wanted_threads);
    if (n == 0) {
        static atomic_int counted;
        n = atomic_load_explicit(&counted, memory_order_relaxed);
        if (n == 0) {
            n = processors();
            if (n > MAX_THREADS) n = MAX_THREADS;
            atomic_store_explicit(&counted, n, memory_order_relaxed);
        }
    }
    return n;
}

static int run_serially(kumiko_task task, void *closure, int64_t begin, int64_t count) {
    for (int64_t i = begin; i < begin + count; i++) {
        int code = task(closure, i);
        if (code != 0) return code;
    }
    return KUMIKO_OK;
}

static void note_failure(int code) {
    int none = 0;
    if (atomic_compare_exchange_strong(&pool.failed, &none, code)) {
        /* Only the first failing thread writes; the owner reads after all have left. */
        snprintf(pool.text, sizeof pool.text, "%s", kumiko_error());
    }
}

/* Works on the open loop: first the thread's own range, then the others'. */
static void take_part(int thread) {
    in_task = 1;
    for (int r = 0; r < pool.ranges; r++) {
        range *mine = &ranges[(thread + r) % pool.ranges];
        for (;;) {
            /* Read before adding, so that cache lines of finished ranges' counters stay shared. */
            if (atomic_load_explicit(&mine->next, memory_order_relaxed) >= mine->end) break;
            long long i = atomic_fetch_add_explicit(&mine->next, mine->step, memory_order_relaxed);
            long long end = i + mine->step < mine->end ? i + mine->step : mine->end;
            for (; i < end; i++) {
                if (atomic_load_explicit(&pool.failed, memory_order_relaxed)) goto done;
                int code = pool.task(pool.closure, i);
                if (code != 0) note_failure(code);
            }
        }
    }
done:
    in_task = 0;
}

static void leave(void) {
    if (atomic_fetch_sub(&pool.inside, 1) == 1 && atomic_load(&pool.owner_sleeps)) {
        /* After the mutex was held once, the owner either waits already or will see the 0. */
        pthread_mutex_lock(&pool.mutex);
        pthread_mutex_unlock(&pool.mutex);
        pthread_cond_signal(&pool.empty);
    }
}

static long long nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Waits for an odd ticket other than `seen`, or for shutdown. Returns 0 on shutdown. `spins` is the
 * number of spins before it sleeps, and becomes the number for the next time. */
static int wait_for_work(unsigned long seen, unsigned long *ticket, int *spins) {
    for (int spin = 0; spin < *spins; spin++) {
        *ticket = atomic_load(&pool.ticket);
        if (*ticket != seen && (*ticket & 1)) return 1;
        if (atomic_load_explicit(&pool.stopping, memory_order_relaxed)) break;
        relax();
    }
    int open = 0;
    const long long asleep = nanoseconds();
    pthread_mutex_lock(&pool.mutex);
    atomic_fetch_add(&pool.sleepers, 1);
    for (;;) {
        *ticket = atomic_load(&pool.ticket);
        open = *ticket != seen && (*ticket & 1);
        if (open || atomic_load(&pool.stopping)) break;
        pthread_cond_wait(&pool.work, &pool.mutex);
    }
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.mutex);
    *spins = nanoseconds() - asleep < SHORT_SLEEP_NS ? LONG_SPINS : SPINS;
    return open;
}

/* Moves a worker away from the owner's processor. The kernel of a virtual machine may consider a
 * halted processor busy, and wake the worker on its owner's processor. Both would then share it for
 * milliseconds while another one is idle. */
static void leave_owners_processor(void) {
#if defined(__linux__)
    const int cpu = sched_getcpu();
    cpu_set_t all, others;
    if (cpu < 0 || cpu != atomic_load_explicit(&pool.owner_cpu, memory_order_relaxed)) return;
    if (sched_getaffinity(0, sizeof all, &all) != 0) return;
    others = all;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0) return;
    sched_setaffinity(0, sizeof others, &others);
    sched_setaffinity(0, sizeof all, &all);
#endif
}

static void *worker(void *argument) {
    int thread = (int)(intptr_t)argument;
    unsigned long seen = 0, ticket;
    int spins = SPINS;
    while (wait_for_work(seen, &ticket, &spins)) {
        leave_owners_processor();
        atomic_fetch_add(&pool.inside, 1);
        if (atomic_load(&pool.ticket) == ticket) take_part(thread);
        leave();
        seen = ticket;
    }
    return NULL;
}

/* ---- Starting and stopping, by the owner only ------------------------------------------------ */

static void stop_workers(void) {
    pthread_mutex_lock(&pool.mutex);
    atomic_store(&pool.stopping, 1);
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.mutex);
    for (int t = 1; t <= pool.started; t++) pthread_join(pool.threads[t], NULL);
    pool.started = 0;
    atomic_store(&pool.stopping, 0);
}

static void before_fork(void) { pthread_mutex_lock(&pool.mutex); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&pool.mutex); }

/* The child has none of the workers, nor the owner, unless it is the one that forked. */
static void after_fork_in_child(void) {
    pthread_mutex_unlock(&pool.mutex);
    pthread_mutex_init(&pool.mutex, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.empty, NULL);
    pool.started = 0;
    atomic_store(&pool.ticket, 0);
    atomic_store(&pool.inside, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.owner_sleeps, 0);
    atomic_store(&pool.stopping, 0);
    atomic_store(&pool.owned, 0);
}

/* Starts or stops workers until the pool has `threads` threads including the caller, as far as the
 * system allows. */
static int ensure_workers(int threads) {
    if (pool.started == threads - 1) return threads;
    if (pool.started > threads - 1) stop_workers();
    if (!pool.fork_handlers_set) {
        pool.fork_handlers_set = 1;
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    }
    /* Workers block the program's signals, which its own threads handle; not faults, which are
     * delivered to the thread that causes them. */
    sigset_t all, old;
    sigfillset(&all);
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (pool.started < threads - 1) {
        int t = pool.started + 1;
        if (pthread_create(&pool.threads[t], NULL, worker, (void *)(intptr_t)t) != 0) break;
        pool.started = t;
#if defined(__linux__)
        char name[16];
        snprintf(name, sizeof name, "kumiko-%d", t);
        pthread_setname_np(pool.threads[t], name);
#endif
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return pool.started + 1;
}

static int try_own(void) {
    int free_ = 0;
    return atomic_compare_exchange_strong(&pool.owned, &free_, 1);
}

void kumiko_shutdown_threads(void) {
    if (in_task || !try_own()) return; /* a loop is running: its threads stay */
    stop_workers();
    atomic_store(&pool.owned, 0);
}

__attribute__((destructor)) static void at_unload(void) { kumiko_shutdown_threads(); }

/* ---- A loop ---------------------------------------------------------------------------------- */

static void open_loop(kumiko_task task, void *closure, int64_t begin, int64_t count, int threads) {
    pool.task = task;
    pool.closure = closure;
    pool.ranges = threads < count ? threads : (int)count;
    atomic_store_explicit(&pool.failed, 0, memory_order_relaxed);
#if defined(__linux__)
    atomic_store_explicit(&pool.owner_cpu, sched_getcpu(), memory_order_relaxed);
#endif
    int64_t at = begin;
    for (int r = 0; r < pool.ranges; r++) {
        int64_t length = count / pool.ranges + (r < count % pool.ranges);
        atomic_store_explicit(&ranges[r].next, at, memory_order_relaxed);
        ranges[r].end = at + length;
        ranges[r].step = length / 64 > 1 ? length / 64 : 1; /* few atomic claims, small imbalance */
        at += length;
    }
    atomic_fetch_add(&pool.ticket, 1); /* now odd */
    int sleeping = atomic_load(&pool.sleepers);
    if (sleeping > 0) {
        /* After the mutex was held once, each sleeper either waits already or will see the ticket.
         * Signalling without the mutex keeps woken threads from blocking on it. */
        pthread_mutex_lock(&pool.mutex);
        pthread_mutex_unlock(&pool.mutex);
        if (pool.ranges - 1 >= sleeping) {
            pthread_cond_broadcast(&pool.work);
        } else {
            for (int t = 1; t < pool.ranges; t++) pthread_cond_signal(&pool.work);
        }
    }
}

static void close_loop(void) {
    atomic_fetch_add(&pool.ticket, 1); /* now even: no worker enters any more */
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load(&pool.inside) == 0) return;
        relax();
    }
    pthread_mutex_lock(&pool.mutex);
    atomic_store(&pool.owner_sleeps, 1);
    while (atomic_load(&pool.inside) != 0) pthread_cond_wait(&pool.empty, &pool.mutex);
    atomic_store(&pool.owner_sleeps, 0);
    pthread_mutex_unlock(&pool.mutex);
}

int kumiko_default_parallel_for(kumiko_task task, void *closure, int64_t begin, int64_t count) {
    int threads = kumiko_num_threads();
    if (count <= 1 || threads <= 1 || in_task || !try_own()) return run_serially(task, closure, begin, count);
    threads = ensure_workers(threads);
    int code;
    if (threads <= 1) {
        code = run_serially(task, closure, begin, count);
    } else {
        open_loop(task, closure, begin, count, threads);
        take_part(0);
        close_loop();
        code = atomic_load(&pool.failed);
        if (code != 0) kumiko_fail(code, pool.text); /* copied to the caller's thread */
    }
    atomic_store(&pool.owned, 0);
    return code;
}

#else /* no threads on this system: the default is serial; a program may set a hook */

void kumiko_set_num_threads(int threads) { (void)threads; }

int kumiko_num_threads(void) { return 1; }

void kumiko_shutdown_threads(void) {}

int kumiko_default_parallel_for(kumiko_task task, void *closure, int64_t begin, int64_t count) {
    for (int64_t i = begin; i < begin + count; i++) {
        int code = task(closure, i);
        if (code != 0) return code;
    }
    return KUMIKO_OK;
}

#endif

static _Atomic(kumiko_parallel_for_hook) parallel_for_hook = kumiko_default_parallel_for;

kumiko_parallel_for_hook kumiko_set_parallel_for(kumiko_parallel_for_hook hook) {
    if (!hook) hook = kumiko_default_parallel_for;
#if KUMIKO_FREESTANDING /* compilers may emit a library call for an atomic exchange */
    const kumiko_parallel_for_hook before = atomic_load(&parallel_for_hook);
    atomic_store(&parallel_for_hook, hook);
    return before;
#else
    return atomic_exchange(&parallel_for_hook, hook);
#endif
}

int kumiko_parallel_for(kumiko_task task, void *closure, int64_t begin, int64_t count) {
    return atomic_load_explicit(&parallel_for_hook, memory_order_acquire)(task, closure, begin, count);
}
