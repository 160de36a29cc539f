// Stages of models, written as files, have the same results in ONNX Runtime.
// Links: graph/rules graph/build
#include "dsl/npy.h"
#include "graph/build/stages.h"
#include "graph/eval/evaluate.h"
#include "graph/rules/rules.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

constexpr const char *script = R"(
import glob, sys
sys.path.insert(0, sys.argv[1])
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 3
for file in sorted(glob.glob("*.onnx")):
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    inputs = {i.name: numpy.load(f"{file}.in{n}.npy") for n, i in enumerate(session.get_inputs())}
    for n, output in enumerate(session.run(None, inputs)):
        numpy.save(f"{file}.out{n}.npy", output)
)";

} // namespace

TEST_CASE("the example of each rule runs in ONNX Runtime before and after, with our results") {
    const std::string packages = KUMIKO_SOURCE_DIR "/.deps/python";
    if (!std::filesystem::exists(packages + "/onnxruntime")) {
        MESSAGE("left out: ONNX Runtime is not in .deps/python; ./run setup installs it");
        return;
    }
    const TemporaryFolder folder;
    std::map<std::string, std::vector<Buffer<>>> expected;
    for (const Rule &rule : all_rules()) {
        FixedGraph graph =
            fix_sizes(Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]> g " + rule.before, rule.name));
        std::vector<Buffer<>> inputs;
        for (const std::string &i : graph.inputs)
            inputs.push_back(random_buffer(graph.value(i).type, graph.value(i).extents, 1 + inputs.size()));
        const std::vector<Buffer<>> results = evaluate(to_model(graph), inputs);
        for (const std::string stage : {"fixed", "simplified", "fused", "planned"}) {
            if (stage == "simplified") simplify(graph, {.rounding = rule.rounding});
            const Model model = stage == "fused"     ? fused_model(graph)
                                : stage == "planned" ? planned_model(graph)
                                                     : to_model(graph);
            model.check();
            const std::string file = (folder.path() / (rule.name + "_" + stage + ".onnx")).string();
            model.save(file);
            for (size_t n = 0; n < inputs.size(); n++) save_npy(fmt::format("{}.in{}.npy", file, n), inputs[n]);
            expected[file] = results;
        }
    }
    std::ofstream(folder.path() / "run.py") << script;
    REQUIRE_EQ(std::system(("cd " + folder.path().string() + " && python3 run.py " + packages).c_str()), 0);
    for (const auto &[file, results] : expected) {
        CAPTURE(file);
        for (size_t n = 0; n < results.size(); n++)
            CHECK_NOTHROW(check_close(load_npy(fmt::format("{}.out{}.npy", file, n)), results[n]));
    }
}
