// The suite model-start.
// Links: bench
// Levels: no
#include "bench/model_start.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::bench;

TEST_CASE("a model is built, loaded and timed in a program of its own") {
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "m.onnx").string();
    graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                             "g (float[n, 1000] x, bool[n, 1] mask, int64[2] i) => (float[2, 1000] y)\n"
                             "{ s = Softmax(x) f = Cast<to = 1>(mask) t = Mul(s, f) y = Gather(t, i) }",
                             "text")
        .save(file);
    const ModelStartRow row = measure_model_start({"m", file, {.sizes = {{"n", 2000}}}}, {.peers = false});
    CHECK_EQ(row.name, "m");
    CHECK_GT(row.ready_seconds, 0);
    CHECK_LT(row.ready_seconds, 1);
    CHECK_GT(row.first_seconds, row.warm_seconds * 0.5);
    CHECK_GT(row.warm_seconds, 1e-5);
    CHECK_GT(row.resident_bytes, 2000 * 1000 * 4); // the input
    CHECK_GT(row.file_bytes, 10000);
    CHECK_EQ(row.peer_bytes, 0);
    const std::string text = model_start_text({row}, {.not_measured = "no time"});
    CHECK(text.find("from Python: not measured: no time\n") != std::string::npos);
    CHECK_EQ(row.json().at("case"), "m");
}

TEST_CASE("a call from Python is timed") {
    const PythonCall call = measure_python_call();
    if (!call.not_measured.empty()) {
        MESSAGE("skipped: ", call.not_measured);
        return;
    }
    CHECK_GT(call.numpy_seconds, call.model_seconds);
    CHECK_LT(call.numpy_seconds, 100e-6);
    CHECK_GT(call.tvm_ffi_seconds, 0);
    CHECK_GT(call.first_seconds, call.numpy_seconds);
    CHECK_GT(call.json().at("numpy_us"), 0);
}
