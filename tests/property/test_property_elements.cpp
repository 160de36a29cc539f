// Elements evaluated one by one equal those of the whole result: over random formulas, and over
// operators with borders, rows, scans and several stages.
// Sanitized: --test-case=*operators*,an*element*
#include "random_op.h"

#include "dsl/interpret.h"
#include "dsl/interpret_element.h"
#include "ops/registry.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

using namespace kumiko;

namespace {

bool same(double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

// Compares corners and random elements of every output. Returns the number of comparisons.
int compare_elements(const Op &op, const Sizes &sizes, Random &random) {
    std::vector<Buffer<>> inputs;
    for (const Input &in : op.inputs()) {
        inputs.push_back(make_input(in, sizes));
        in.type.is_float()
            ? fill_random(inputs.back(), random(), -1, 1)
            : fill_random_integers(inputs.back(), random(), in.type.is_uint() ? 0 : -2, in.type.is_bool() ? 1 : 2);
    }
    std::vector<Buffer<>> own = inputs; // inout tensors are replaced
    for (size_t i = 0; i < own.size(); i++) {
        if (op.inputs()[i].inout) own[i] = inputs[i].copy();
    }
    Results values;
    Bounded bounded;
    try {
        bounded = interpret_with_bound(op, inputs, sizes);
        values = interpret(op, own, {.sizes = sizes});
    } catch (const UserError &) { // an overflow
        return 0;
    }
    int compared = 0;
    for (size_t o = 0; o < op.outputs().size(); o++) {
        const std::vector<int64_t> extents = values[o].extents();
        if (std::any_of(extents.begin(), extents.end(), [](int64_t e) { return e == 0; })) continue;
        for (int n = 0; n < 6; n++) {
            std::vector<int64_t> index;
            for (const int64_t e : extents) index.push_back(n == 0 ? 0 : n == 1 ? e - 1 : random.between(0, e - 1));
            INFO(op.outputs()[o], " element ", n);
            const ElementValue once = interpret_element(op, inputs, sizes, op.outputs()[o], index, false);
            CHECK(same(once.value, element(values[o].raw_buffer(), index)));
            const ElementValue twice = interpret_element(op, inputs, sizes, op.outputs()[o], index, true);
            CHECK(same(twice.value, element(bounded.values[o].raw_buffer(), index)));
            CHECK(same(twice.bound, element(bounded.bounds[o].raw_buffer(), index)));
            compared++;
        }
    }
    return compared;
}

} // namespace

TEST_CASE("elements of random formulas") {
    const Machine machine = Machine::host();
    int compared = 0;
    for (uint64_t seed = 1; seed <= 250; seed++) {
        const property::RandomOp random_op = property::OpGenerator(seed, machine).run();
        Random random(seed);
        const std::string formula = random_op.op.to_string();
        CAPTURE(seed);
        CAPTURE(formula);
        compared += compare_elements(random_op.op, random_op.sizes, random);
    }
    CHECK(compared > 800);
}

TEST_CASE("elements of operators") {
    Random random(1);
    for (const auto &[name, parameters] : std::vector<std::pair<std::string, Json>>{
             {"matmul", {{"m", 30}, {"n", 20}, {"k", 40}}},
             {"conv2d",
              {{"n", 2}, {"c", 6}, {"h", 11}, {"w", 9}, {"o", 4}, {"kh", 3}, {"kw", 3}, {"padding", 1}, {"stride", 2}}},
             {"softmax", {{"m", 9}, {"n", 50}}},
             {"layer_norm", {{"m", 9}, {"n", 50}}},
             {"attention", {{"s", 7}, {"t", 9}, {"d", 8}}},
             {"cumulative_sum", {{"shape", {4, 9}}, {"axis", 1}}},
             {"embedding_gradient", {{"b", 2}, {"s", 5}, {"n", 6}, {"w", 7}}}}) {
        INFO(name);
        CHECK(compare_elements(ops::make(name, parameters), {}, random) > 0);
    }
}

TEST_CASE("an element of a product takes a row and a column, and of a sum of all, all") {
    const Op product = ops::make("matmul", {{"m", 512}, {"n", 512}, {"k", 512}});
    const double whole = interpret_seconds(product, {}, false);
    // minus the fixed time of one element
    const auto beside = [](double seconds) { return seconds - 5e-5; };
    CHECK(whole / beside(interpret_element_seconds(product, {}, "C", {3, 5}, false)) == doctest::Approx(512 * 512));
    CHECK(interpret_seconds(product, {}, true) > whole);
    Axis i("i", 100), j("j", 100);
    Tensor X = input("X", f32, {i, j}), R = compute("R", {i}, sum(X(i, j), j));
    Axis k("i", 100), z("z", 1);
    const Op all("all", {X}, {compute("Y", {z}, sum(R(k), k))});
    CHECK(beside(interpret_element_seconds(all, {}, "Y", {0}, false)) ==
          doctest::Approx(interpret_seconds(all, {}, false)));
}
