// Spaces made from formulas: every schedule computes the formula, for any op, and some schedules
// are fast.
// Links: driver
// Sanitized: --test-case=*products*
#include "autotune/spaces/auto_space.h"
#include "driver/kernel.h"
#include "driver/machines.h"
#include "dsl/reduction.h"
#include "ops/registry.h"
#include "schedules/library/elementwise.h"
#include "schedules/library/table.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/space_points.h"

using namespace kumiko;

namespace {

void check_bits(const Op &op, int points = 4, const Sizes &sizes = {}) {
    CAPTURE(op.to_string());
    const auto space = auto_space(op, Machine::host());
    for_points(*space, points, 3, [&](const Schedule &s) { check_runs(s, sizes); });
}

// For ops that are not exact.
void check_bounds(const Op &op, int points = 3) {
    CAPTURE(op.to_string());
    const auto space = auto_space(op, Machine::host());
    for_points(*space, points, 5, [&](const Schedule &s) {
        INFO(s.nest());
        const Kernel k = compile(s);
        std::vector<Buffer<>> args, inputs;
        for (const Input &in : op.inputs()) {
            inputs.push_back(make_input(in, {}));
            fill_random(inputs.back(), inputs.size(), -1, 1);
        }
        args = inputs;
        for (const std::string &o : op.outputs()) {
            args.push_back(make_output(op, o, {}));
            fill_unwritten(args.back());
        }
        k(args);
        const Bounded expected = interpret_with_bound(op, inputs, {});
        for (size_t o = 0; o < expected.values.size(); o++)
            CHECK_NOTHROW(check_within(args[inputs.size() + o], expected.values[o], expected.bounds[o]));
    });
}

Op squared_distances(int m, int n, int d) {
    Axis i("i", m), j("j", n), k("k", d);
    Tensor X = input("X", Float(32), {i, k}), Y = input("Y", Float(32), {j, k});
    Expr difference = X(i, k) - Y(j, k);
    return Op("squared_distances", {X, Y}, {compute("D", {i, j}, sum(difference * difference, k))});
}

// Two products with the same left operand, joined elementwise.
Op two_products(int m, int n, int d) {
    Axis i("i", m), j("j", n), k("k", d);
    Tensor X = input("X", Float(32), {i, k}), U = input("U", Float(32), {k, j}), V = input("V", Float(32), {k, j});
    Tensor A = compute("A", {i, j}, sum(X(i, k) * U(k, j), k)), B = compute("B", {i, j}, sum(X(i, k) * V(k, j), k));
    return Op("two_products", {X, U, V}, {compute("G", {i, j}, A(i, j) * max(B(i, j), 0.f))});
}

Op named(const std::string &op, const Json &parameters) { return ops::make(op, parameters); }

} // namespace

TEST_CASE("products of matrices") {
    check_bits(named("matmul", {{"m", 37}, {"n", 50}, {"k", 70}}), 12);
    check_bits(named("matmul", {{"m", 130}, {"n", 96}, {"k", 200}, {"transpose_b", true}, {"bias", true}}), 8);
    check_bits(named("matmul", {{"m", 40}, {"n", 33}, {"k", 21}, {"transpose_a", true}}), 8);
    check_bits(two_products(40, 70, 30), 12);
    check_bits(squared_distances(33, 47, 20), 12);
}

TEST_CASE("products of bytes and halves, by tensor instructions where there are some") {
    const Json bytes = {{"m", 33}, {"n", 70}, {"k", 50}, {"type", "u8"}, {"b_type", "i8"}};
    check_bits(named("matmul", bytes), 10);
    Json other = bytes;
    other.update({{"k", 64}, {"transpose_b", true}});
    check_bits(named("matmul", other), 6);
    check_bits(named("matmul", {{"m", 20}, {"n", 40}, {"k", 36}, {"type", "bf16"}, {"output", "f32"}}), 6);
    check_bits(named("matmul", {{"m", 20}, {"n", 40}, {"k", 36}, {"type", "f16"}, {"output", "f32"}}), 6);
    // The choice exists, and the chosen value is used.
    const Machine avx2 = Machine::named("x86-64-avx2");
    const auto space =
        auto_space(named("matmul", {{"m", 64}, {"n", 64}, {"k", 64}, {"type", "u8"}, {"b_type", "i8"}}), avx2);
    const std::string text = space->schedule(space->default_point()).to_cpp();
    CHECK(text.find("tensorize") != std::string::npos);
}

TEST_CASE("convolutions") {
    const Json conv = {{"c", 5}, {"h", 13}, {"w", 17}, {"o", 9}, {"kh", 3}, {"kw", 3}, {"padding", 1}};
    check_bits(named("conv2d", conv), 8);
    Json strided = conv;
    strided.update({{"stride", 2}, {"bias", true}, {"activation", "relu"}});
    check_bits(named("conv2d", strided), 8);
    check_bits(named("depthwise_conv2d", {{"c", 6}, {"h", 12}, {"w", 35}, {"padding", 1}}), 8);
}

TEST_CASE("decisions about a zero-padded image are applied") {
    const Op op = ops::make("conv2d", {{"c", 8}, {"h", 20}, {"w", 20}, {"o", 8}, {"kh", 3}, {"kw", 3}, {"padding", 1}});
    const auto space = auto_space(op, Machine::host());
    Json point = space->to_json(space->default_point());
    for (const auto &[at, kind] :
         {std::pair("root", Placement::Kind::Root), std::pair("inline", Placement::Kind::Inline)}) {
        point["X.padded.at"] = at;
        CHECK(space->schedule(space->from_json(point)).state().find("X.padded")->placement.kind == kind);
    }
}

TEST_CASE("rows, softmax, attention") {
    check_bounds(named("softmax", {{"m", 9}, {"n", 100}}), 6);
    check_bounds(named("layer_norm", {{"m", 9}, {"n", 70}}), 6);
    check_bounds(named("attention", {{"heads", 2}, {"s", 20}, {"t", 33}, {"d", 16}}), 6);
}

TEST_CASE("every op of the registry has a space whose default is legal") {
    for (const ops::Operator &o : ops::registry()) {
        CAPTURE(o.name);
        Json parameters = Json::object();
        for (const ops::Parameter &p : o.parameters) {
            if (p.required())
                parameters[p.name] = p.name == "order" ? Json({2, 0, 1}) : p.is_list() ? Json({8, 12, 24}) : Json(24);
        }
        const Op op = ops::make(o.name, parameters);
        const auto space = auto_space(op, Machine::host());
        CHECK_EQ(space->reason_against(space->default_point()), "");
        CHECK_NOTHROW(space->schedule(space->default_point()));
    }
}

TEST_CASE("the default is legal where stages cannot be held by the last one's loops") {
    Axis h("h", 3), i("i", 40), j("j", 40), d("d", 16), f("f", 24);
    Tensor Q = input("Q", f32, {h, i, d}), K = input("K", f32, {h, j, d}), V = input("V", f32, {h, j, d});
    Tensor score = compute("score", {h, i, j}, select(j <= i, sum(Q(h, i, d) * K(h, j, d), d), -1e30f));
    Tensor top = compute("top", {h, i}, maximum(score(h, i, j), j));
    Tensor p = compute("p", {h, i, j}, exp(score(h, i, j) - top(h, i)));
    Tensor whole = compute("whole", {h, i}, sum(p(h, i, j), j));
    const Op attention("causal", {Q, K, V}, {compute("Y", {h, i, d}, sum(p(h, i, j) * V(h, j, d), j) / whole(h, i))});
    Tensor X = input("X", f32, {i, f}), S = input("S", f32, {i, d}), W = input("W", f32, {f, d}),
           U = input("U", f32, {d, Axis("e", 16)});
    Axis e("e", 16);
    Tensor gate = compute("gate", {i, d}, sigmoid(sum(X(i, f) * W(f, d), f) + sum(S(i, e) * U(e, d), e)));
    Tensor fresh = compute("fresh", {i, d}, tanh(sum(X(i, f) * W(f, d), f) + sum(gate(i, e) * S(i, e) * U(e, d), e)));
    const Op cell("cell", {X, S, W, U},
                  {compute("H", {i, d}, gate(i, d) * S(i, d) + (1.f - gate(i, d)) * fresh(i, d))});
    Axis t("t", 33), u("u", 33);
    Tensor R = input("R", f32, {i, t}), c = input("c", f32, {t, u}), z = input("z", f32, {t, u});
    Tensor re = compute("re", {i, u}, sum(R(i, t) * c(t, u), t)), im = compute("im", {i, u}, sum(R(i, t) * z(t, u), t));
    Axis b("b", 8);
    Tensor power = compute("power", {i, u}, square(re(i, u)) + square(im(i, u))), bank = input("bank", f32, {u, b});
    const Op spectrum("spectrum", {R, c, z, bank}, {compute("M", {i, b}, log(sum(power(i, u) * bank(u, b), u) + 1.f))});
    for (const Op *op : {&attention, &cell, &spectrum}) {
        CAPTURE(op->name());
        const auto space = auto_space(*op, Machine::host());
        CHECK_EQ(space->reason_against(space->default_point()), "");
        CHECK_NOTHROW(space->schedule(space->default_point()));
        check_bounds(*op, 1);
    }
}

TEST_CASE("rules decide what directives and parameters leave open") {
    const Op op = two_products(40, 70, 30);
    const auto space = auto_space(op, Machine::named("x86-64-avx2"));
    const Point begin = space->default_point();
    const std::string rules = space->schedule(begin).nest();
    Json point = space->to_json(begin);
    for (const char *name : {"hold", "A.loops", "B.loops", "A.at"}) CHECK_EQ(point[name], "rules");
    REQUIRE_EQ(space->starts().size(), 1);
    CHECK_EQ(space->to_json(space->starts()[0])["A.loops"], "sketch");
    for (const auto &[what, value] : std::vector<std::pair<std::string, Json>>{{"A.tile_i", 1}, {"hold_block", 4}}) {
        Json other = point;
        other[what] = value; // of loops that the rules make
        CHECK_EQ(space->schedule(space->from_json(other)).nest(), rules);
    }
    for (const Point &p : space->neighbours(begin)) {
        const Json changed = space->to_json(p);
        CHECK_EQ(changed["A.tile_i"], point["A.tile_i"]);
        CHECK_EQ(changed["hold_block"], point["hold_block"]);
    }
    point["A.loops"] = "sketch", point["A.tile_i"] = 2, point["A.tile_j"] = 1;
    const Schedule s = space->schedule(space->from_json(point));
    CHECK_NE(s.state().find("A")->order, space->schedule(begin).state().find("A")->order);
    CHECK_EQ(s.state().find("B")->order, space->schedule(begin).state().find("B")->order);
    check_bits(op, 20);
}

TEST_CASE("a library schedule is a point of the space without further decisions") {
    const Op op = named("softmax", {{"m", 9}, {"n", 100}});
    const LibraryTemplate *rows = library::find_template(op);
    const auto space = auto_space(op, Machine::host(), rows), plain = rows->make_space(op, Machine::host());
    CHECK_EQ(space->schedule(space->default_point()).nest(), plain->schedule(plain->default_point()).nest());
    CHECK_EQ(space->to_json(space->default_point())["schedule"], "rows");
    const std::vector<Point> starts = space->starts();
    REQUIRE_EQ(starts.size(), 2);
    for (const Point &start : starts) CHECK_EQ(space->to_json(start)["schedule"], "sketches");
    CHECK_EQ(space->neighbours(space->default_point()), std::vector<Point>{starts[0]});
    const library::ElementwiseParameters rules = library::elementwise_parameters(op, Machine::host());
    CHECK_EQ(space->schedule(starts[1]).nest(), library::schedule_elementwise(op, Machine::host(), rules).nest());
    Point other = space->default_point();
    other.back() ^= 1;
    CHECK_EQ(space->reason_against(other), "the library's schedule has no decisions");
}

TEST_CASE("whatever is decided is a schedule or refused") {
    for (const Op &op : {named("attention", {{"heads", 3}, {"s", 20}, {"t", 30}, {"d", 16}}),
                         named("group_norm", {{"c", 8}, {"h", 6}, {"w", 7}, {"groups", 2}})}) {
        const auto space = auto_space(op, Machine::named("x86-64-avx2"));
        Random random(11);
        int legal = 0;
        for (int n = 0; n < 150; n++) {
            const Point point = space->sample(random);
            CAPTURE(space->text(point));
            try {
                const Schedule s = space->schedule(point);
                legal++;
            } catch (const UserError &) {
            } catch (const Unsupported &) {
            }
        }
        CHECK(legal > 75); // most points without a reason against them
    }
}

TEST_CASE("parameters are named after stages, and bad combinations are rejected with a reason") {
    const auto space = auto_space(named("matmul", {{"m", 512}, {"n", 512}, {"k", 512}}), Machine::named("x86-64-avx2"));
    Json point = space->to_json(space->default_point());
    REQUIRE(point.contains("C.tile_i"));
    point["C.tile_i"] = 12;
    point["C.tile_j"] = 8;
    CHECK_EQ(space->reason_against(space->from_json(point)), "more accumulators than registers");
    CHECK(space->size() > 100000);
    CHECK(auto_space(squared_distances(8, 8, 8), machine_named("chip:small"))->size() > 1000);
}
