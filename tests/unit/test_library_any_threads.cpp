// Default schedules compute the same bits for any number of threads: fewer than the cores that they
// are made for, and more than there is work.
// Links: driver
// Sanitized: no
#include "driver/default_schedule.h"
#include "ops/ops.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/cores.h"

using namespace kumiko;

namespace {

bool spread(const Schedule &s) {
    for (const StageState &stage : s.state().stages) {
        for (const LoopState &l : stage.loops) {
            if (l.kind == LoopKind::Parallel) return true;
        }
    }
    return false;
}

// Uses numbers whose sums are rounded, so that another order shows.
void check(const Op &op, bool spreads = true) {
    for (const int64_t cores : {2, 16}) {
        const Schedule s = default_schedule(op, host_of(cores));
        INFO(s.nest());
        if (cores == 16) CHECK(spread(s) == spreads);
        const Kernel kernel = compile(s);
        std::vector<Buffer<>> inputs;
        for (const Input &in : op.inputs()) {
            inputs.push_back(make_input(in, {}));
            fill_random(inputs.back(), inputs.size(), -1, 1);
        }
        Buffer<> one;
        for (const int n : {1, 2, 3, 5, 64}) {
            CAPTURE(n);
            const Threads threads(n);
            std::vector<Buffer<>> all = inputs;
            all.push_back(make_output(op, op.outputs()[0], {}));
            fill_unwritten(all.back());
            kernel(all);
            if (n == 1) one = all.back();
            CHECK_EQ(difference(all.back(), one), "");
        }
    }
}

} // namespace

TEST_CASE("products") {
    check(ops::matmul(f32, 200, 200, 200));
    check(ops::matmul(f32, 8, 2048, 300)); // columns are spread
    check(ops::matmul(f32, 3000, 5, 70));
    check(ops::matmul(f32, 8, 16, 65536)); // steps are spread, in parts that the cores decide
}

TEST_CASE("convolutions") {
    ops::Conv2dOptions each;
    each.groups = 32;
    check(ops::conv2d(f32, 1, 16, 40, 40, 24, 3, 3));
    check(ops::conv2d(f32, 1, 32, 60, 60, 32, 3, 3, each));
}

TEST_CASE("rows and reductions") {
    check(ops::softmax(f32, 300, 700));
    check(ops::reduction("sum", f32, {1 << 21}, {0}), false); // one sum, by one thread
    check(ops::reduction("sum", f32, {1000, 700}, {1}));
    check(ops::reduction("sum", f32, {1000, 700}, {0}), false);
}

TEST_CASE("attention") { check(ops::attention(f32, 1, 3, 130, 130, 32)); }
