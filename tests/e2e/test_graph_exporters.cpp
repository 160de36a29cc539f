// The examples of docs/models.md that export models from other frameworks. Cases whose Python
// packages are missing are skipped; ./run setup does not install these.
// Links: graph/build
// Levels: no
#include "dsl/npy.h"
#include "tests/e2e/shell.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace kumiko;
using namespace kumiko::e2e;

namespace {

// The first example in Python below the heading.
std::string example(const std::string &heading) {
    const std::string page = read(KUMIKO_SOURCE_DIR "/docs/models.md");
    const size_t at = page.find("\n### " + heading + "\n"), begin = page.find("```python\n", at) + 10;
    REQUIRE(at != std::string::npos);
    return page.substr(begin, page.find("```\n", begin) - begin);
}

bool has_modules(const std::string &modules) {
    std::string text;
    if (run("python3 -c 'import " + modules + "'", text) == 0) return true;
    MESSAGE("skipped: python3 has no ", modules);
    return false;
}

void check_example(const std::string &heading, const std::string &name, const std::string &output) {
    const std::filesystem::path folder = scratch("graph_exporters", name);
    std::ofstream(folder / "export.py") << example(heading);
    const std::string in = "cd " + folder.string() + " && ";
    must_run(in + "python3 export.py");
    must_run(in + KUMIKO_BINARY_DIR "/kumiko run net.onnx --input x.npy --output " + output + "y.npy");
    const Buffer<float> y(load_npy((folder / "y.npy").string())),
        expected(load_npy((folder / "expected.npy").string()));
    REQUIRE_EQ(y.extents(), expected.extents());
    REQUIRE_EQ(y.rank(), 2);
    for (int64_t i = 0; i < y.extent(0); i++) {
        for (int64_t j = 0; j < y.extent(1); j++) CHECK_LT(std::abs(y(i, j) - expected(i, j)), 1e-4);
    }
}

} // namespace

TEST_CASE("a model of PyTorch") {
    if (has_modules("torch, onnxscript, numpy")) check_example("PyTorch", "pytorch", "");
}

TEST_CASE("a model of scikit-learn") {
    if (has_modules("skl2onnx, sklearn, numpy")) check_example("scikit-learn", "sklearn", "probabilities=");
}
