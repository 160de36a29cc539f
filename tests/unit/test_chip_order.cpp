// Products, convolutions, sums and softmax on the chip equal the host's evaluation in the chip's
// order, bit for bit.
// Links: schedules/library ops
// Sanitized: no
#include "dsl/buffer_elements.h"
#include "ops/ops.h"
#include "schedules/library/chip_matmul.h"
#include "schedules/library/chip_rows.h"
#include "schedules/library/structure.h"
#include "schedules/library/table.h"
#include "support/half.h"
#include "support/random.h"
#include "targets/chip/compile.h"
#include "targets/chip/vector/from_expr.h"
#include "tests/unit/machine_order.h"

#include <doctest/doctest.h>

using namespace kumiko;
namespace ir = Halide::Internal;

namespace {

const std::vector<sim::Config> &configs() {
    static const std::vector<sim::Config> all = {sim::Config::load("small"), sim::Config::load("medium"),
                                                 sim::Config::load("full")};
    return all;
}

// Runs on floats whose sums are inexact, and returns the chip's results.
std::vector<Buffer<>> run(const Schedule &s, const sim::Config &config) {
    std::vector<Buffer<>> arrays;
    uint64_t seed = 7;
    for (const Input &in : s.op().inputs()) {
        arrays.push_back(make_input(in, {}));
        fill_random(arrays.back(), seed++, -2, 2);
    }
    arrays.push_back(make_output(s.op(), s.op().outputs().front(), {}));
    fill_unwritten(arrays.back());
    compile_chip(s, config).run(arrays);
    return arrays;
}

using Index = std::vector<int64_t>;

float number(const Buffer<> &b, const Index &at) { return float(element(b.raw_buffer(), at)); }

// Compares the output with `value` of each index, from f32.
void equals(const Buffer<> &actual, const std::function<float(const Index &)> &value) {
    const Buffer<> expected = actual.copy();
    for_each_element(expected.raw_buffer(), [&](const Index &at, uint8_t *to) {
        const float f = value(at);
        if (expected.type() == f16) {
            const uint16_t half = half_from_float(f);
            std::memcpy(to, &half, 2);
        } else {
            std::memcpy(to, &f, 4);
        }
    });
    CHECK(difference(actual, expected) == "");
}

// A read of a tensor at affine indices; zero out of bounds.
class Read {
public:
    Read(const Op &op, const std::vector<Buffer<>> &arrays, const ir::Call *call, const Stage &stage) {
        const std::string name = op.find_input(call->name) ? call->name : "X"; // which is padded
        for (size_t i = 0; i < op.inputs().size(); i++) {
            if (op.inputs()[i].name == name) from_ = arrays[i];
        }
        std::vector<Axis> axes = stage.axes;
        axes.insert(axes.end(), stage.reduction_axes.begin(), stage.reduction_axes.end());
        for (const Expr &e : call->args) {
            const auto at = [&](size_t one) {
                std::map<std::string, Expr> values;
                for (size_t a = 0; a < axes.size(); a++) values[axes[a].name()] = a == one ? 1 : 0;
                return *ir::as_const_int(ir::simplify(ir::substitute(values, e)));
            };
            Sum sum{at(axes.size()), {}};
            for (size_t a = 0; a < axes.size(); a++) sum.times.push_back(at(a) - sum.constant);
            index_.push_back(sum);
        }
    }
    float operator()(const Index &own, const Index &reduced) const {
        Index at;
        for (const Sum &sum : index_) {
            int64_t i = sum.constant;
            for (size_t d = 0; d < own.size(); d++) i += sum.times[d] * own[d];
            for (size_t d = 0; d < reduced.size(); d++) i += sum.times[own.size() + d] * reduced[d];
            if (i < 0 || i >= from_.extent(at.size())) return 0;
            at.push_back(i);
        }
        return number(from_, at);
    }

private:
    struct Sum {
        int64_t constant;
        std::vector<int64_t> times; // by axis, the stage's own first
    };
    Buffer<> from_;
    std::vector<Sum> index_;
};

// Checks a product or convolution with one of the library's schedules. False if it does not fit the
// machine.
bool check_products(const Op &op, const sim::Config &config, const Schedule &s) {
    CAPTURE(op.to_string());
    CAPTURE(config.name);
    std::vector<Buffer<>> arrays;
    try {
        arrays = run(s, config);
    } catch (const UserError &) {
        return false;
    } catch (const Unsupported &) {
        return false;
    }
    const StageState *sum = nullptr;
    for (const StageState &stage : s.state().stages) {
        if (stage.def.is_reduction()) sum = &stage;
    }
    // The formula's own stage: the schedule's reads are of copies.
    const Stage &stage = op.stage(sum->def.name);
    const auto reads = tensor_reads(stage.components.front().term);
    REQUIRE(reads.size() == 2);
    const Read a(op, arrays, reads[0], stage), b(op, arrays, reads[1], stage);
    const ReductionOrder order(*sum);
    equals(arrays.back(), [&](const Index &at) {
        return sum_of_products(order, reads[0]->type == f32, [&](const Index &reduced) {
            return std::pair{a(at, reduced), b(at, reduced)};
        });
    });
    return true;
}

// At the default point, and at others that fit.
void check_products(const Op &op, const sim::Config &config, const std::string &name) {
    CAPTURE(name);
    const Machine machine = chip_machine(config);
    const auto space = library::template_named(name).make_space(op, machine);
    CHECK(check_products(op, config, space->schedule(space->default_point())));
    Random r(3);
    for (int n = 0; n < 3; n++) {
        const Point point = space->sample(r);
        CAPTURE(space->text(point));
        try {
            check_products(op, config, space->schedule(point));
        } catch (const UserError &) { // does not fit
        }
    }
}

Op product(int m, int n, int k, Type t, Type out, bool transpose_b = true) {
    ops::MatmulOptions o;
    o.transpose_b = transpose_b;
    if (t != out) o.output = out;
    return ops::matmul(t, m, n, k, o);
}

// The number of sums of one point that run side by side, as in targets/chip/stage/reduction.cpp.
int64_t chains(int64_t points, int64_t steps, int64_t words, const sim::Config &config) {
    const int64_t fours = (points + 3) / 4;
    const int64_t room = config.sizes.grf / 4 / (4 * fours * words);
    return fours >= 3 ? 1 : std::max<int64_t>(1, std::min({steps, room, int64_t(fours == 2 ? 2 : 4)}));
}

uint32_t bits(float f) { return __builtin_bit_cast(uint32_t, f); }
float from_bits(uint32_t b) { return __builtin_bit_cast(float, b); }

// A formula of reads of f32, or of casts to f32, in the order of their occurrence.
chip::VectorProgram program_of(const Expr &e) {
    chip::VectorBuilder b;
    int reads = 0;
    b.result(chip::take_expression(b, e, "test", [&](const Expr &read) -> chip::Id {
        const ir::Cast *cast = read.as<ir::Cast>();
        const ir::Call *call = (cast ? cast->value : read).as<ir::Call>();
        return call && call->call_type == ir::Call::Image ? b.read(reads++, sim::Type::F32) : -1;
    }));
    return b.program();
}

} // namespace

TEST_CASE("products of matrices") {
    const sim::Config full = sim::Config::load("full");
    for (const kumiko::Type out : {f16, f32}) {
        for (const int k : {300, 600, 1100}) {
            const Op op = product(20, 40, k, f16, out);
            library::ChipMatmulParameters p = library::chip_matmul_parameters(op, chip_machine(full));
            p.vectors = Tile(16, {16}), p.pieces = Tile(1, {1}), p.twice = Flag(false), p.sides = Flag(false);
            p.halves = Flag(true);
            CHECK(check_products(op, full, library::schedule_chip_matmul(op, chip_machine(full), p)));
        }
    }
    for (const sim::Config &config : configs()) {
        if (config.name != "small") check_products(product(20, 40, 1100, f16, f32), config, "chip_matmul");
        for (const auto &[m, n, k] : {std::tuple{16, 32, 64}, {33, 50, 70}, {5, 7, 3}, {1, 1, 1}, {20, 40, 300}}) {
            check_products(product(m, n, k, f16, f32), config, "chip_matmul");
            check_products(product(m, n, k, f16, f16), config, "chip_matmul");
            check_products(product(m, n, k, f16, f16, false), config, "chip_matmul");
            check_products(product(m, n, k, f32, f32), config, "chip_matmul");
            check_products(product(m, n, k, f16, f32), config, "chip_packed_matmul");
            check_products(product(m, n, k, f16, f16, false), config, "chip_packed_matmul");
            check_products(product(m, n, k, f32, f32, false), config, "chip_packed_matmul");
        }
    }
}

TEST_CASE("convolutions") {
    for (const sim::Config &config : configs()) {
        ops::Conv2dOptions o;
        o.layout = ops::ImageLayout::NHWC;
        check_products(ops::conv2d(f16, 1, 16, 6, 9, 16, 3, 3, o), config, "chip_conv");
        o.pad_top = o.pad_left = o.pad_bottom = o.pad_right = 1;
        check_products(ops::conv2d(f16, 2, 40, 5, 8, 20, 3, 3, o), config, "chip_conv");
        check_products(ops::conv2d(f32, 2, 20, 5, 8, 20, 3, 3, o), config, "chip_conv");
        o.stride_y = 2;
        o.dilation_x = 2;
        check_products(ops::conv2d(f16, 1, 70, 7, 9, 10, 3, 2, o), config, "chip_conv");
        o.layout = ops::ImageLayout::NCHW;
        check_products(ops::conv2d(f16, 1, 33, 7, 9, 18, 1, 5, o), config, "chip_conv");
        check_products(ops::conv2d(f32, 1, 33, 7, 9, 18, 1, 5, o), config, "chip_conv");
    }
}

TEST_CASE("sums along any axes") {
    const std::vector<std::pair<std::vector<Expr>, std::vector<int>>> cases = {
        {{20, 30}, {}},     {{20, 30}, {0}},        {{4, 20, 30}, {0, 2}}, {{4, 20, 30}, {1, 2}},
        {{5, 300, 6}, {1}}, {{70, 600}, {0, 1}},    {{3000}, {}},          {{9, 1000}, {1}},
        {{400, 700}, {0}},  {{2, 3, 4, 5}, {1, 3}}, {{1500, 64}, {}},      {{7, 9000}, {0, 1}}};
    for (const sim::Config &config : configs()) {
        const Machine machine = chip_machine(config);
        for (const auto &[shape, axes] : cases) {
            for (const Type t : {f16, f32}) {
                const Op op = ops::reduction("sum", t, shape, axes);
                CAPTURE(op.to_string());
                CAPTURE(config.name);
                const auto space = library::find_template(op, machine)->make_space(op, machine);
                const Schedule s = space->schedule(space->default_point());
                const auto arrays = run(s, config);
                const StageState *sum = nullptr;
                for (const StageState &stage : s.state().stages) {
                    if (stage.def.is_reduction()) sum = &stage;
                }
                int64_t points = 1;
                for (const std::string &l : sum->order) {
                    if (!sum->loop(l).reduction && (l.ends_with(".t") || l.ends_with("row")))
                        points *= *ir::as_const_int(ir::simplify(sum->loop(l).extent));
                }
                const ReductionOrder order(*sum);
                const int64_t side = chains(points, order.steps, t == f16 ? 2 : 1, config);
                std::vector<size_t> kept, gone;
                for (size_t d = 0; d < shape.size(); d++) {
                    const bool reduced = axes.empty() || std::find(axes.begin(), axes.end(), int(d)) != axes.end();
                    (reduced ? gone : kept).push_back(d);
                }
                equals(arrays.back(), [&](const Index &at) {
                    return sum_of_vectors(order, side, [&](const auto &reduced, std::optional<float> sum) {
                        Index i(shape.size());
                        for (size_t d = 0; d < kept.size(); d++) i[kept[d]] = at[d];
                        for (size_t d = 0; reduced && d < gone.size(); d++) i[gone[d]] = (*reduced)[d];
                        const float x = reduced ? number(arrays.front(), i) : 0;
                        return sum ? x + *sum : x;
                    });
                });
            }
        }
    }
}

TEST_CASE("softmax") {
    for (const sim::Config &config : configs()) {
        const Machine machine = chip_machine(config);
        for (const Type t : {f16, f32}) {
            for (const auto &[m, n] : {std::pair{8, 64}, {20, 50}, {3, 7}, {5, 200}, {40, 333}}) {
                const Op op = ops::softmax(t, m, n);
                CAPTURE(op.to_string());
                CAPTURE(config.name);
                const auto parameters = library::chip_rows_parameters(op, machine);
                const Schedule s = library::schedule_chip_rows(op, machine, parameters);
                const auto arrays = run(s, config);
                const StageState &sum = s.state().stage("sum");
                const ReductionOrder order(sum);
                const int64_t side = chains(parameters.rows, order.steps, t == f16 ? 2 : 1, config);
                const auto e = program_of(op.stage("e").value), share = program_of(op.stage("share").value);
                std::vector<float> row(static_cast<size_t>(n)), shares(static_cast<size_t>(m));
                for (int i = 0; i < m; i++) {
                    float top = -INFINITY;
                    for (int j = 0; j < n; j++) top = std::max(top, number(arrays[0], {i, j}));
                    for (int j = 0; j < n; j++)
                        row[size_t(j)] = from_bits(chip::evaluate(e, {bits(number(arrays[0], {i, j})), bits(top)}));
                    const float total = sum_of_vectors(order, side, [&](const auto &k, std::optional<float> sum) {
                        const float x = k ? row[size_t(k->front())] : 0;
                        return sum ? x + *sum : x;
                    });
                    const float share_of_row = from_bits(chip::evaluate(share, {bits(total)}));
                    Buffer<> actual(arrays[1].type(), {n}), expected(arrays[1].type(), {n});
                    const size_t bytes = size_t(arrays[1].type().bytes() * n);
                    std::memcpy(actual.data(), static_cast<const uint8_t *>(arrays[1].data()) + size_t(i) * bytes,
                                bytes);
                    equals(actual, [&](const Index &at) { return row[size_t(at[0])] * share_of_row; });
                }
            }
        }
    }
}
