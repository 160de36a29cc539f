// Models timed beside their peers: the suite models.
// Links: bench
// Levels: no
#include "bench/model_suite.h"
#include "bench/python_peer.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::bench;

TEST_CASE("peers compute outputs whose sizes depend on data") {
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "m.onnx").string();
    graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                             "g (float[16, 16] x) => (float[16, 16] y, int64[2, n] at)\n"
                             "{ y = Relu(x) at = NonZero(y) }",
                             "text")
        .save(file);
    BenchOptions options;
    options.budget_seconds = 0.01;
    const ModelBenchRow row = bench_model({"m", file, {}}, 1, options);
    REQUIRE_EQ(row.peers.size(), 2);
    const PythonPeer::Library libraries[] = {PythonPeer::Library::OnnxRuntime, PythonPeer::Library::OpenVino};
    for (size_t n = 0; n < 2; n++) {
        const ModelPeerTime &p = row.peers[n];
        CAPTURE(p.name);
        const std::string missing = PythonPeer(libraries[n]).reason();
        CHECK_EQ(p.not_measured, missing);
        if (missing.empty()) CHECK_GT(p.seconds, 0);
    }
}
