// `kumiko show` and `kumiko run` of a model of ONNX.
#include "dsl/npy.h"
#include "dsl/types.h"
#include "graph/onnx/model.h"
#include "support/error.h"
#include "support/json.h"
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
             "kumiko: --size, --constant, --bound, --rounding and --output are for a "
             "stage of a model; give --stage fixed, simplified, fused or planned, or --report for a page\n");
    CHECK(run(folder, "show m.onnx --stage simplified --rounding near").second.find("exact,close,fast") !=
          std::string::npos);
    CHECK_EQ(run(folder, "show m.onnx --stage fixed --size N=4 --rounding fast").second,
             "kumiko: --rounding chooses rules, and the stage \"fixed\" is before them; legal is --stage simplified\n");
    // The help is of the option that the text begins with, not of the argument "file".
    CHECK(run(folder, "build m.onnx --size N=4 --weights fil").second.find("where a model's weights are") !=
          std::string::npos);
    CHECK_EQ(run(folder, "show relu --shape n=8 --stage fixed").second,
             "kumiko: the stages fixed, simplified, fused, planned, --size, --constant, --bound, --rounding, --output "
             "and --report are for models (FILE.onnx)\n");
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
    for (const std::string way : {"", " --nodes", " --interpret"}) {
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
    CHECK_EQ(run(folder, "run m.onnx --input x.npy --input b.npy --nodes --interpret").second,
             "kumiko: --nodes and --interpret exclude each other\n");
    CHECK_EQ(run(folder, "run m.onnx --input x.npy --input b.npy --nodes --rounding fast").second,
             "kumiko: --rounding chooses rules for the whole model; --nodes and --interpret run its nodes as they "
             "are\n");
}

TEST_CASE("a model whose shapes depend on data is run node by node, on request") {
    const TemporaryFolder folder;
    graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]> g (float[4] x) => (int64[1,1] y) "
                             "{ n = NonZero(x) y = ReduceSum(n) }",
                             "text")
        .save((folder.path() / "m.onnx").string());
    Buffer<float> x({4});
    for (int n = 0; n < 4; n++) x(n) = float(n % 2);
    save_npy((folder.path() / "x.npy").string(), x);
    const auto [status, out] = run(folder, "run m.onnx --input x.npy");
    CHECK_EQ(status, 1);
    CHECK_MESSAGE(out.ends_with("\n  --nodes runs the model node by node, also loops and shapes that depend on data; "
                                "--constant NAME=VALUES compiles it with an input that is the same in all runs\n"),
                  out);
    CHECK(run(folder, "run m.onnx --input x.npy --nodes").second.starts_with("y: i64[1,1]\n"));
    CHECK(run(folder, "run m.onnx --constant x=x.npy").second.starts_with("y: i64[1,1]\n"));
    CHECK_EQ(run(folder, "run m.onnx --constant x=x.npy --input x.npy").second,
             "kumiko: input x is given by --input and --constant; legal is one of them\n");
}

// A float above the range of i32 becomes the largest number here, and the least one in ONNX
// Runtime on x86.
TEST_CASE("the first value that differs from ONNX Runtime's is saved as a test") {
    if (!std::filesystem::exists(KUMIKO_SOURCE_DIR "/.deps/python/onnxruntime")) {
        MESSAGE("skipped: ./run setup fetches ONNX Runtime");
        return;
    }
    const TemporaryFolder folder;
    graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                             "g (float[N,3] x) => (float[N,2] y, int32[N,2] i)\n"
                             "<float[3,2] w = {1, 2, 3, 4, 5, 6}, float big = {1e10}>\n"
                             "{ p = MatMul(x, w)  y = Relu(p)  z = Mul(y, big)  c = Cast<to = 6>(z)  n = Neg(c)  i = "
                             "Abs(n) }",
                             "text")
        .save((folder.path() / "m.onnx").string());
    Buffer<float> x({2, 3}), small({2, 3});
    for (int n = 0; n < 6; n++) x(n / 3, n % 3) = float(n), small(n / 3, n % 3) = 0;
    save_npy((folder.path() / "x.npy").string(), x);
    save_npy((folder.path() / "small.npy").string(), small);
    CHECK(run(folder, "run m.onnx --input small.npy --against onnxruntime")
              .second.find(" values agree with ONNX Runtime ") != std::string::npos);
    CHECK(run(folder, "run m.onnx --nodes --input small.npy --against onnxruntime")
              .second.find("6 values agree with ONNX Runtime ") != std::string::npos);

    const auto [status, out] = run(folder, "run m.onnx --nodes --input x.npy --against onnxruntime --save node");
    CAPTURE(out);
    CHECK_EQ(status, 1);
    CHECK(out.find("kumiko: \"c\" differs from ONNX Runtime ") != std::string::npos);
    CHECK(out.find(": element 0 is 2147483647, and -2147483648 there; legal are equal integers.\n  It is computed by "
                   "node Cast of \"c\"; 3 values before it agree. On ONNX Runtime's inputs they differ too: ") !=
          std::string::npos);
    CHECK(out.ends_with("\n  saved as a test: node\n"));
    const std::filesystem::path data = folder.path() / "node/test_data_set_0";
    CHECK_EQ(Buffer<float>(graph::load_tensor((data / "input_0.pb").string()))(0, 0), 1.3e11f);
    CHECK_EQ(Buffer<int32_t>(graph::load_tensor((data / "output_0.pb").string()))(0, 0), INT32_MIN);
    // The saved node has the same difference, also as a program.
    for (const std::string way : {"", " --nodes"}) {
        const auto [again, text] = run(folder, "run node/model.onnx --input node/test_data_set_0/input_0.pb --against "
                                               "onnxruntime --save again" +
                                                   way);
        CHECK_EQ(again, 1);
        CHECK_MESSAGE(text.find("\"c\" differs") != std::string::npos, text);
    }
    // A group of several nodes is saved as one model, from the values that are known.
    const auto [fused, text] = run(folder, "run m.onnx --input x.npy --against onnxruntime --save group");
    CAPTURE(text);
    CHECK_EQ(fused, 1);
    CHECK(text.find("node Mul of \"z\", node Cast of \"c\", ") != std::string::npos);
    CHECK(std::filesystem::exists(folder.path() / "group/model.onnx"));
    CHECK_EQ(run(folder, "run m.onnx --input x.npy --against tflite").first, 1);
}

TEST_CASE("kernels and outputs of a model are compared with f64") {
    const TemporaryFolder folder;
    graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                             "m (float[2, 3] x, int64[2] i) => (float[2, 2] y, int64[3] k)\n"
                             "<float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0.1, -0.2}>\n"
                             "{ p = MatMul(x, w) s = Add(p, b) t = Softmax(s) y = Gather(t, i) k = ArgMax<keepdims = 0>"
                             "(x) }",
                             "text")
        .save((folder.path() / "m.onnx").string());
    Buffer<float> x({2, 3});
    for (int n = 0; n < 6; n++) x(n / 3, n % 3) = 0.3f * float(n) - 1;
    Buffer<int64_t> i({2});
    i(0) = 1, i(1) = 0;
    save_npy((folder.path() / "x.npy").string(), x), save_npy((folder.path() / "i.npy").string(), i);
    const auto [status, out] = run(folder, "run m.onnx --input x.npy --input i.npy --against f64");
    CAPTURE(out);
    CHECK_EQ(status, 0);
    CHECK(out.find(" kernel calls are within the bounds of f64 on the same inputs; the largest error is ") !=
          std::string::npos);
    CHECK(out.find("\ny: ") != std::string::npos);
    CHECK(out.find("\nk: 0 of the largest element from f64") != std::string::npos);
    CHECK_EQ(run(folder, "run m.onnx --nodes --input x.npy --input i.npy --against f64").first, 1);
}

TEST_CASE("a model with sizes that depend on data is shown in stages, run and compared") {
    const TemporaryFolder folder;
    // "rows" has one row for each iteration, of which there are n.
    graph::Model::parse_text(
        "<ir_version: 10, opset_import: [\"\" : 21]>\n"
        "g (float[4] x, int64 n) => (float[found] z, int64[1, found] at, float[count, 4] rows)\n"
        "<float zero = {0}, bool yes = {1}> { c = Greater(x, zero)  v = Compress<axis = 0>(x, c)  z = Exp(v)\n"
        "at = NonZero(c)  last, rows = Loop<body = b (int64 i, bool go, float[4] p) => (bool on, float[4] q, float[4] "
        "r) { on = Identity(go)  q = Add(p, x)  r = Neg(q) }>(n, yes, x) }",
        "text")
        .save((folder.path() / "m.onnx").string());
    Buffer<float> x({4});
    for (int n = 0; n < 4; n++) x(n) = float(n % 2);
    save_npy((folder.path() / "x.npy").string(), x);
    Buffer<int64_t> three{std::vector<int64_t>()};
    three() = 3;
    save_npy((folder.path() / "n.npy").string(), three);
    const std::string inputs = " --input x.npy --input n.npy";
    CHECK(run(folder, "run m.onnx" + inputs).second.find("state the most iterations, as --bound last=100\n") !=
          std::string::npos);
    CHECK_EQ(run(folder, "run m.onnx --nodes --bound last=5" + inputs).second,
             "kumiko: --bound is for the compiled model; --nodes and --interpret run loops of any length\n");
    const auto [status, out] = run(folder, "run m.onnx --bound last=5" + inputs);
    CHECK_EQ(status, 0);
    CHECK_MESSAGE(out.starts_with("z: f32[2]\nat: i64[1,2]\nrows: f32[3,4]\n"), out);
    CHECK_EQ(run(folder, "run m.onnx --bound last=2" + inputs).first, 1);
    for (const std::string stage : {"fixed", "simplified", "fused", "planned"}) {
        const auto [shown, text] = run(folder, "show m.onnx --bound last=5 -o " + stage + ".onnx --stage " + stage);
        CHECK_MESSAGE(shown == 0, text);
        const auto [ran, results] = run(folder, "run " + stage + ".onnx --nodes" + inputs);
        CHECK_MESSAGE(ran == 0, results);
        CHECK_MESSAGE(results.find("z: f32[2]\nat: i64[1,2]\n") != std::string::npos, results);
    }
    if (!std::filesystem::exists(KUMIKO_SOURCE_DIR "/.deps/python/onnxruntime")) {
        MESSAGE("skipped: ./run setup fetches ONNX Runtime");
        return;
    }
    const auto [same, compared] = run(folder, "run m.onnx --bound last=5 --against onnxruntime" + inputs);
    CHECK_MESSAGE(same == 0, compared);
    CHECK_MESSAGE(compared.find(" values agree with ONNX Runtime ") != std::string::npos, compared);
}

TEST_CASE("a model has a page, with times after a benchmark, and a trace") {
    const TemporaryFolder folder;
    save_model(folder);
    const auto file = [&](const std::string &name) {
        std::ifstream in(folder.path() / name);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    const auto has = [](const std::string &text, const std::string &part) {
        return text.find(part) != std::string::npos;
    };
    CHECK_EQ(run(folder, "show m.onnx --size N=4 --report page.html"),
             std::pair(0, std::string("page.html: 3 nodes as 1 step; `kumiko bench m.onnx --report FILE.html` adds "
                                      "their times\n")));
    CHECK(has(file("page.html"), "<title>m.onnx</title>"));
    CHECK(has(file("page.html"), "<h3>Step 0: MatMul Add Relu</h3>"));
    CHECK_FALSE(has(file("page.html"), "a run, 1 thread"));
    const std::string bench = "bench m.onnx --size N=4 --seconds 0.01 --no-peers --quiet ";
    const auto [status, out] = run(folder, bench + "--report page.html --trace trace.json");
    CHECK_EQ(status, 0);
    CHECK(has(out, "MatMul Add Relu"));
    CHECK(has(file("page.html"), "a run, 1 thread"));
    const Json trace = parse_json(file("trace.json"), "trace.json");
    std::vector<std::string> steps;
    for (const Json &e : trace.at("traceEvents")) {
        if (e.at("ph") == "X") steps.push_back(e.at("name"));
    }
    CHECK_EQ(steps, std::vector<std::string>{"MatMul Add Relu"});
    CHECK_EQ(run(folder, "show m.onnx --stage fused --size N=4 --report page.html").second,
             "kumiko: --report shows the whole model, and --stage one stage of it; give one of them\n");
    CHECK_EQ(run(folder, "show m.onnx --size N=4 --report no/page.html").first, 1);
    CHECK_EQ(run(folder, bench + "--trace no/trace.json").first, 1);
    CHECK_EQ(run(folder, "bench models --report page.html").second,
             "kumiko: --report and --trace are of one model: kumiko bench model.onnx --report page.html\n");
    CHECK_EQ(run(folder, "bench rows --trace trace.json").second,
             "kumiko: --report and --trace are of one model: kumiko bench model.onnx --report page.html\n");
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
