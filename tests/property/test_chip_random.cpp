// Random ops × random legal schedules of the chip's library = the formula, bit for bit, or within
// its error bound if functions are computed. Each failure prints its seed. KUMIKO_CHIP_PAIRS=N in
// the environment runs N pairs of each kind, on all machines.
// Links: schedules/library ops
// Sanitized: --test-case=*copies*,*elementwise*
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "schedules/library/chip_elementwise.h"
#include "schedules/library/chip_matmul.h"
#include "schedules/library/table.h"
#include "support/random.h"
#include "targets/chip/compile.h"

#include <array>
#include <cstdlib>
#include <doctest/doctest.h>

using namespace kumiko;

namespace {

Op random_matmul(Random &r) {
    ops::MatmulOptions o;
    o.transpose_a = r.below(2);
    o.transpose_b = r.below(2);
    o.output = r.below(2) ? f16 : f32;
    if (r.below(4) == 0) o.batch = int(1 + r.below(3));
    const bool single = r.below(4) == 0;
    if (single) o.output = {};
    o.bias = r.below(4) == 0;
    o.residual = r.below(4) == 0;
    if (r.below(4) == 0) o.activation = "relu";
    return ops::matmul(single ? f32 : f16, int(1 + r.below(100)), int(1 + r.below(150)), int(1 + r.below(200)), o);
}

Op random_conv(Random &r) {
    ops::Conv2dOptions o;
    o.layout = r.below(2) ? ops::ImageLayout::NHWC : ops::ImageLayout::NCHW;
    o.stride_y = int(1 + r.below(3));
    o.stride_x = int(1 + r.below(2));
    o.dilation_y = int(1 + r.below(2));
    o.dilation_x = int(1 + r.below(3));
    o.pad_top = int(r.below(3));
    o.pad_left = int(r.below(4));
    o.pad_bottom = int(r.below(3));
    o.pad_right = int(r.below(2));
    o.bias = r.below(2);
    o.residual = r.below(3) == 0;
    if (r.below(2)) o.activation = "relu";
    const int kh = int(1 + 2 * r.below(4)), kw = int(1 + r.below(5)), n = int(1 + r.below(3));
    const int h = int(o.dilation_y * (kh - 1) + 1 + r.below(12)), w = int(o.dilation_x * (kw - 1) + 1 + r.below(20));
    const Type t = r.below(4) ? f16 : f32;
    if (r.below(4) == 0) return ops::depthwise_conv2d(t, n, int(1 + r.below(70)), h, w, kh, kw, o);
    o.groups = r.below(3) ? 1 : int(1 + r.below(4));
    const int c = int(1 + r.below(40)), out = int(1 + r.below(50));
    return ops::conv2d(t, n, c * o.groups, h, w, out * o.groups, kh, kw, o);
}

Op random_elementwise(Random &r) {
    const Type t = r.below(2) ? f16 : f32;
    std::vector<Axis> axes;
    const size_t rank = 1 + r.below(3);
    for (size_t d = 0; d < rank; d++)
        axes.emplace_back(std::string(1, char('i' + d)), int(1 + r.below(rank == 1 ? 3000 : 40)));
    const Tensor a = input("A", t, axes), b = input("B", t, {axes.back()}), c = input("C", t, axes);
    const std::vector<Expr> at(axes.begin(), axes.end());
    const Expr x = a.at(at), y = b.at({at.back()}), z = c.at(at);
    Expr e;
    switch (r.below(4)) {
    case 0:
        e = x + z;
        break;
    case 1:
        e = (x - y) * z;
        break;
    case 2:
        e = x * y + z - x;
        break;
    default:
        e = (x + y) * (z - y) + x * z;
    }
    return Op("elementwise", {a, b, c}, {compute("Y", axes, e)});
}

Op random_end(Random &r) {
    const char *activation = std::array{"gelu", "silu", "tanh", "hard_swish"}[r.below(4)];
    if (r.below(2)) {
        ops::MatmulOptions o;
        o.transpose_b = true;
        o.bias = r.below(2);
        o.activation = activation;
        return ops::matmul(f16, int(1 + r.below(60)), int(1 + r.below(90)), int(1 + r.below(100)), o);
    }
    ops::Conv2dOptions o;
    o.bias = r.below(2);
    o.activation = activation;
    return ops::conv2d(f16, 1, int(1 + r.below(20)), 9, int(5 + r.below(9)), int(1 + r.below(40)), 3, 3, o);
}

Op random_rows(Random &r) {
    const Type t = r.below(3) ? f16 : f32;
    const bool passes = r.below(6) == 0; // through LM
    const int m = int(1 + r.below(passes ? 20 : 150)), n = int(1 + r.below(passes ? 4000 : 200));
    switch (r.below(6)) {
    case 0:
        return ops::softmax(t, m, n);
    case 1:
        return ops::log_softmax(t, m, n);
    case 2:
        return ops::layer_norm(t, m, n);
    case 3:
        return ops::rms_norm(t, m, n);
    default: {
        const auto &kinds = ops::reduction_kinds();
        return ops::reduction(kinds[r.below(kinds.size())], t, {m, n}, {1});
    }
    }
}

Op random_reduction(Random &r) {
    const size_t rank = 1 + r.below(4);
    std::vector<Expr> shape;
    std::vector<int> axes;
    for (size_t d = 0; d < rank; d++) {
        shape.push_back(int(1 + r.below(std::array{2000, 90, 24, 12}[rank - 1])));
        if (r.below(2)) axes.push_back(int(d)); // none: all
    }
    const std::string kind = ops::reduction_kinds()[r.below(ops::reduction_kinds().size())];
    return ops::reduction(kind, r.below(3) ? f16 : f32, shape, axes);
}

Op random_image(Random &r) {
    const Type t = r.below(3) ? f16 : f32;
    const int n = int(1 + r.below(3)), c = int(1 + r.below(70)), h = int(3 + r.below(15)), w = int(3 + r.below(15));
    if (r.below(3) == 0) return ops::batch_norm(t, n, c, h, w, 1e-5, r.below(2));
    ops::PoolOptions o;
    o.layout = r.below(2) ? ops::ImageLayout::NHWC : ops::ImageLayout::NCHW;
    o.stride = int(1 + r.below(2));
    o.padding = int(r.below(2));
    const int k = int(2 + r.below(2));
    return r.below(2) ? ops::max_pool(t, n, c, h, w, k, k, o) : ops::average_pool(t, n, c, h, w, k, k, o);
}

Op random_copy(Random &r) {
    const Type t = r.below(3) ? f16 : f32;
    const int m = int(1 + r.below(150)), n = int(1 + r.below(150));
    switch (r.below(3)) {
    case 0:
        return ops::transpose(t, m, n);
    case 1:
        return ops::gather(t, m, n, int(1 + r.below(300)));
    default:
        return ops::embedding(t, int(1 + r.below(4)), int(1 + r.below(40)), n, int(1 + r.below(300)));
    }
}

// Runs one op under one schedule. False if the schedule does not fit the machine, which is reported
// before anything runs; the default schedule always fits.
bool equal_to_formula(const Op &op, uint64_t seed, Random &r, const sim::Config &config, bool bounded) {
    const Machine machine = chip_machine(config);
    const auto space = library::find_template(op, machine)->make_space(op, machine);
    const bool by_default = !r.below(3);
    const Point point = by_default ? space->default_point() : space->sample(r);
    CAPTURE(seed);
    CAPTURE(op.to_string());
    CAPTURE(space->text(point));
    std::optional<ChipProgram> p;
    try {
        const Schedule s = space->schedule(point);
        const Schedule again = Schedule::from_json(op, machine, s.to_json()); // replay
        p = compile_chip(s, config);
        CHECK(compile_chip(again, config).words() == p->words());
    } catch (const std::runtime_error &e) { // UserError, Unsupported
        if (by_default) FAIL_CHECK(std::string(e.what()));
        return false;
    }
    std::vector<Buffer<>> arrays;
    for (const Input &in : op.inputs()) {
        arrays.push_back(make_input(in, {}));
        // A sum of -0 only is -0 on the chip, which does not start from 0: weights are positive.
        fill_random_integers(arrays.back(), seed++, in.name == "W" ? 1 : -4, 4);
    }
    const Bounded expected = bounded ? interpret_with_bound(op, arrays, {}) : Bounded{interpret(op, arrays), {}};
    arrays.push_back(make_output(op, op.outputs().front(), {}));
    fill_unwritten(arrays.back());
    p->run(arrays);
    if (bounded)
        CHECK_NOTHROW(check_within(arrays.back(), expected.values.front(), expected.bounds.front()));
    else
        CHECK(difference(arrays.back(), expected.values.front()) == "");
    return true;
}

void many(Op (*make)(Random &), int count, int at_least, bool bounded = false) {
    const char *asked = std::getenv("KUMIKO_CHIP_PAIRS");
    const int all = asked ? std::atoi(asked) : count;
    const std::array<sim::Config, 3> configs = {sim::Config::load("small"), sim::Config::load("medium"),
                                                sim::Config::load("full")};
    int fitting = 0;
    for (int n = 0; n < all; n++) {
        const uint64_t seed = 1000 + uint64_t(n);
        Random r(seed);
        const sim::Config &config = configs[asked || n % 8 == 7 ? size_t(n % 3) : 0];
        CAPTURE(config.name);
        fitting += equal_to_formula(make(r), seed, r, config, bounded);
    }
    MESSAGE(fitting << " of " << all << " schedules fit the machine");
    CHECK(fitting * int64_t(count) >= at_least * int64_t(all));
}

} // namespace

TEST_CASE("random matrix products under random schedules") { many(random_matmul, 150, 145); }
TEST_CASE("random convolutions under random schedules") { many(random_conv, 120, 115); }
TEST_CASE("random elementwise stages under random schedules") { many(random_elementwise, 100, 95); }
TEST_CASE("random functions behind products under random schedules") { many(random_end, 60, 57, true); }
TEST_CASE("random rows under random schedules") { many(random_rows, 60, 57, true); }
TEST_CASE("random reductions along any axes under random schedules") { many(random_reduction, 60, 57, true); }
TEST_CASE("random images under random schedules") { many(random_image, 60, 57, true); }
TEST_CASE("random copies under random schedules") { many(random_copy, 60, 57); }
