// Building blocks of rows with functions: exp of a difference to a maximum, and prefetches for the
// next row.
// Links: driver
#include "driver/default_schedule.h"
#include "dsl/buffer_elements.h"
#include "ops/ops.h"
#include "ops/registry.h"
#include "schedules/library/attention.h"
#include "schedules/library/rows.h"
#include "schedules/primitive.h"
#include "tests/unit/check_runs.h"

#include <cmath>

using namespace kumiko;

namespace {

// Y(i, j) = exp(X(i, j + shift) - the maximum of columns [0, most) of row i of Z).
Op shifted_exp(int width, int most, int shift, bool other = false) {
    Axis i("i", 5), j("j", 12), k("k", most), all("c", width);
    Tensor X = input("X", Float(32), {i, all}), Z = input("Z", Float(32), {i, all});
    Tensor top = compute("max", {i}, maximum(X(i, k), k));
    return Op("e", {X, Z}, {compute("Y", {i, j}, exp((other ? Z : X)(i, j + shift) - top(i)) + Z(i, j))});
}

// Within the error bound of the formula's rounding, on inputs of one number each; on random inputs
// if there is none.
void check_near(const Schedule &s, const std::vector<float> &filled = {}) {
    const Op &op = s.op();
    const Kernel k = compile(s);
    std::vector<Buffer<>> inputs;
    for (const Input &in : op.inputs()) {
        inputs.push_back(make_input(in, {}));
        const float low = filled.empty() ? -8 : filled[inputs.size() - 1];
        fill_random(inputs.back(), inputs.size(), low, filled.empty() ? 8 : low);
    }
    std::vector<Buffer<>> arrays = inputs;
    for (const std::string &out : op.outputs()) arrays.push_back(make_output(op, out, {}));
    k(arrays);
    const Bounded meant = interpret_with_bound(op, inputs);
    for (size_t o = 0; o < meant.values.size(); o++)
        check_within(arrays[inputs.size() + o], meant.values[o], meant.bounds[o]);
}

bool nonpositive(const Schedule &s) { return body_of(s).find("exp_nonpositive_f32") != std::string::npos; }

std::string told(const std::function<void()> &f) { return refusal(f); }

} // namespace

TEST_CASE("exp of a difference from its own maximum is recognised, and no other difference") {
    CHECK(nonpositive(Schedule(ops::softmax(Float(32), 7, 40))));
    CHECK(nonpositive(
        library::schedule_rows(ops::log_softmax(Float(32), 7, 40), Machine::host(),
                               library::rows_parameters(ops::log_softmax(Float(32), 7, 40), Machine::host()))));
    CHECK(nonpositive(Schedule(ops::softmax(Float(16), 7, 40)))); // behind casts
    // Of stages computed from a tensor's elements.
    for (bool causal : {false, true}) {
        const Json shape = {{"heads", 2}, {"s", 9}, {"t", 9}, {"d", 4}, {"causal", causal}};
        const Op op = ops::make("attention", ops::complete_parameters(ops::find_operator("attention"), shape));
        CHECK(nonpositive(Schedule(op)));
    }
    CHECK(nonpositive(Schedule(shifted_exp(12, 12, 0))));
    CHECK(nonpositive(Schedule(shifted_exp(20, 20, 3))));
    // Beyond the elements of which it is the maximum.
    CHECK_FALSE(nonpositive(Schedule(shifted_exp(20, 12, 3))));
    CHECK_FALSE(nonpositive(Schedule(shifted_exp(12, 12, 0, true))));
    Axis i("i", 5), j("j", 12), k("k", 12);
    Tensor X = input("X", Float(32), {i, j}), N = input("N", Int(32), {i, j});
    const Tensor padded = zero_padded(X), wrapped = compute("top", {i}, maximum(N(i, k), k));
    const auto whole = [](const Expr &e) { return cast(Float(32), cast(Int(8), e)); };
    const Schedule beyond( // the zero beside the row is none of the maximum's terms
        Op("e", {X}, {compute("Y", {i, j}, exp(padded(i, j - 1) - compute("top", {i}, maximum(padded(i, k), k))(i)))}));
    CHECK_FALSE(nonpositive(beyond));
    check_near(beyond, {-80});
    const Schedule wraps(Op("e", {N}, {compute("Y", {i, j}, exp(whole(N(i, j)) - whole(wrapped(i))))}));
    CHECK_FALSE(nonpositive(wraps));
    Schedule copied(shifted_exp(12, 12, 0));
    copied.place_in("X", "L1", "Y", "i");
    CHECK(nonpositive(copied));
    check_near(copied);
}

TEST_CASE("the greatest of products, however great, has no distance from itself") {
    for (const char *type : {"f32", "f64", "f16"}) {
        const Type t = type == std::string("f64") ? f64 : f32;
        for (const auto &[s, keys, d] : {std::tuple(8, 8, 8), std::tuple(16, 37, 8), std::tuple(5, 64, 40)}) {
            CAPTURE(type + std::to_string(s));
            const Json shape = {{"s", s}, {"t", keys}, {"d", d}, {"type", type}};
            const Op op = ops::make("attention", ops::complete_parameters(ops::find_operator("attention"), shape));
            std::vector<Buffer<>> arrays;
            for (const Input &in : op.inputs()) {
                arrays.push_back(make_input(in, {}));
                fill_random(arrays.back(), arrays.size(), -1, 1);
                if (in.name != "K") continue;
                for_each_element(arrays.back().raw_buffer(), [&](const auto &, uint8_t *p) {
                    const double v = read_element(in.type, p);
                    write_element(in.type, p, v * (in.type == f16 ? 3e4 : t == f64 ? 1e30 : 3e12));
                });
            }
            std::vector<Buffer<>> meant = arrays;
            arrays.push_back(make_output(op, op.outputs()[0], {}));
            meant.push_back(make_output(op, op.outputs()[0], {}));
            interpret(op, meant);
            for (const Schedule &each : {Schedule(op), default_schedule(op, Machine::host())}) {
                compile(each)(arrays);
                const Buffer<> &got = arrays.back();
                double worst = 0;
                for (size_t at = 0; at < got.number_of_elements(); at++) {
                    const auto value = [&](const Buffer<> &of) {
                        return read_element(of.type(),
                                            static_cast<uint8_t *>(of.data()) + at * size_t(of.type().bytes()));
                    };
                    const double distance = std::abs(value(got) - value(meant.back()));
                    worst = std::isfinite(distance) ? std::max(worst, distance) : INFINITY;
                }
                CHECK(worst < 1e-2);
            }
        }
    }
}

TEST_CASE("1 + erf is one function, and another sum is none") {
    Axis i("i", 40);
    Tensor X = input("X", Float(32), {i});
    const auto body = [&](const Expr &e) {
        const Schedule s(Op("f", {X}, {compute("Y", {i}, e)}));
        check_near(s);
        return body_of(s);
    };
    const char *const one = "one_plus_erf_f32";
    CHECK(body(1 + erf(X(i))).find(one) != std::string::npos);
    CHECK(body(X(i) * (erf(X(i) / 2) + 1)).find(one) != std::string::npos);
    CHECK(body(2 + erf(X(i))).find(one) == std::string::npos);
    CHECK(body(erf(X(i))).find(one) == std::string::npos);
}

TEST_CASE("values far above the maximum of other rows") {
    const Op op = shifted_exp(12, 12, 0, true);
    Schedule s(op);
    s.stage("Y").vectorize("j", 4);
    check_near(s, {-80, 8});
}

TEST_CASE("attention of queries and keys that no block divides has a last block without tests inside") {
    for (bool causal : {false, true}) {
        const Json shape = {{"heads", 3}, {"s", 37}, {"t", 45}, {"d", 16}, {"causal", causal}};
        const Op op = ops::make("attention", ops::complete_parameters(ops::find_operator("attention"), shape));
        const Machine machine = Machine::named("x86-64-avx2");
        for (bool online : {false, true}) {
            library::AttentionParameters p = library::attention_parameters(op, machine);
            p.rows = Tile(16, {16}), p.keys = Tile(6, {6}), p.online = Flag(online), p.parallel = Flag(false);
            const Schedule s = library::schedule_attention(op, machine, p);
            CHECK(s.nest().find("peel first 0, last 1") != std::string::npos);
            const std::string body = body_of(s);
            if (!online) CHECK(body.find("if (score") == std::string::npos);
            check_near(s);
        }
    }
}

TEST_CASE("the reads of the next row are prefetched, and in the last row its own") {
    const Op op = ops::softmax(Float(32), 6, 40);
    Schedule s(op);
    s.stage("share").compute_at("Y", "i");
    s.stage("sum").compute_at("Y", "i");
    s.stage("e").compute_at("Y", "i");
    s.stage("max").compute_at("Y", "i");
    auto e = s.stage("e");
    auto [o, in] = e.split("j", 8);
    e.vectorize(in).prefetch("X", o, 1, "Y", "i");
    CHECK(s.nest().find("prefetch X 1 ahead of Y.i") != std::string::npos);
    const std::string body = body_of(s);
    INFO(body);
    CHECK(body.find("kumiko.prefetch(\"X\"") != std::string::npos);
    CHECK(body.find("min(Y.i, 4)*5)") != std::string::npos); // not beyond row 5
    check_near(s);
    for (bool fetch : {false, true}) {
        for (const Op &rows : {ops::softmax(Float(32), 9, 300), ops::log_softmax(Float(32), 9, 300)}) {
            library::RowsParameters p = library::rows_parameters(rows, Machine::host());
            p.prefetch = Flag(fetch);
            const Schedule r = library::schedule_rows(rows, Machine::host(), p);
            CHECK((body_of(r).find("kumiko.prefetch") != std::string::npos) == fetch);
            check_near(r);
        }
    }
    Schedule peeled = s;
    peeled.stage("Y").peel("i", 1, 1);
    check_near(peeled);
}

TEST_CASE("norms prefetch the next row while they read this one again") {
    const auto nest = [](const Op &op) {
        library::RowsParameters p = library::rows_parameters(op, Machine::host());
        p.prefetch = Flag(true);
        const Schedule s = library::schedule_rows(op, Machine::host(), p);
        check_near(s);
        return std::string(s.nest());
    };
    const std::string twice = nest(ops::layer_norm(Float(32), 40, 300));
    CHECK(twice.find("prefetch X 1 ahead of Y.i") > twice.find("compute variance"));
    CHECK(twice.find("prefetch X 1 ahead of Y.i") != std::string::npos);
    Axis i("i", 40), k("k", 300), h("h", 300);
    Tensor X = input("X", Float(32), {i, k});
    Tensor mean = compute("mean", {i}, sum(X(i, h), h) / 300);
    const Expr distance = X(i, k) - mean(i);
    const Op variance("variance", {X}, {compute("Y", {i}, sum(distance * distance, k))});
    CHECK(nest(variance).find("prefetch X 1 ahead of Y.i") != std::string::npos);

    const Op once = ops::rms_norm(Float(32), 40, 300);
    CHECK(nest(once).find("prefetch") == std::string::npos);
    CHECK(library::rows_parameters(once, Machine::host()).prefetch.legal() == std::vector<bool>{false});
}

TEST_CASE("a stage prefetches what later iterations of its own outer loop read") {
    Axis i("i", 40), j("j", 48);
    Tensor X = input("X", Float(32), {i, j});
    Schedule s(Op("turned", {X}, {compute("Y", {j, i}, X(i, j))}));
    auto Y = s.stage("Y");
    auto [jo, ji] = Y.split("j", 8);
    auto [io, ii] = Y.split("i", 8);
    Y.reorder({jo, io, ji, ii}).prefetch("X", io, 2, "Y", jo);
    CHECK(s.nest().find("prefetch X 2 ahead of Y.j.o") != std::string::npos);
    const std::string body = body_of(s);
    INFO(body);
    CHECK(body.find("min(Y.j.o, 3)") != std::string::npos); // not beyond the last
    check_near(s);
    CHECK(told([&] { Y.prefetch("X", jo, 1, "Y", io); }).find("is not outside of loop j.o") != std::string::npos);
    CHECK(told([&] { Y.prefetch("X", io, 1, "Y", "k"); }).find("loop k of stage Y no longer exists") !=
          std::string::npos);
    const std::string turned = told([&] { // once it is said, the loop stays outside
        Y.reorder({io, jo, ji, ii});
        lower(s);
    });
    INFO(turned);
    CHECK(turned.find("is not outside") != std::string::npos);
}

TEST_CASE("distances in iterations of loops that do not stand around") {
    const Op op = ops::softmax(Float(32), 6, 40);
    const auto refused = [&](const std::string &why, const std::function<void(Schedule &)> &before) {
        Schedule s(op);
        const std::string text = told([&] {
            before(s);
            s.stage("e").prefetch("X", "j", 1, "Y", "i");
            lower(s);
        });
        CHECK(text.find(why) != std::string::npos);
        INFO(text);
    };
    refused("e is not computed in the loops of Y", [](Schedule &) {});
    refused("loop i of stage Y no longer exists", [](Schedule &s) {
        s.stage("Y").split("i", 2);
        s.stage("share").compute_at("Y", "i.i"), s.stage("sum").compute_at("Y", "i.i");
        s.stage("e").compute_at("Y", "i.i");
    });
    const auto with_e = [](Schedule &s) {
        s.stage("share").compute_at("Y", "i"), s.stage("sum").compute_at("Y", "i"), s.stage("e").compute_at("Y", "i");
    };
    Schedule s(op);
    with_e(s);
    s.stage("max").compute_at("Y", "i");
    CHECK(told([&] { s.stage("e").prefetch("max", "j", 1, "Y", "i"); }).find("max is not computed at the root") !=
          std::string::npos);
    CHECK(told([&] {
              s.apply({"prefetch", {{"stage", "e"}, {"tensor", "X"}, {"loop", "j"}, {"distance", 1}, {"of", "i"}}});
          }).find("only one of \"consumer\" and \"of\" is given") != std::string::npos);
    s.stage("e").prefetch("X", "j", 1, "Y", "i");
    CHECK(told([&] {
              s.stage("Y").split("i", 2);
              lower(s);
          }).find("loop i of stage Y no longer exists") != std::string::npos);
}

TEST_CASE("rows in pieces are reduced piece by piece, many rows together") {
    const auto schedule = [](const std::vector<int64_t> &shape, const std::vector<int64_t> &axes, bool parallel) {
        const Op op =
            ops::make("reduce", ops::complete_parameters(ops::find_operator("reduce"),
                                                         {{"shape", shape}, {"axes", axes}, {"type", "i32"}}));
        library::RowsParameters p = library::rows_parameters(op, Machine::host());
        p.parallel = Flag(parallel);
        return library::schedule_rows(op, Machine::host(), p);
    };
    for (const bool parallel : {false, true}) {
        for (const int64_t n : {1, 7, 16, 37}) {
            check_runs(schedule({5, n, 200}, {0, 2}, parallel));
            check_runs(schedule({3, 2, n, 71}, {0, 3}, parallel));
            check_runs(schedule({2, 3, n, 4, 130}, {0, 3, 4}, parallel));
            check_runs(schedule({n, 3, 2, 5, 5}, {1, 3, 4}, parallel));
        }
    }
    const std::string nest = schedule({5, 40, 200}, {0, 2}, false).nest();
    CHECK(nest.find("for i0 in 0..5 (reduction)\n        for i1 in") != std::string::npos);
}
