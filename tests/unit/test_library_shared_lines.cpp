// Threads do not share cache lines under default schedules. Each thread takes a run of neighbouring
// tasks, and two threads share a line at most where their parts of a result meet. Work stealing by
// finished threads is left out.
// Links: driver
// Sanitized: no
#include "driver/default_schedule.h"
#include "ops/ops.h"
#include "runtime/kumiko_runtime.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/cores.h"

#include <algorithm>
#include <cstring>

using namespace kumiko;

namespace {

constexpr int64_t line = 64; // bytes

// What the threads of one call's loops wrote to its output.
struct Watched {
    const char *output = nullptr;
    std::vector<char> before;
    int64_t threads = 0; // that there are
    int64_t busy = 0;    // of the loop with most
    int64_t shared = 0;  // lines that several threads of one loop wrote
} watched;

// A pool whose threads take the same runs of tasks as the default one's, one thread after the
// other. Records the lines that each changed.
int watch(kumiko_task task, void *closure, int64_t begin, int64_t count) {
    const int64_t threads = std::min(watched.threads, count);
    std::vector<int> writers(watched.before.size() / line, 0);
    std::copy_n(watched.output, watched.before.size(), watched.before.begin());
    for (int64_t thread = 0; thread < threads; thread++) {
        const int64_t tasks = count / threads + (thread < count % threads);
        for (const int64_t end = begin + tasks; begin < end; begin++) {
            if (const int code = task(closure, begin)) return code;
        }
        for (size_t l = 0; l < writers.size(); l++) {
            char *was = watched.before.data() + l * line;
            const char *is = watched.output + l * line;
            if (std::memcmp(was, is, line) == 0) continue;
            std::memcpy(was, is, line);
            writers[l]++;
        }
    }
    watched.busy = std::max(watched.busy, threads);
    watched.shared =
        std::max<int64_t>(watched.shared, std::count_if(writers.begin(), writers.end(), [](int n) { return n > 1; }));
    return 0;
}

struct Watching {
    kumiko_parallel_for_hook previous = kumiko_set_parallel_for(watch);
    ~Watching() { kumiko_set_parallel_for(previous); }
};

// `pieces`: the number of pieces of each thread's part of the result.
void check(const Op &op, int64_t pieces = 1) {
    for (const int64_t cores : {2, 16}) {
        const Schedule s = default_schedule(op, host_of(cores));
        INFO(cores, " cores: ", s.nest());
        const Kernel kernel = compile(s);
        std::vector<Buffer<>> all;
        for (const Input &in : op.inputs()) {
            all.push_back(make_input(in, {}));
            fill_random(all.back(), all.size(), -1, 1);
        }
        Buffer<> out = make_output(op, op.outputs()[0], {});
        fill_unwritten(out);
        all.push_back(out);
        watched = {static_cast<const char *>(static_cast<const void *>(out.data())), {}, cores, 0, 0};
        watched.before.resize(out.size_in_bytes() / line * line);
        REQUIRE(reinterpret_cast<uintptr_t>(watched.output) % line == 0);
        {
            const Watching pool;
            kernel(all);
        }
        CAPTURE(watched.shared);
        CHECK(watched.busy > 1);
        CHECK(watched.shared < watched.busy * pieces);
    }
}

} // namespace

TEST_CASE("products") {
    check(ops::matmul(f32, 256, 256, 200));
    check(ops::matmul(f32, 8, 2048, 300));
    check(ops::matmul(f32, 3000, 5, 70));
    check(ops::matmul(f32, 500, 1, 2000));
    check(ops::matmul(f32, 1, 3000, 500));
}

TEST_CASE("convolutions") {
    ops::Conv2dOptions each;
    each.groups = 32;
    check(ops::conv2d(f32, 1, 16, 41, 41, 24, 3, 3), 24); // runs of pixels, of each filter
    check(ops::conv2d(f32, 1, 32, 61, 61, 32, 3, 3, each));
}

TEST_CASE("rows, reductions and elements") {
    check(ops::softmax(f32, 300, 701));
    check(ops::reduction("sum", f32, {1000, 700}, {1}));
    check(ops::reduction("sum", f32, {200, 7000}, {1}));
}
