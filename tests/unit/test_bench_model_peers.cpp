// Peers' times of layers, assigned to the steps of our programs.
// Links: bench graph/build
// Levels: no
#include "bench/model_peers.h"
#include "graph/build/compiled_model.h"

#include <doctest/doctest.h>

using namespace kumiko;
using namespace kumiko::bench;

TEST_CASE("a peer's layers belong to the steps with their nodes, or with the readers of these") {
    const graph::Model model = graph::Model::parse_text(
        "<ir_version: 10, opset_import: [\"\" : 21]> g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) "
        "<float[2, 2, 1, 1] w = {1, 2, 3, 4}, float[2, 1, 1] k = {2, 3}> "
        "{ a = Conv(x, w) b = Mul(a, k) c = Relu(b) d = Conv(c, w) y = Sigmoid(d) }",
        "m");
    const graph::CompileModelOptions options;
    const graph::Program program = graph::make_program(graph::make_graph(model, options), options.groups);
    REQUIRE_EQ(program.steps.size(), 2); // the Mul is in the weights
    const std::vector<double> seconds = seconds_of_steps({{{"a_nchwc"}, 1},
                                                          {{"b"}, 2},
                                                          {{"Fused", "c/fused"}, 4},
                                                          {{"d"}, 8},
                                                          {{"y:0", "a"}, 16},
                                                          {{"x_reorder"}, 32},
                                                          {{"Reorder", "Copy"}, 64},
                                                          {{}, 128}},
                                                         model.graph(), program);
    CHECK_EQ(seconds, std::vector<double>{1 + 2 + 4 + 32, 8 + 16, 64 + 128});
}
