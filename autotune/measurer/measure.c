/* Runs candidate kernels, which may be broken, in a process of their own (protocol.h): links the
 * objects that the tuner sends, checks their results, and times them. If a kernel ends the process,
 * only that candidate is lost. The program kumiko_measurer contains neither Halide nor LLVM.
 *
 * Timing. A sample is as many calls as take half a millisecond, at least one. The first call and the
 * check have warmed the code and the caches, as in a program that calls a kernel repeatedly. With
 * cold caches, a sample is one call, before which the arrays are evicted. Samples are taken until
 * the median is within `tight` of the minimum or the budget is spent, but at least five. Several
 * kernels are sampled in alternation, so that changes of the machine's load affect all of them.
 *
 * The results of a kernel must not depend on the initial contents of its workspaces and stack. Each
 * kernel is called with these full of denormal numbers, of signalling NaN and of zeros, and must
 * return the same bits. It is timed with denormal numbers, as a program may leave them.
 *
 * A kernel of one thread is timed by the CPU time of that thread, which excludes the time of other
 * processes. A kernel of several threads is timed by wall time, and so is one that calls extern
 * functions, which may have threads of their own. */
#define _GNU_SOURCE
#include "autotune/measurer/measure.h"

#include "autotune/measurer/arrays.h"
#include "autotune/measurer/link.h"
#include "autotune/measurer/protocol.h"
#include "runtime/fill_workspaces.h"
#include "runtime/kumiko_runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef int (*packed_kernel)(void *const *tensors, const int64_t *sizes);

enum { MOST_SAMPLES = 2000, LEAST_SAMPLES = 5, FEW_SAMPLES = 3, MOST_UPDATES = 64 };
static const double sample_seconds = 5e-4;

static measurer_arrays arrays;
static measurer_page unseen, *page = &unseen;
static struct {
    linked_image image;
    /* Arguments: the arrays, with pre-packed inputs replaced. */
    void **pointers;
    guarded_array packed[MEASURER_PACKS]; /* in the order of the request */
} slots[MEASURER_SLOTS];
static double samples[MEASURER_SLOTS][MOST_SAMPLES];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int cold;     /* arrays are evicted before each sample */
static int own_time; /* processor time can be used */

static double processor_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The clock for timing kernels. */
static double stopwatch(void) { return own_time ? processor_time() : now(); }

/* Whether CPU time has sufficient resolution; some systems count it in ticks. */
static int processor_time_is_fine(void) {
    double previous = processor_time(), smallest = 1;
    for (const double end = now() + 1e-3; now() < end;) {
        const double t = processor_time();
        if (t > previous && t - previous < smallest) smallest = t - previous;
        previous = t;
    }
    return smallest < 5e-6;
}

/* Measures the clock with dependent multiplications, which take three cycles each on all x86-64
 * processors since 2000. */
static double measure_clock(void) {
#if defined(__x86_64__)
    double best = 0;
    for (int attempt = 0; attempt < 8; attempt++) {
        uint64_t x = 3;
        const int n = 20000;
        const double begin = now();
        for (int i = 0; i < n; i++) {
            __asm__ volatile("imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n"
                             "imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0\n imul %0, %0"
                             : "+r"(x));
        }
        const double hz = 30.0 * n / (now() - begin);
        if (hz > best) best = hz;
    }
    return best;
#else
    return 0;
#endif
}

static int receive(void *data, size_t bytes) {
    for (uint8_t *p = data; bytes > 0;) {
        ssize_t n = read(MEASURER_SOCKET, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 1;
        p += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static int answer(const measurer_reply *reply) {
    const uint8_t *p = (const uint8_t *)reply;
    for (size_t bytes = sizeof *reply; bytes > 0;) {
        ssize_t n = send(MEASURER_SOCKET, p, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 1;
        p += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Calls one of the slot's functions; `what` is the prefix of error messages. */
static int call_entry(uint32_t slot, int entry, void *const *tensors, const int64_t *sizes, const char *what,
                      measurer_reply *reply) {
    page->running = slot;
    page->calls++;
    const int code = ((packed_kernel)slots[slot].image.entries[entry])(tensors, sizes);
    page->calls++;
    if (code == 0) return 0;
    reply->status = code == KUMIKO_OUT_OF_MEMORY ? MEASURER_NO_MEMORY : MEASURER_FAILED;
    reply->slot = slot;
    snprintf(reply->text, sizeof reply->text, "%sreturned code %d: %s", what, code, kumiko_error());
    return 1;
}

static int call(uint32_t slot, measurer_reply *reply) {
    return call_entry(slot, 0, slots[slot].pointers, arrays.sizes, "", reply);
}

static int check(uint32_t slot, measurer_reply *reply) {
    if (!check_arrays(&arrays, reply->text, sizeof reply->text)) return 0;
    reply->status = MEASURER_WRONG;
    reply->slot = slot;
    return 1;
}

static int call_and_check(uint32_t slot, measurer_reply *reply) {
    clear_outputs(&arrays);
    return call(slot, reply) || check(slot, reply);
}

/* Fill patterns: denormals or signalling NaNs in all or most float types. */
static const uint64_t denormals = 0x0001000100010001u, signalling = 0x7fa17fa17fa17fa1u, zeros = 0;

/* Fills the stack that later calls of this thread will use, and the workspaces of all threads. */
__attribute__((noinline)) static void fill_memory(uint64_t pattern) {
    uint64_t stack[(256 << 10) / 8];
    for (size_t i = 0; i < sizeof stack / sizeof *stack; i++) stack[i] = pattern;
    __asm__ volatile("" : : "r"(stack) : "memory");
    kumiko_fill_workspaces(pattern);
}

static int call_with_memory_of(uint64_t pattern, uint32_t slot, uint64_t expected, const char *what,
                               measurer_reply *reply) {
    fill_memory(pattern);
    clear_outputs(&arrays);
    if (call(slot, reply)) return 1;
    if (hash_outputs(&arrays) == expected) return 0;
    reply->status = MEASURER_WRONG;
    reply->slot = slot;
    snprintf(reply->text, sizeof reply->text,
             "computes other results where its workspaces and stack hold %s than where they hold denormal numbers",
             what);
    return 1;
}

static void unload(uint32_t slot) {
    unlink_image(&slots[slot].image);
    for (int p = 0; p < MEASURER_PACKS; p++) free_guarded(&slots[slot].packed[p]);
    free(slots[slot].pointers);
    slots[slot].pointers = NULL;
}

static int no_memory(const char *what, uint64_t bytes, measurer_reply *reply) {
    reply->status = MEASURER_NO_MEMORY;
    snprintf(reply->text, sizeof reply->text, "there is no memory for %s (%" PRIu64 " bytes)", what, bytes);
    return 1;
}

static int link_request(const measurer_request *request, const void *object, measurer_reply *reply) {
    const uint32_t slot = request->slots[0];
    const char *names[1 + MEASURER_PACKS] = {request->kernel};
    size_t count = 1;
    for (int p = 0; p < MEASURER_PACKS && request->packs[p].entry[0]; p++) names[count++] = request->packs[p].entry;
    if (link_object(object, request->object_bytes, names, count, &slots[slot].image, reply->text, sizeof reply->text)) {
        reply->status = MEASURER_BAD_OBJECT;
        return 1;
    }
    const size_t bytes = arrays.task->tensors * sizeof *arrays.pointers;
    slots[slot].pointers = malloc(bytes + 1);
    if (!slots[slot].pointers) return no_memory("the addresses of the arrays", bytes, reply);
    memcpy(slots[slot].pointers, arrays.pointers, bytes);
    return 0;
}

/* Packs inputs, as a program does once before it calls the kernel. */
static int pack(const measurer_request *request, measurer_reply *reply) {
    const uint32_t slot = request->slots[0];
    for (int p = 0; p < MEASURER_PACKS && request->packs[p].entry[0]; p++) {
        const measurer_pack *wanted = &request->packs[p];
        guarded_array *packed = &slots[slot].packed[p];
        *packed = make_guarded(wanted->bytes);
        if (!packed->data) return no_memory("an input that is packed", wanted->bytes, reply);
        void *tensors[] = {arrays.pointers[wanted->tensor], packed->data};
        if (call_entry(slot, 1 + p, tensors, wanted->size, "packing ", reply)) return 1;
        protect_guarded(packed);
        slots[slot].pointers[wanted->tensor] = packed->data;
    }
    return 0;
}

static void load(const measurer_request *request, const void *object, measurer_reply *reply) {
    const uint32_t slot = request->slots[0];
    unload(slot);
    reply->slot = slot;
    int failed = link_request(request, object, reply) || pack(request, reply);
    if (!failed) {
        fill_memory(denormals);
        clear_outputs(&arrays);
        const double start = stopwatch();
        failed = call(slot, reply);
        /* Cold caches, so an upper bound. */
        reply->times[0].least = reply->times[0].median = stopwatch() - start;
        reply->times[0].samples = reply->times[0].calls = 1;
        failed = failed || check(slot, reply);
        const uint64_t expected = failed ? 0 : hash_outputs(&arrays);
        failed = failed || call_with_memory_of(signalling, slot, expected, "signalling NaN", reply) ||
                 call_with_memory_of(zeros, slot, expected, "zeros", reply);
    }
    if (failed) unload(slot);
}

/* Evicts all arrays of the kernel from the caches. */
static void evict(uint32_t slot) {
    evict_arrays(&arrays);
    for (int p = 0; p < MEASURER_PACKS; p++) {
        if (slots[slot].packed[p].data) evict_guarded(&slots[slot].packed[p]);
    }
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarize(const double *sample, uint32_t n, uint32_t calls, measurer_time *time) {
    static double sorted[MOST_SAMPLES];
    memcpy(sorted, sample, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    time->least = sorted[0];
    time->median = n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
    time->spread = (sorted[n - 1 - n / 4] - sorted[n / 4]) / time->median;
    time->samples = n;
    time->calls = calls;
}

/* Within a round only the kernels differ; host load and clock are the same. The interquartile range
 * of a normal distribution is 1.35 standard deviations; the standard error of a median is 1.25
 * standard deviations over the root of the number of samples. */
static void relate(uint32_t slot, uint32_t last, uint32_t n, measurer_time *time) {
    static double ratios[MOST_SAMPLES];
    for (uint32_t i = 0; i < n; i++) ratios[i] = samples[slot][i] / samples[last][i];
    qsort(ratios, n, sizeof *ratios, ascending);
    time->ratio = n % 2 ? ratios[n / 2] : 0.5 * (ratios[n / 2 - 1] + ratios[n / 2]);
    time->ratio_error = 0.93 * (ratios[n - 1 - n / 4] - ratios[n / 4]) / (time->ratio * sqrt(n));
}

static void run(const measurer_request *request, measurer_reply *reply) {
    uint32_t calls[MEASURER_SLOTS], taken = 0, most_calls = UINT32_MAX;
    const double begin = now();
    for (uint32_t t = 0; t < arrays.task->tensors; t++) { /* before values overflow or vanish */
        if (arrays.tensors[t].before) most_calls = MOST_UPDATES;
    }
    fill_memory(denormals);
    for (uint32_t i = 0; i < request->count; i++) {
        /* The second call; the check was only the first one. */
        double start = stopwatch(), once;
        if (call(request->slots[i], reply)) return;
        once = stopwatch() - start;
        if (once < sample_seconds) {
            start = stopwatch();
            if (call(request->slots[i], reply)) return;
            once = stopwatch() - start;
        }
        calls[i] = cold || once >= sample_seconds ? 1 : once > 1e-7 ? (uint32_t)(sample_seconds / once) + 1 : 1000;
        if (calls[i] > most_calls) calls[i] = most_calls;
    }
    for (int enough = 0; !enough && taken < MOST_SAMPLES;) {
        for (uint32_t i = 0; i < request->count; i++) {
            restore_updated(&arrays);
            if (cold) evict(request->slots[i]);
            const double start = stopwatch();
            for (uint32_t c = 0; c < calls[i]; c++) {
                if (call(request->slots[i], reply)) return;
            }
            samples[i][taken] = (stopwatch() - start) / calls[i];
        }
        taken++;
        if (taken < FEW_SAMPLES) continue;
        int tight = 1;
        for (uint32_t i = 0; i < request->count; i++) {
            measurer_time *time = &reply->times[i];
            if (taken < 64 || taken % 16 == 0) summarize(samples[i], taken, calls[i], time);
            tight = tight && time->median - time->least <= request->tight * time->least;
        }
        if (request->paired && request->count == 2 && (taken < 64 || taken % 16 == 0)) {
            measurer_time *first = &reply->times[0];
            relate(0, 1, taken, first);
            tight = first->ratio_error < request->tight;
            if (request->give_up_above > 0 && taken >= LEAST_SAMPLES && first->ratio > request->give_up_above) break;
        }
        if (request->count == 1 && request->give_up_above > 0 && reply->times[0].least > request->give_up_above) break;
        enough = taken >= LEAST_SAMPLES && (now() - begin > request->budget || (tight && taken >= 2 * LEAST_SAMPLES));
    }
    for (uint32_t i = 0; i < request->count; i++) {
        summarize(samples[i], taken, calls[i], &reply->times[i]);
        relate(i, request->count - 1, taken, &reply->times[i]);
    }
    /* Checks the timed kernels again, from cleared outputs. */
    for (uint32_t i = 0; i < request->count; i++) {
        if (call_and_check(request->slots[i], reply)) return;
    }
}

static int valid(const measurer_request *r) {
    if (r->magic != MEASURER_MAGIC || r->count < 1 || r->count > MEASURER_SLOTS || r->object_bytes > (uint64_t)1 << 30)
        return 0;
    if (memchr(r->kernel, 0, sizeof r->kernel) == NULL) return 0;
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->slots[i] >= MEASURER_SLOTS || (r->command == MEASURER_RUN && !slots[r->slots[i]].image.base)) return 0;
    }
    for (uint32_t p = 0; r->command == MEASURER_LOAD && p < MEASURER_PACKS; p++) {
        const measurer_pack *pack = &r->packs[p];
        if (memchr(pack->entry, 0, sizeof pack->entry) == NULL) return 0;
        if (pack->entry[0] && (pack->tensor >= arrays.task->tensors || arrays.tensors[pack->tensor].output)) return 0;
    }
    return r->command == MEASURER_LOAD || r->command == MEASURER_RUN;
}

/* The address space that this process has reserved: large with LLVM or a sanitizer. */
static rlim_t address_space(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%lu", &pages) != 1) pages = 0;
        fclose(file);
    }
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* If a candidate exhausts memory, the system kills this process and not the tuner. */
static void be_killed_first(void) {
    FILE *score = fopen("/proc/self/oom_score_adj", "w");
    if (!score) return;
    fputs("1000", score);
    fclose(score);
}

int kumiko_measure(char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the tuner may be killed at any moment */
    be_killed_first();
    kumiko_set_num_threads(atoi(argv[1]));
    cold = atoi(argv[3]);
    kumiko_request_tiles(); /* the kernels lack the entry points that request them */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (atol(argv[2]) > 0) {
        const rlim_t most = ((rlim_t)atol(argv[2]) << 20) + address_space();
        const struct rlimit limit = {most, most};
        setrlimit(RLIMIT_AS, &limit);
    }
#endif
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);

    void *shared = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, MEASURER_PAGE, 0);
    if (shared != MAP_FAILED) page = shared;

    measurer_reply reply = {.magic = MEASURER_MAGIC, .version = MEASURER_VERSION};
    int failed = open_arrays(MEASURER_TASK, &arrays, reply.text, sizeof reply.text);
    if (!failed) failed = load_functions(arrays.functions, arrays.task->functions, reply.text, sizeof reply.text);
    if (failed)
        reply.status = failed == MEASURER_NO_MEMORY ? MEASURER_NO_MEMORY : MEASURER_BAD_REQUEST;
    else
        reply.text[0] = 0;
    reply.clock_hz = measure_clock();
    own_time = atoi(argv[1]) == 1 && arrays.task && arrays.task->functions == 0 && processor_time_is_fine();
    if (answer(&reply) || reply.status) return 1;

    void *object = NULL;
    for (measurer_request request; !receive(&request, sizeof request);) {
        memset(&reply, 0, sizeof reply);
        reply.magic = MEASURER_MAGIC;
        reply.version = MEASURER_VERSION;
        if (!valid(&request)) {
            reply.status = MEASURER_BAD_REQUEST;
            snprintf(reply.text, sizeof reply.text, "a malformed request");
            answer(&reply);
            return 1;
        }
        if (request.command == MEASURER_LOAD) {
            free(object);
            object = malloc(request.object_bytes ? request.object_bytes : 1);
            if (!object || receive(object, request.object_bytes)) return 1;
            load(&request, object, &reply);
        } else {
            run(&request, &reply);
        }
        if (answer(&reply)) return 1;
    }
    return 0;
}
