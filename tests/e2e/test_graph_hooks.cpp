// Models as C libraries with hooks of the program: threads, profiles, values. A run does not
// allocate, start threads, access memory outside of its arrays, or use more stack than stated.
// Links: graph/build
// Cost: 40
#include "dsl/buffer_elements.h"
#include "dsl/types.h"
#include "graph/build/compiled_model.h"
#include "graph/build/model_library.h"
#include "support/json.h"
#include "tests/e2e/shell.h"

#include <fstream>
#include <sstream>

using namespace kumiko;
using namespace kumiko::e2e;
namespace fs = std::filesystem;

namespace {

const std::string kumiko_command = KUMIKO_BINARY_DIR "/kumiko";

std::string repeated(const std::string &number) {
    std::string text = number;
    for (int n = 1; n < 32; n++) text += "," + number;
    return text;
}

// Convolutions whose kernels have workspaces in parallel loops, a batch normalisation that becomes
// weights, views, a check of indices, and an output that is a copy.
void save_net(const fs::path &file) {
    graph::Model::parse_text(
        "<ir_version: 10, opset_import: [\"\" : 21]>\n"
        "net (float[1,24,40,40] x, int64[5] i) => (float[5,12] y, float[5,12] same, float[1,32,20,20] k)\n"
        "<int64[4] of = {32,24,3,3}, int64[4] of2 = {32,32,3,3}, float[32] s = {" +
            repeated("1.5") + "}, float[32] b = {" + repeated("0.25") + "}, float[32] m = {" + repeated("0.1") +
            "}, float[32] v = {" + repeated("2") +
            "},"
            " int64[2] rows = {400,32}, int64[2] of3 = {32,12}>\n"
            "{ w = ConstantOfShape<value = float[1] {0.01}>(of) c = Conv<pads = [1,1,1,1]>(x, w) "
            "n = BatchNormalization(c, s, b, m, v) r = Relu(n) p = MaxPool<kernel_shape = [2,2], strides = [2,2]>(r) "
            "w2 = ConstantOfShape<value = float[1] {0.02}>(of2) k = Conv<pads = [1,1,1,1]>(p, w2) t = Tanh(k) "
            "q = Transpose<perm = [0,2,3,1]>(t) f = Reshape(q, rows) "
            "w3 = ConstantOfShape<value = float[1] {0.1}>(of3) g = MatMul(f, w3) y = Gather(g, i) same = Identity(y) }",
        "text")
        .save(file.string());
}

// Inputs, hooks and counters of the program. Arrays end right before inaccessible pages, or begin
// right after them.
const char *program = R"(
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "net.h"

/* Counts allocations of this thread and the pool's. */
static int watched, allocations;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
static void count(void) { if (watched) __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED); }
void *malloc(size_t n) { count(); return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { count(); return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { count(); return __libc_realloc(p, n); }
void *aligned_alloc(size_t a, size_t n) { count(); return __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) { count(); *p = __libc_memalign(a, n); return *p ? 0 : ENOMEM; }

/* Two threads: the caller's and one more. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int (*task)(void *, int64_t);
    void *closure;
    int64_t next, end;
    int inside, code, stop, threads, loops;
} pool;

static void take_part(pool *p) { /* with the mutex */
    p->inside++;
    while (p->next < p->end) {
        const int64_t i = p->next++;
        pthread_mutex_unlock(&p->mutex);
        const int code = p->task(p->closure, i);
        pthread_mutex_lock(&p->mutex);
        if (code) p->code = code;
    }
    p->inside--;
    pthread_cond_broadcast(&p->changed);
}

static void *worker(void *argument) {
    pool *p = argument;
    pthread_mutex_lock(&p->mutex);
    while (!p->stop) {
        take_part(p);
        pthread_cond_wait(&p->changed, &p->mutex);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

static int parallel_for(void *user, int (*task)(void *, int64_t), void *closure, int64_t begin, int64_t count) {
    pool *p = user;
    if (p->threads == 1) {
        p->loops++;
        for (int64_t i = begin + count; i-- > begin;) {
            const int code = task(closure, i);
            if (code) return code;
        }
        return 0;
    }
    pthread_mutex_lock(&p->mutex);
    p->loops++;
    p->task = task, p->closure = closure, p->next = begin, p->end = begin + count, p->code = 0;
    pthread_cond_broadcast(&p->changed);
    take_part(p);
    while (p->inside) pthread_cond_wait(&p->changed, &p->mutex);
    p->end = p->next = 0;
    pthread_mutex_unlock(&p->mutex);
    return p->code;
}

static int begun, ended, in_order = 1;
static int64_t last = -1;

static void profile(void *user, const kumiko_step *step, int after) {
    (void)user;
    if (!after) begun++, in_order &= step->index == last + 1;
    if (after) ended++, in_order &= step->index == last + 1, last = step->index;
    if (!after && watched == 0) printf("step %d: %s: %s\n", (int)step->index, step->operators, step->nodes);
}

static void dump(void *user, const kumiko_tensor *t) {
    (void)user;
    int64_t bytes = !strcmp(t->type, "i64") ? 8 : 4;
    fprintf(stderr, "%s\n%s %d", t->name, t->type, (int)t->rank);
    for (int64_t d = 0; d < t->rank; d++) fprintf(stderr, " %d", (int)t->extents[d]), bytes *= t->extents[d];
    fprintf(stderr, "\n");
    fwrite(t->data, 1, (size_t)bytes, stderr);
    fprintf(stderr, "\n");
}

static void *guarded(size_t bytes, int at_end) {
    const size_t page = 4096, inside = (bytes + page - 1) / page * page;
    char *base = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(base + page, inside, PROT_READ | PROT_WRITE);
    return base + page + (at_end ? inside - bytes : 0);
}

static int threads_of_process(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

static net_io io;
static void *arena;
static kumiko_context *hooks;
static int status;

/* On a thread with a stack that was filled before, so that its use is seen. */
static void *run(void *unused) {
    (void)unused;
    watched = 1;
    status = net_run(&io, arena, hooks);
    watched = 0;
    return NULL;
}

enum { X = 24 * 40 * 40, Y = 60, K = 32 * 400, STACK = 1 << 20 };

static size_t run_on_filled_stack(void) {
    static char *stack;
    if (!stack) stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(stack, 0x5a, STACK);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, run, NULL)) exit(9);
    pthread_join(thread, NULL);
    size_t untouched = 0;
    while (untouched < STACK && stack[untouched] == 0x5a) untouched++;
    return STACK - untouched;
}

int main(int argc, char **argv) {
    float *first_y = NULL, *first_k = NULL;
    pool own = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .threads = 1};
    kumiko_context context = {&own, parallel_for, NULL, NULL};
    const int bare = argc > 1 && !strcmp(argv[1], "dump");
    for (int way = 0; way < (bare ? 1 : 4); way++) { /* arrays at the begin and end of pages, 1 and 2 threads */
        const int at_end = way % 2;
        float *x = guarded(X * 4, at_end), *y = guarded(Y * 4, at_end), *same = guarded(Y * 4, at_end),
              *k = guarded(K * 4, at_end);
        int64_t *i = guarded(5 * 8, at_end);
        for (int n = 0; n < X; n++) x[n] = (float)(n * 7919 % 129 - 64) / 64;
        for (int n = 0; n < 5; n++) i[n] = n * 79 - 30;
        arena = guarded((NET_ARENA_BYTES + 63) / 64 * 64, at_end);
        memset(arena, 0xff, NET_ARENA_BYTES); /* NaN */
        io = (net_io){x, i, y, same, k};
        hooks = &context;
        if (bare) {
            context.profile = profile, context.dump = dump;
            if (net_run(&io, arena, hooks)) return 1;
            break;
        }
        context.profile = way == 3 ? profile : NULL;
        pthread_t more;
        own.threads = way < 2 ? 1 : 2, own.stop = 0;
        if (way >= 2) pthread_create(&more, NULL, worker, &own);
        const int threads = threads_of_process();
        const size_t stack = run_on_filled_stack();
        if (status) return printf("%d: %s\n", status, net_error()), 2;
        if (stack > NET_STACK_BYTES + 8192) return printf("stack %d of %d\n", (int)stack, NET_STACK_BYTES), 3;
        if (threads_of_process() != threads) return 4;
        if (way >= 2) {
            pthread_mutex_lock(&own.mutex);
            own.stop = 1;
            pthread_cond_broadcast(&own.changed);
            pthread_mutex_unlock(&own.mutex);
            pthread_join(more, NULL);
        }
        if (!first_y) first_y = y, first_k = k;
        if (memcmp(first_y, y, Y * 4) || memcmp(first_k, k, K * 4) || memcmp(y, same, Y * 4)) return 5;
    }
    if (bare) return 0;
    printf("loops %d, allocations %d, steps %d %d of %d in order %d\n", own.loops > 0, allocations, begun, ended,
           NET_STEPS, in_order);
    hooks = NULL; /* the library's own threads */
    if (net_run(&io, arena, NULL)) return 6;
    if (memcmp(first_y, io.y, Y * 4) || memcmp(first_k, io.k, K * 4)) return 7;
    return 0;
}
)";

std::string shape_text(const Buffer<> &b) {
    std::string text = type_name(b.type()) + " " + std::to_string(b.rank());
    for (const int64_t e : b.extents()) text += " " + std::to_string(e);
    return text;
}

} // namespace

TEST_CASE("a model runs with the program's threads, allocates nothing, and gives the same bits") {
    const fs::path folder = scratch("graph_hooks", "run");
    save_net(folder / "net.onnx");
    const std::string in = "cd " + folder.string() + " && ";
    must_run(in + kumiko_command + " build net.onnx -o out --threads 3 --quiet");
    std::ofstream(folder / "app.c") << program;
    must_run(in + "cc -std=c11 -Wall -Wextra -Werror -O1 app.c -Iout out/libnet.a -lm -lpthread -o app");
    const Json manifest = load_json((folder / "out/manifest.json").string());
    const Json &model = manifest["models"][0];
    const size_t steps = model["programs"][0]["steps"].size();
    CHECK_GE(steps, 6);
    CHECK_EQ(model["threads"], 3);
    CHECK_EQ(must_run(in + "./app"), "loops 1, allocations 0, steps " + std::to_string(steps) + " " +
                                         std::to_string(steps) + " of " + std::to_string(steps) + " in order 1\n");

    std::string listed;
    for (size_t n = 0; n < steps; n++) {
        const Json &step = model["programs"][0]["steps"][n];
        listed += "step " + std::to_string(n) + ": ";
        for (size_t o = 0; o < step["operators"].size(); o++)
            listed += (o ? " " : "") + step["operators"][o].get<std::string>();
        listed += ": ";
        for (size_t o = 0; o < step["nodes"].size(); o++)
            listed += (o ? ", " : "") + step["nodes"][o].get<std::string>();
        listed += "\n";
    }
    CHECK_EQ(must_run(in + "./app dump 2>dumped"), listed);

    // Each dumped value is that of the model's nodes, computed one by one.
    Buffer<float> x({1, 24, 40, 40});
    Buffer<int64_t> i({5});
    int64_t next = 0;
    for_each_element(x.raw_buffer(), [&](const std::vector<int64_t> &, uint8_t *p) {
        write_element(f32, p, double(next++ * 7919 % 129 - 64) / 64);
    });
    for (int n = 0; n < 5; n++) i(n) = n * 79 - 30;
    std::map<std::string, Buffer<>> made;
    graph::EvaluateOptions options;
    options.run = graph::run_by_kernels();
    options.made = [&](const std::string &name, const Buffer<> &value) { made[name] = value; };
    graph::evaluate(graph::Model::load((folder / "net.onnx").string()), {x, i}, options);

    std::ifstream dumped(folder / "dumped", std::ios::binary);
    std::string name, shape;
    std::set<std::string> seen;
    while (std::getline(dumped, name) && std::getline(dumped, shape)) {
        CAPTURE(name);
        const size_t suffix = name.rfind("/channels_last");
        const bool channels_last = suffix != std::string::npos;
        if (channels_last) name.erase(suffix);
        REQUIRE(made.count(name));
        const Buffer<> want = channels_last ? made.at(name).transposed({0, 2, 3, 1}) : made.at(name);
        REQUIRE_EQ(shape, shape_text(want));
        seen.insert(name);
        std::vector<float> values(want.number_of_elements());
        dumped.read(reinterpret_cast<char *>(values.data()), std::streamsize(values.size() * sizeof(float)));
        CHECK_EQ(dumped.get(), '\n');
        size_t at = 0;
        double most = 0;
        const Buffer<> dense = want.copy();
        for_each_element(dense.raw_buffer(), [&](const std::vector<int64_t> &, uint8_t *p) {
            most = std::max(most, std::abs(values[at++] - read_element(f32, p)));
        });
        CHECK_LT(most, 1e-4);
    }
    for (const char *value : {"r", "p", "k", "g", "y"}) CHECK_MESSAGE(seen.count(value), value);
}

// Reads past its rows, so that a part of another thread in its place changes the result.
TEST_CASE("iterations of nested parallel loops have workspaces of their own") {
    constexpr int rows = 6, columns = 20000;
    const Axis i("i", rows), j("j", columns);
    const Tensor X = input("X", f32, {i, j});
    const Tensor T = compute("T", {i, j}, X(i, j) * 2.f), U = compute("U", {i, j}, X(i, j) + 1.f);
    const Op op("both", {X}, {compute("Y", {i, j}, T(i, j) + T(i, columns - 1 - j) * 3.f + U(i, j))});
    Schedule s(op);
    s.stage("Y").parallel("i");
    s.stage("Y").split("j", 10000);
    s.stage("Y").parallel("j.o");
    s.stage("T").compute_at("Y", "i");
    s.stage("U").compute_at("Y", "j.o");

    LibraryDescription library;
    library.name = "both";
    LibraryKernel kernel{"kernel", op};
    kernel.schedule = ChosenSchedule{Json(s.to_json()), nullptr, 0, "", "given"};
    kernel.internal = true;
    library.kernels.push_back(kernel);
    LibraryModel model;
    model.name = "both", model.origin = "both", model.threads = 2;
    model.inputs = {{"x", "X", f32, {rows, columns}}}, model.outputs = {{"y", "Y", f32, {rows, columns}}};
    LibraryStep step;
    step.kernel = 0;
    step.arguments = {{SequencePointer::Base::Tensor, 0, 0}, {SequencePointer::Base::Tensor, 1, 0}};
    model.programs = {{"", {step}}};
    std::vector<int64_t> given;
    model.place = [&](LibraryModel &m, const std::vector<int64_t> &workspaces) {
        given = workspaces;
        m.programs[0].steps[0].workspace = SequencePointer{}, m.arena_bytes = workspaces[0];
    };
    library.models = {model};
    const fs::path folder = scratch("graph_hooks", "nested");
    build_library(library, folder.string(), {.self_test = false});
    CHECK_EQ(given, std::vector<int64_t>{2 * (columns * 4 + 2 * 40000)});

    std::ofstream(folder / "app.c") << R"(
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "both.h"

/* A thread for each iteration: more than the library was built for. */
typedef struct {
    int (*task)(void *, int64_t);
    void *closure;
    int64_t i;
} part;

static int64_t most;

static void *run(void *p) {
    part *own = p;
    if (own->task(own->closure, own->i)) abort();
    return NULL;
}

static int parallel_for(void *user, int (*task)(void *, int64_t), void *closure, int64_t begin, int64_t count) {
    pthread_t threads[64];
    part parts[64];
    (void)user;
    if (count > most) most = count;
    for (int64_t i = 0; i < count; i++) {
        parts[i] = (part){task, closure, begin + i};
        pthread_create(&threads[i], NULL, run, &parts[i]);
    }
    for (int64_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return 0;
}

static float x[6][20000], y[6][20000];

int main(void) {
    const kumiko_context context = {NULL, parallel_for, NULL, NULL};
    const both_io io = {&x[0][0], &y[0][0]};
    void *arena = aligned_alloc(64, BOTH_ARENA_BYTES);
    int wrong = 0;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 20000; j++) x[i][j] = (float)((i * 7 + j * 31) % 101);
    for (int round = 0; round < 20; round++) {
        memset(arena, 0xff, BOTH_ARENA_BYTES);
        memset(y, 0, sizeof y);
        if (both_run(&io, arena, round % 2 ? NULL : &context)) return 1;
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 20000; j++) wrong += y[i][j] != x[i][j] * 3 + x[i][19999 - j] * 6 + 1;
    }
    printf("wrong %d, at most %d threads\n", wrong, (int)most);
    free(arena);
    return 0;
}
)";
    CHECK_EQ(must_run("cd " + folder.string() +
                      " && cc -std=c11 -Wall -Wextra -Werror -g -fsanitize=address,undefined app.c libboth.a -lm "
                      "-lpthread -o app && ./app"),
             "wrong 0, at most 2 threads\n");
}
