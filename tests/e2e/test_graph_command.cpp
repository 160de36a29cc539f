// `kumiko show` and `kumiko run` of a model of ONNX.
#include "dsl/npy.h"
#include "dsl/types.h"
#include "graph/onnx/model.h"
#include "support/error.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sys/wait.h>

using namespace kumiko;

namespace {

// Status and both outputs of a command line.
std::pair<int, std::string> run(const TemporaryFolder &folder, const std::string &arguments) {
    const std::string file = (folder.path() / "out").string();
    const int status = std::system(("cd " + folder.path().string() + " && " KUMIKO_BINARY_DIR "/kumiko " + arguments +
                                    " >" + file + " 2>&1 </dev/null")
                                       .c_str());
    std::ifstream in(file);
    return {WEXITSTATUS(status), {std::istreambuf_iterator<char>(in), {}}};
}

void save_model(const TemporaryFolder &folder) {
    graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                             "layer (float[N,3] x, float[2] b) => (float[N,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}>\n"
                             "{ p = MatMul(x, w)  s = Add(p, b)  y = Relu(s) }",
                             "text")
        .save((folder.path() / "m.onnx").string());
}

} // namespace

TEST_CASE("a model is shown with inferred types") {
    const TemporaryFolder folder;
    save_model(folder);
    const auto [status, out] = run(folder, "show m.onnx");
    CHECK_EQ(status, 0);
    CHECK_EQ(out, "graph layer, IR 10, opsets ai.onnx=21\n"
                  "input x: float[N,3]\n"
                  "input b: float[2]\n"
                  "  p: float[N,2] = MatMul(x, w)\n"
                  "  s: float[N,2] = Add(p, b)\n"
                  "  y: float[N,2] = Relu(s)\n"
                  "output y: float[N,2]\n");
}

TEST_CASE("stages of a model are shown and written") {
    const TemporaryFolder folder;
    graph::Model::parse_text(
        "<ir_version: 10, opset_import: [\"\" : 21]>\n"
        "layer (float[N,3] x) => (float[N,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}, float two = {2}>\n"
        "{ p = MatMul(x, w)  s = Mul(p, two)  i = Identity(s)  y = Relu(i) }",
        "text")
        .save((folder.path() / "m.onnx").string());
    CHECK_EQ(run(folder, "show m.onnx --stage fixed --size N=4"),
             std::pair(0, std::string("graph m, IR 10, opsets ai.onnx=21\n"
                                      "input x: float[4,3]\n"
                                      "  p: float[4,2] = MatMul(x, w)\n"
                                      "  s: float[4,2] = Mul(p, two)\n"
                                      "  i: float[4,2] = Identity(s)\n"
                                      "  y: float[4,2] = Relu(i)\n"
                                      "output y: float[4,2]\n")));
    const std::string nodes = "  s: float[4,2] = MatMul(x, w/scaled)\n  y: float[4,2] = Relu(s)\n";
    const auto [status, out] = run(folder, "show m.onnx --stage simplified --size N=4 -o s.onnx");
    CHECK_EQ(status, 0);
    CHECK(out.find("4 nodes become 2; they make 64 bytes instead of 128\n") != std::string::npos);
    CHECK(out.find(nodes) != std::string::npos);
    CHECK(run(folder, "show s.onnx").second.find(nodes) != std::string::npos);
    CHECK(run(folder, "show m.onnx --stage simplified --rounding exact --size N=4").second.find("Mul(p, two)") !=
          std::string::npos);
    CHECK_EQ(run(folder, "show m.onnx --stage fixed").second,
             "kumiko: m.onnx: input x: float[N,3] has an open size \"N\"; give it a number, such as --size N=1\n");
    CHECK_EQ(run(folder, "show m.onnx --stage fixed --size N=x").second,
             "kumiko: --size N=x: expected NAME=N, such as batch=1\n");
    CHECK_EQ(run(folder, "show m.onnx --stage fixed --size N=1 --size N=2").second,
             "kumiko: --size N=2: the size is stated twice\n");
    CHECK_EQ(run(folder, "show m.onnx --stage asm").second,
             "kumiko: a model has no stage \"asm\"; there are: fixed, simplified, fused, planned\n");
    CHECK_EQ(run(folder, "show m.onnx --size N=1").second,
             "kumiko: --size, --constant, --rounding and --output are for a "
             "stage of a model; give --stage fixed, simplified, fused or planned\n");
    CHECK(run(folder, "show m.onnx --stage simplified --rounding near").second.find("exact,close,fast") !=
          std::string::npos);
    CHECK_EQ(run(folder, "show m.onnx --stage fixed --size N=4 --rounding fast").second,
             "kumiko: --rounding chooses rules, and the stage \"fixed\" is before them; legal is --stage simplified\n");
    // The help is of the option that the text begins with, not of the argument "file".
    CHECK(run(folder, "build m.onnx --size N=4 --weights fil").second.find("where a model's weights are") !=
          std::string::npos);
    CHECK_EQ(
        run(folder, "show relu --shape n=8 --stage fixed").second,
        "kumiko: the stages fixed, simplified, fused, planned, --size, --constant, --rounding and --output are for "
        "models (FILE.onnx)\n");
    const std::string fused = run(folder, "show m.onnx --stage fused --size N=4 -o f.onnx").second;
    CHECK(fused.find("  y: float[4,2] = MatMul_Relu_0(x, w/scaled)\n") != std::string::npos);
    CHECK(fused.find("function MatMul_Relu_0(x, w/scaled) => (y)\n  s = MatMul(x, w/scaled)\n  y = Relu(s)\n") !=
          std::string::npos);
    CHECK(run(folder, "show f.onnx").second.find("= MatMul_Relu_0(x, w/scaled)\n") != std::string::npos);
    CHECK(run(folder, "show m.onnx --stage planned --size N=4")
              .second.find("kumiko=1  arena_bound_bytes=0  "
                           "arena_bytes=0\n") != std::string::npos);
    CHECK(run(folder, "show m.onnx --stage planned --size N=4").second.find("  kernel=0  step=0\n") !=
          std::string::npos);
}

TEST_CASE("a model is run on arrays of NumPy") {
    const TemporaryFolder folder;
    save_model(folder);
    Buffer<float> x({2, 3}), b({2});
    for (int n = 0; n < 6; n++) x(n / 3, n % 3) = static_cast<float>(n - 2);
    b(0) = 0.5f, b(1) = -1;
    save_npy((folder.path() / "x.npy").string(), x);
    save_npy((folder.path() / "b.npy").string(), b);
    for (const std::string way : {"", " --interpret"}) {
        const auto [status, out] = run(folder, "run m.onnx --input x.npy --input b=b.npy --output y.npy" + way);
        CAPTURE(out);
        CHECK_EQ(status, 0);
        const Buffer<> y = load_npy((folder.path() / "y.npy").string());
        REQUIRE(y.extents() == std::vector<int64_t>{2, 2});
        const Buffer<float> values(y);
        CHECK_EQ(values(0, 0), 0.f); // −2 − 3 + 0 + 0.5
        CHECK_EQ(values(0, 1), 0.f);
        CHECK_EQ(values(1, 0), 22.5f); // 1 + 6 + 15 + 0.5
        CHECK_EQ(values(1, 1), 27.f);
    }
    CHECK_EQ(run(folder, "run m.onnx --input x.npy").second,
             "kumiko: input b: float[2] has no file; give --input b=FILE.npy\n");
    CHECK_EQ(run(folder, "run m.onnx --input x.npy --input c=b.npy").second,
             "kumiko: the model has no input \"c\"; there are: x, b\n");
    CHECK_EQ(run(folder, "run m.onnx --input b.npy --input b.npy").second,
             "kumiko: m.onnx: input x: float[N,3] is given f32[2]: another number of axes\n");
    CHECK(run(folder, "run matmul --input x.npy").first == 1);
}

TEST_CASE("arrays of NumPy") {
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "a.npy").string();
    for (const Type t : {boolean, i8, u16, i32, i64, f16, f32, f64}) {
        for (const std::vector<int64_t> &extents : {std::vector<int64_t>{}, {0, 3}, {2, 3, 5}}) {
            const Buffer<> a = random_buffer(t, extents, 1);
            save_npy(file, a);
            CHECK_EQ(difference(load_npy(file), a), "");
        }
    }
    CHECK_THROWS_AS(save_npy(file, random_buffer(bf16, {2}, 1)), Unsupported);
    std::ifstream in(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    for (size_t n = 0; n < bytes.size(); n += 7) {
        std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes.substr(0, n);
        CHECK_THROWS_AS(load_npy(file), UserError);
    }
}
