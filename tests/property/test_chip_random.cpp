// Random ops × random legal schedules of the chip's library = the formula, bit for bit. Links with the library's spaces; the seed is
// printed with each failure.
// Links: schedules/library ops
#include "dsl/interpret.h"
#include "ops/ops.h"
#include "schedules/library/chip_elementwise.h"
#include "schedules/library/chip_matmul.h"
#include "schedules/library/table.h"
#include "support/random.h"
#include "targets/chip/compile.h"

#include <doctest/doctest.h>

using namespace kumiko;

namespace {

Op random_matmul(Random &r) {
    ops::MatmulOptions o;
    o.transpose_a = r.below(2);
    o.transpose_b = r.below(2);
    o.output = r.below(2) ? f16 : f32;
    if (r.below(4) == 0) o.batch = int(1 + r.below(3));
    return ops::matmul(f16, int(1 + r.below(100)), int(1 + r.below(150)), int(1 + r.below(200)), o);
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
    if (r.below(4) == 0) return ops::depthwise_conv2d(f16, n, int(1 + r.below(70)), h, w, kh, kw, o);
    o.groups = r.below(3) ? 1 : int(1 + r.below(4));
    const int c = int(1 + r.below(40)), out = int(1 + r.below(50));
    return ops::conv2d(f16, n, c * o.groups, h, w, out * o.groups, kh, kw, o);
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

// One op under one schedule. False when the schedule does not fit the machine, which is said before anything runs.
bool equal_to_formula(const Op &op, uint64_t seed, Random &r, const sim::Config &config) {
    const Machine machine = chip_machine(config);
    const auto space = library::find_template(op, machine)->make_space(op, machine);
    const Point point = r.below(3) ? space->sample(r) : space->default_point();
    CAPTURE(seed);
    CAPTURE(op.to_string());
    CAPTURE(space->text(point));
    std::optional<ChipProgram> p;
    try {
        const Schedule s = space->schedule(point);
        const Schedule again = Schedule::from_json(op, machine, s.to_json()); // replay
        p = compile_chip(s, config);
        CHECK(compile_chip(again, config).words() == p->words());
    } catch (const UserError &) {
        return false;
    } catch (const Unsupported &) {
        return false;
    }
    std::vector<Buffer<>> arrays;
    for (const Input &in : op.inputs()) {
        arrays.push_back(make_input(in, {}));
        // A sum of nothing but -0 is -0 on the chip, which does not begin with a 0: weights are positive.
        fill_random_integers(arrays.back(), seed++, in.name == "W" ? 1 : -4, 4);
    }
    const Buffer<> expected = interpret(op, arrays).front();
    arrays.push_back(make_output(op, op.outputs().front(), {}));
    fill_unwritten(arrays.back());
    p->run(arrays);
    CHECK(difference(arrays.back(), expected) == "");
    return true;
}

void many(Op (*make)(Random &), int count, int at_least) {
    const sim::Config config = sim::Config::load("small");
    int fitting = 0;
    for (int n = 0; n < count; n++) {
        const uint64_t seed = 1000 + uint64_t(n);
        Random r(seed);
        fitting += equal_to_formula(make(r), seed, r, config);
    }
    MESSAGE(fitting << " of " << count << " schedules fit the machine");
    CHECK(fitting >= at_least);
}

} // namespace

TEST_CASE("random matrix products under random schedules") { many(random_matmul, 150, 50); }
TEST_CASE("random convolutions under random schedules") { many(random_conv, 120, 60); }
TEST_CASE("random elementwise stages under random schedules") { many(random_elementwise, 100, 50); }
