// If, Loop and Scan in programs, whose conditions and counts are data; states between runs.
// Links: graph/build
// Levels: no
#include "graph/build/compiled_model.h"
#include "runtime/kumiko_runtime.h"
#include "tests/unit/control_flow_models.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace kumiko;
using namespace kumiko::graph;
using namespace kumiko::control_flow;

namespace {

std::vector<Buffer<>> run_over_nan(const CompiledModel &compiled, const std::vector<Buffer<>> &inputs) {
    const Program &p = compiled.program();
    std::vector<const void *> from;
    std::vector<void *> to;
    std::vector<Buffer<>> outputs;
    for (const Buffer<> &b : inputs) from.push_back(b.data());
    for (const ProgramTensor &o : p.outputs) {
        outputs.emplace_back(o.type, o.extents);
        std::memset(outputs.back().data(), 0xff, outputs.back().size_in_bytes());
        to.push_back(outputs.back().data());
    }
    const std::unique_ptr<void, void (*)(void *)> arena(kumiko_malloc(size_t(p.arena_bytes) + 64), kumiko_free);
    std::memset(arena.get(), 0xff, size_t(p.arena_bytes) + 64);
    REQUIRE_EQ(compiled.run_raw(from.data(), to.data(), arena.get()), 0);
    for (int n = 0; n < 64; n++) CHECK_EQ(static_cast<uint8_t *>(arena.get())[p.arena_bytes + n], 0xff);
    return outputs;
}

void check_equal(const std::vector<Buffer<>> &made, const std::vector<Buffer<>> &expected) {
    REQUIRE_EQ(made.size(), expected.size());
    for (size_t o = 0; o < made.size(); o++) {
        CAPTURE(o);
        REQUIRE_EQ(made[o].extents(), expected[o].extents());
        CHECK_EQ(std::memcmp(made[o].data(), expected[o].copy().data(), made[o].size_in_bytes()), 0);
    }
}

std::vector<Buffer<>> inputs_of(const Program &p, uint32_t seed) {
    std::vector<Buffer<>> inputs;
    for (const ProgramTensor &t : p.inputs)
        inputs.push_back(input_of(t.type, t.extents, seed + uint32_t(inputs.size())));
    return inputs;
}

// Runs the model as a program, with and without fusion and rules, and node by node, on several
// inputs; the bits agree.
Program check(const Model &m, const CompileModelOptions &given = {}) {
    std::optional<CompiledModel> last;
    for (const bool fuse : {false, true}) {
        CompileModelOptions options = given;
        options.groups.fuse = fuse;
        if (!fuse) options.rules.reset();
        last = CompiledModel::compile(m, options);
        for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
            CAPTURE(seed);
            const std::vector<Buffer<>> inputs = inputs_of(last->program(), seed);
            const std::vector<Buffer<>> expected = evaluate(m, inputs);
            check_equal(last->run(inputs), expected);
            check_equal(run_over_nan(*last, inputs), expected);
        }
    }
    return last->program();
}

std::string refused(const Model &m, const CompileModelOptions &options = {}) {
    return refusal([&] { CompiledModel::compile(m, options); });
}

} // namespace

TEST_CASE("a branch is taken by data, and its results are written in place") {
    const Program p = check(model(
        "(float[4] x, bool c) => (float[4] y)",
        branch("y", "c", "() => (float[4] r) { q = Neg(x) r = Sub(q, x) }", "() => (float[4] r) { r = Abs(x) }")));
    CHECK_EQ(p.steps.size(), 1);
    CHECK_EQ(p.steps[0].kind, Step::Kind::Branch);
    CHECK_EQ(p.arena_bytes, 0);
}

TEST_CASE("results of a branch may be constants, values of the enclosing graph, and equal") {
    check(model("(float[4] x, bool c) => (float[4] a, float[4] b, float[4] d)",
                "z = Neg(x) " + branch("a, b, d", "c", "() => (float[4] z, float[4] x, float[4] k) { }",
                                       "() => (float[4] r, float[4] r, float[4] s) { r = Abs(z) s = Identity(z) }"),
                "float[4] k = {1, 2, 3, 4}"));
}

TEST_CASE("branches and loops are nested") {
    const std::string yes = "() => (float[4] r) { " +
                            branch("r", "d", "() => (float[4] s) { s = Neg(z) }", "() => (float[4] s) { s = Abs(z) }") +
                            "}";
    check(model("(float[4] x, bool c, bool d) => (float[4] y)",
                "z = Sub(x, k) " + branch("y", "c", yes, "() => (float[4] r) { r = Max(z, x) }"),
                "float[4] k = {1, 2, 3, 4}"));
    // The inner loop reads the number of the outer iteration, which no constant is.
    check(model("(float[2, 3] x, int64 n) => (float[2, 3] y)",
                "y = Loop <body = b (int64 i, bool g, float[2, 3] s) => (bool o, float[2, 3] t) { o = Identity(g) "
                "f = Cast<to = 1>(i) t = Loop <body = a (int64 j, bool h, float[2, 3] u) => (bool p, float[2, 3] v) "
                "{ p = Identity(h) e = Cast<to = 1>(j) w = Sub(f, e) v = Sub(w, u) }> (n, , s) }> (n, , x)"));
}

TEST_CASE("a loop whose count is known stacks its rows, and iterations see their number") {
    const Program p = check(model("(float[2, 3] x) => (float[2, 3] y, float[5, 2, 3] r)",
                                  "y, r = Loop <body = b (int64 i, bool g, float[2, 3] s) => (bool o, float[2, 3] t, "
                                  "float[2, 3] q) { o = Identity(g) f = Cast<to = 1>(i) t = Sub(f, s) q = Max(t, x) }> "
                                  "(five, , x)",
                                  "int64 five = {5}"));
    CHECK_EQ(p.steps.size(), 1);
    CHECK_EQ(p.steps[0].loop.trips, 5);
}

TEST_CASE("states are exchanged, kept and set to constants") {
    check(model("(float[3] x, float[3] y, int64 n) => (float[3] a, float[3] b, float[3] d, float[3] e)",
                "a, b, d, e = Loop <body = l (int64 i, bool g, float[3] p, float[3] q, float[3] u, float[3] v) => "
                "(bool g, float[3] q, float[3] p, float[3] u, float[3] k) { }> (n, , x, y, x, y)",
                "float[3] k = {1, 2, 3}"));
}

TEST_CASE("a loop ends by a condition of its iterations") {
    check(model("(float[3] x, bool c) => (float[3] y)",
                "y = Loop <body = l (int64 i, bool g, float[3] s) => (bool o, float[3] t) { t = Sub(s, one) "
                "m = ReduceMax<keepdims = 0>(t) o = Greater(m, low) }> (, c, x)",
                "float one = {1}, float low = {-20}"));
    const Program p =
        check(model("(float[3] x) => (float[3] y)",
                    "y = Loop <body = l (int64 i, bool g, float[3] s) => (bool o, float[3] t) { t = Sub(s, one) "
                    "m = ReduceMax<keepdims = 0>(t) o = Greater(m, low) }> (no_limit, , x)",
                    "int64 no_limit = {9223372036854775807}, float one = {1}, float low = {-20}"));
    CHECK_EQ(p.steps[0].loop.trips, -1);
}

TEST_CASE("shapes that change from one iteration to the next are known if their number is") {
    check(model("(float[3] x) => (float[12] y)",
                "y = Loop <body = l (int64 i, bool g, float[a] s) => (bool g, float[b] t) { t = Concat<axis = 0>(s, x) "
                "}> (three, , x)",
                "int64 three = {3}"));
    CHECK_EQ(refused(model("(float[3] x, int64 n) => (float[a] y)",
                           "y = Loop <body = l (int64 i, bool g, float[a] s) => (bool g, float[b] t) "
                           "{ t = Concat<axis = 0>(s, x) }> (n, , x)")),
             "node Loop of \"y\": its state \"s\" is f32[3] at first and f32[6] after an iteration; supported are "
             "equal types and shapes, or at most 64 iterations whose number is known");
}

TEST_CASE("a scan runs along any axis in both directions") {
    for (const std::string directions :
         {"[0, 0], scan_output_directions = [0, 0]", "[1, 0], scan_output_directions = [0, 1]"}) {
        check(model("(float[2, 5] x, float[5, 2] z, float[2] s) => (float[2] f, float[5, 2] a, float[2, 5] b)",
                    "f, a, b = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_output_axes = [0, -1], "
                    "scan_input_directions = " +
                        directions +
                        ", body = l (float[2] p, float[2] u, float[2] v) => (float[2] q, float[2] g, float[2] h) "
                        "{ q = Sub(u, p) g = Max(q, v) h = Neg(p) }> (s, x, z)"));
    }
}

TEST_CASE("wrong control flow is refused with the node and what is legal") {
    CHECK_EQ(refused(model("(float[3] x) => (float[3] y)",
                           "y = Loop <body = l (int64 i, bool g, float[3] s) => (bool g, float[3] t) { t = Neg(s) }> "
                           "(, , x)")),
             "node Loop of \"y\": it has no end: neither a number of iterations nor a condition that changes; legal is "
             "a loop with one of them");
    CHECK_EQ(refused(model("(float[3] x, bool c) => (float[a] y)",
                           branch("y", "c", "() => (float[3] r) { r = Neg(x) }",
                                  "() => (float[6] r) { r = Concat<axis = 0>(x, x) }"))),
             "node If of \"y\": its condition depends on data, and its branches give \"y\" as f32[3] and f32[6]; "
             "supported are equal types and shapes, or a condition that is the same in all runs of the model");
    CHECK_EQ(refused(model("(float[3] x, float c) => (float[3] y)",
                           branch("y", "c", "() => (float[3] r) { r = Neg(x) }", "() => (float[3] r) { r = Abs(x) }"))),
             "node If of \"y\": its condition or count is f32[]; legal is one element of bool");
    const Model counted = model("(float[3] x, int64 n) => (float[3] y)",
                                "y = Loop <body = l (int64 i, bool g, float[3] s) => (bool g, float[3] t) "
                                "{ t = Neg(s) }> (n, , x)");
    const CompiledModel compiled = CompiledModel::compile(counted, {.bounds = {{"y", 4}}});
    Buffer<float> x({3});
    x.fill(1);
    Buffer<int64_t> n({});
    n() = 4;
    compiled.run({x, n});
    n() = 5;
    CHECK_EQ(refusal([&] {
                 compiled.run({x, n});
             }),
             "m: a kernel failed with code 12: node \"y\" (Loop): data ask for more iterations than its bound; legal "
             "are at most 4");
}

TEST_CASE("states stay from one run to the next, and chunks equal the whole") {
    // A running difference over time.
    const auto scan = [](int steps) {
        return model(fmt::format("(float[{}, 2] x, float[2] s) => (float[{}, 2] y, float[2] sn)", steps, steps),
                     "sn, y = Scan <num_scan_inputs = 1, body = l (float[2] p, float[2] u) => (float[2] q, float[2] g) "
                     "{ q = Sub(u, p) g = Identity(q) }> (s, x)");
    };
    const CompiledModel whole = CompiledModel::compile(scan(12)),
                        part = CompiledModel::compile(scan(3), {.states = {{"s", "sn"}}});
    CHECK_EQ(part.program().inputs.size(), 1);
    CHECK_EQ(part.program().outputs.size(), 1);
    CHECK_EQ(part.program().state_bytes, 64);
    const Buffer<float> x(input_of(f32, {12, 2}, 5));
    Buffer<float> zero({2});
    zero.fill(0);
    const std::vector<Buffer<>> expected = whole.run({x, zero});
    ModelState state = part.new_state();
    for (int again = 0; again < 2; again++) {
        for (int n = 0; n < 4; n++) {
            Buffer<float> chunk({3, 2});
            std::memcpy(chunk.data(), static_cast<const float *>(x.data()) + n * 6, 24);
            const Buffer<> y = part.run({chunk}, state)[0];
            CHECK_EQ(std::memcmp(y.data(), static_cast<const float *>(expected[0].data()) + n * 6, 24), 0);
        }
        CHECK_EQ(std::memcmp(state.value("sn").data(), expected[1].data(), 8), 0);
        state.reset();
    }
}

TEST_CASE("states are found by names, and wrong ones are refused") {
    const Model m = model("(float[2] x, float[2] h, float[2] in_cache, float[3] c, float[2] past_k) => (float[2] y, "
                          "float[2] hn, float[2] out_cache, float[3] d, float[2] present_k)",
                          "y = Neg(x) hn = Abs(h) out_cache = Neg(in_cache) d = Neg(c) present_k = Neg(past_k)");
    CHECK_EQ(find_states(m.graph()), StatePairs{{"h", "hn"}, {"in_cache", "out_cache"}, {"past_k", "present_k"}});
    CHECK_EQ(find_states(model("(float[4] input, float[2] state) => (float[4] output, float[2] stateN)",
                               "output = Neg(input) stateN = Abs(state)")
                             .graph()),
             StatePairs{{"state", "stateN"}});
    // Names of streams, other shapes and other types are no states.
    CHECK(find_states(model("(float[2] input, float[2] audio_in, float[2] x, float[2] h, float[2] cache_in) => "
                            "(float[2] output, float[2] audio_out, float[2] x_out, float[3] h_out, int64[2] cache_out)",
                            "output = Neg(input) audio_out = Neg(audio_in) x_out = Neg(x) h_out = Concat<axis = 0>(h, "
                            "one) cache_out = Cast<to = 7>(cache_in)",
                            "float[1] one = {1}")
                          .graph())
              .empty());
    CHECK_EQ(find_states(
                 model("(float[n, 2] cache_in_0, float[2] \"past_key_values.0.key\", float[2] cnn_cache, float[2] "
                       "output_h, float[2] input_h) => (float[m, 2] cache_out_0, float[2] \"present.0.key\", "
                       "float[2] r_cnn_cache, float[2] y)",
                       "cache_out_0 = Neg(cache_in_0) \"present.0.key\" = Neg(\"past_key_values.0.key\") r_cnn_cache = "
                       "Neg(cnn_cache) y = Add(output_h, input_h)")
                     .graph()),
             StatePairs{{"cache_in_0", "cache_out_0"},
                        {"past_key_values.0.key", "present.0.key"},
                        {"cnn_cache", "r_cnn_cache"}});
    CHECK_EQ(refused(m, {.states = {{"g", "hn"}}}),
             "m has no input \"g\" to be a state; there are: x, h, in_cache, c, past_k");
    CHECK_EQ(refused(m, {.states = {{"h", "hn"}, {"h", "y"}}}), "m: the input \"h\" is in two states");
    CHECK_EQ(refused(m, {.states = {{"h", "d"}}}),
             "m: the state \"h\" is f32[2], and \"d\" is f32[3]; legal are equal types and shapes");
    CHECK_EQ(refusal([&] {
                 CompiledModel::compile(m, {.states = {{"h", "hn"}}}).run({});
             }),
             "m has states; give the run those of new_state()");
}

TEST_CASE("random control flow equals the evaluation node by node") {
    for (uint32_t seed = 0; seed < 40; seed++) {
        CAPTURE(seed);
        check(random_model(seed));
    }
}
