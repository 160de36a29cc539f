// Graphs of ONNX operators compute what ops of the suite own-ops do: each result is compared with
// `interpret`, at small sizes.
// Links: bench
// Levels: no
// Sanitized: no
#include "bench/own_ops/onnx.h"
#include "bench/own_ops_suite.h"
#include "dsl/interpret.h"
#include "support/error.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace kumiko;
using namespace kumiko::bench;

namespace {

constexpr int64_t small = 16;

// The op with sizes of 16 to 31, of which those that were multiples of 16 are 16, and with indices
// that such sizes have.
OwnOp shrunk(OwnOp own) {
    for (auto &[name, n] : own.sizes) n = n <= small ? n : small + n % small;
    for (const Input &in : own.op().inputs()) {
        if (in.type == Int(32)) own.ranges[in.name] = {0, static_cast<double>(small)};
    }
    return own;
}

const OwnOp &named(const std::string &name) {
    const auto found = std::find_if(own_ops().begin(), own_ops().end(), [&](const OwnOp &o) { return o.name == name; });
    REQUIRE_MESSAGE(found != own_ops().end(), name);
    return *found;
}

std::vector<Buffer<>> results(OnnxSession &session, const Op &op) {
    std::vector<Buffer<>> outputs;
    std::vector<void *> arrays;
    for (const std::string &out : op.outputs()) {
        outputs.push_back(make_output(op, out, {}));
        fill_unwritten(outputs.back());
        arrays.push_back(outputs.back().data());
    }
    session.run(0);
    session.collect(arrays);
    return outputs;
}

} // namespace

TEST_CASE("graphs of ONNX compute what the ops do") {
    const std::vector<std::string> names = ops_with_onnx_graph();
    CHECK_GE(names.size(), 50);
    const Machine host = Machine::host();
    const auto process = std::make_shared<PythonPeer>(PythonPeer::Library::OnnxRuntime);
    if (!process->reason().empty()) {
        MESSAGE("left out: " << process->reason());
        return;
    }
    for (const std::string &name : names) {
        CAPTURE(name);
        const OwnOp own = shrunk(named(name));
        CHECK(has_onnx_graph(own));
        // On AVX2 without VNNI, ONNX Runtime adds pairs of products of bytes in 16 bits, which
        // saturate.
        if (name == "product_zero_points" && !host.has("avx512_vnni") && !host.has("avx_vnni")) continue;
        const Op op = own.op();
        const std::vector<Buffer<>> inputs = make_inputs(own, op);
        std::shared_ptr<OnnxSession> session;
        REQUIRE_NOTHROW(session = make_onnx_session(process, own, op, inputs));
        const std::vector<Buffer<>> outputs = results(*session, op);
        CHECK_NOTHROW(check_same(own, outputs, interpret(op, inputs)));
        CHECK_GT(session->run(3, OnnxSession::Clock::Processor), 0);
    }
}

TEST_CASE("a graph that ONNX Runtime refuses has its words, and an op without a graph is a bug") {
    const auto process = std::make_shared<PythonPeer>(PythonPeer::Library::OnnxRuntime);
    const OwnOp &without = named("histogram");
    CHECK_FALSE(has_onnx_graph(without));
    const Op op = without.op();
    const std::vector<Buffer<>> inputs = make_inputs(without, op);
    CHECK_THROWS_AS(make_onnx_session(process, without, op, inputs), InternalError);
    if (!process->reason().empty()) {
        MESSAGE("left out: " << process->reason());
        return;
    }
    OnnxGraph graph;
    const OnnxName x = graph.numbers("f32", 1, {});
    const OnnxSession session(process, graph, {{graph.node("NoSuchOperator", {x}), Dtype::F32, {}}}, 1);
    CHECK_NE(session.refusal().find("NoSuchOperator"), std::string::npos);
}

TEST_CASE("rows of the suite have ONNX Runtime's time, or the reason why not") {
    BenchOptions options;
    options.budget_seconds = 0.01;
    const std::vector<OwnOpRow> rows = run_own_ops_suite(Target::host(), options, {.only = "top1"});
    REQUIRE_EQ(rows.size(), 1);
    CHECK_EQ(rows[0].failure, "");
    const std::string text = own_ops_suite_text(rows);
    if (PythonPeer(PythonPeer::Library::OnnxRuntime).reason().empty()) {
        CHECK_GT(rows[0].default_to_onnxruntime, 0);
        CHECK_NE(text.find("default relative to ONNX Runtime: geometric mean"), std::string::npos);
        CHECK(rows[0].json().contains("onnxruntime_ms"));
    } else {
        CHECK_NE(text.find("without ONNX Runtime: "), std::string::npos);
        CHECK(rows[0].json().contains("no_onnxruntime"));
    }
    options.peers = false;
    const OwnOpRow alone = run_own_ops_suite(Target::host(), options, {.only = "top1"})[0];
    CHECK_EQ(alone.onnxruntime, 0);
    CHECK_EQ(alone.no_onnxruntime, "");
    // One line for all ops that have the same reason.
    OwnOpRow without;
    without.no_onnxruntime = "it is not there";
    const std::string twice = own_ops_suite_text({without, without});
    CHECK_EQ(twice.find("it is not there"), twice.rfind("it is not there"));
}

TEST_CASE("a peer with other results than interpret has no figure, and the op does not fail") {
    BenchOptions options;
    options.budget_seconds = 0.01;
    const std::vector<OwnOpRow> rows = run_own_ops_suite(Target::host(), options, {.only = "product_zero_points"});
    REQUIRE_EQ(rows.size(), 1);
    CHECK_EQ(rows[0].failure, "");
    CHECK_GT(rows[0].plain_default, 0);
    if (rows[0].onnxruntime > 0) return; // on processors with VNNI
    if (!PythonPeer(PythonPeer::Library::OnnxRuntime).reason().empty()) return;
    CHECK_NE(own_ops_suite_text(rows).find("without ONNX Runtime: product_zero_points has other results there"),
             std::string::npos);
}
