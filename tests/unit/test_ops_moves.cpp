// Ops that move elements against loops.
#include "tests/unit/op_reference.h"

using namespace kumiko;

TEST_CASE("pad") {
    for (const double value : {0.0, -0.0, 2.5, -HUGE_VAL}) {
        const Op op = ops::pad(f64, {3, 4, 5}, {1, 0, 2}, {0, 3, 1}, value);
        const std::vector<Buffer<>> in = random_inputs(op);
        check_elements(op, in, {4, 7, 8}, [&](const Index &i) {
            const Index x = {i[0] - 1, i[1], i[2] - 2};
            const bool inside = x[0] >= 0 && x[1] < 4 && x[2] >= 0 && x[2] < 5;
            return inside ? at(in[0], x) : value;
        });
        const Buffer<> y = interpret(op, in);
        CHECK(std::signbit(at(y, {0, 0, 0})) == std::signbit(value));
    }
    const Op bytes = ops::pad(u8, {5}, {2}, {}, 255);
    const std::vector<Buffer<>> in = random_inputs(bytes);
    check_elements(bytes, in, {7}, [&](const Index &i) { return i[0] < 2 ? 255 : at(in[0], {i[0] - 2}); });
    const Op nothing = ops::pad(i32, {2, 3}, {}, {});
    const std::vector<Buffer<>> same = random_inputs(nothing);
    check_elements(nothing, same, {2, 3}, [&](const Index &i) { return at(same[0], i); });
    const Op empty = ops::pad(f32, {0, 2}, {1, 1}, {1, 0}, 7);
    check_elements(empty, random_inputs(empty), {2, 3}, [](const Index &) { return 7; });
}

TEST_CASE("slice") {
    const Op op = ops::slice(f32, {6, 9, 7}, {2, 4, 3}, {1, 8, 0}, {3, -2, 2});
    const std::vector<Buffer<>> in = random_inputs(op);
    check_elements(op, in, {2, 4, 3}, [&](const Index &i) {
        return at(in[0], {1 + 3 * i[0], 8 - 2 * i[1], 2 * i[2]});
    });
    const Op first = ops::slice(i8, {5, 3}, {2, 3});
    const std::vector<Buffer<>> two = random_inputs(first);
    check_elements(first, two, {2, 3}, [&](const Index &i) { return at(two[0], i); });
    const Op none = ops::slice(f32, {5}, {0}, {4});
    check_elements(none, random_inputs(none), {0}, [](const Index &) { return 0; });
}

TEST_CASE("concat") {
    for (const int axis : {0, 1, 2, -1}) {
        const int at_axis = axis < 0 ? 2 : axis;
        const std::vector<std::vector<Expr>> all_parts = {{2, 3}, {1, 4, 2}, {3, 0, 5, 1}, {7}};
        for (const auto &parts : all_parts) {
            const Op op = ops::concat(f32, {4, 3}, parts, axis);
            const std::vector<Buffer<>> in = random_inputs(op);
            CHECK(in.size() == parts.size());
            Index extents = {4, 3};
            int64_t whole = 0;
            for (const Buffer<> &b : in) whole += b.extents()[at_axis];
            extents.insert(extents.begin() + at_axis, whole);
            check_elements(op, in, extents, [&](const Index &i) {
                Index x = i;
                size_t n = 0;
                while (x[at_axis] >= in[n].extents()[at_axis]) x[at_axis] -= in[n++].extents()[at_axis];
                return at(in[n], x);
            });
        }
    }
    const Op line = ops::concat(bf16, {}, {3, 5}, 0);
    const std::vector<Buffer<>> in = random_inputs(line);
    check_elements(line, in, {8}, [&](const Index &i) { return i[0] < 3 ? at(in[0], i) : at(in[1], {i[0] - 3}); });
}

TEST_CASE("one_hot") {
    for (const Type t : {f32, u8, boolean}) {
        const Op op = ops::one_hot(t, 8, 5);
        std::vector<Buffer<>> in = random_inputs(op);
        fill_random_integers(in[0], 4, -2, 6);
        check_elements(op, in, {8, 5}, [&](const Index &i) { return at(in[0], {i[0]}) == static_cast<double>(i[1]); });
    }
    const Op other = ops::one_hot(f16, 3, 4, 0.75, -2);
    const std::vector<Buffer<>> in = random_inputs(other);
    check_elements(other, in, {3, 4},
                   [&](const Index &i) { return at(in[0], {i[0]}) == static_cast<double>(i[1]) ? 0.75 : -2; });
}

TEST_CASE("sizes that are known only at run time") {
    Size N("N"), M("M");
    CHECK(ops::pad(f32, {N, 3}, {1, 1}, {0, 0}).sizes() == std::vector<std::string>{"N"});
    CHECK(ops::concat(f32, {3}, {N, M, 2}, 0).sizes() == std::vector<std::string>{"N", "M"});
    const Op taken = ops::slice(f32, {N}, {M}, {2}, {3});
    const auto run = [&](int n, int m) {
        InterpretOptions options;
        options.sizes = {{"N", n}, {"M", m}};
        return interpret(taken, std::vector<Buffer<>>{random({n})}, options);
    };
    CHECK(Buffer<>(run(9, 3)).extents() == Index{3});
    CHECK_THROWS(run(8, 3));
}
