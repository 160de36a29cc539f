// Shared libraries, called from Python through TVM FFI.
// Links: graph/build
// Levels: no
#include "graph/onnx/model.h"
#include "tests/e2e/shell.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

using namespace kumiko;
using namespace kumiko::e2e;
namespace fs = std::filesystem;

namespace {

const std::string kumiko_command = KUMIKO_BINARY_DIR "/kumiko", modules = KUMIKO_SOURCE_DIR "/.deps/python";

bool has_python() {
    for (const char *name : {"tvm_ffi", "numpy"}) {
        if (fs::exists(modules + "/" + name)) continue;
        MESSAGE("skipped: there is no ", modules, "/", name, "; ./run setup fetches it");
        return false;
    }
    return true;
}

std::string python(const fs::path &folder, const std::string &script) {
    std::ofstream(folder / "script.py") << script;
    return must_run("cd " + folder.string() + " && PYTHONPATH=" + modules + " python3 script.py");
}

const char *const helpers = R"(
import threading
import numpy
import tvm_ffi

def error(function, *arguments):
    try:
        function(*arguments)
    except Exception as e:
        print(f"{type(e).__name__}: {e}")
    else:
        print("no error")

def numbers(*shape):
    return (numpy.arange(numpy.prod(shape)).reshape(shape) % 7 - 3).astype(numpy.float32)
)";

} // namespace

TEST_CASE("Python calls kernels on arrays of NumPy, without copies") {
    if (!has_python()) return;
    const fs::path folder = scratch("driver_python", "kernels");
    std::ofstream(folder / "kernels.json") << R"({"name": "mine", "kernels": [
        {"name": "fixed", "op": "matmul", "parameters": {"m": 8, "n": 6, "k": 4}},
        {"name": "any", "op": "matmul", "any_shape": true},
        {"name": "rows", "op": "softmax", "parameters": {"m": "m", "n": "n"}},
        {"name": "halves", "op": "relu", "type": "bf16", "parameters": {"n": 16}},
        {"name": "ahead", "op": "matmul", "parameters": {"m": 8, "n": 48, "k": 32}, "ahead": true}]})";
    must_run("cd " + folder.string() + " && " + kumiko_command + " build kernels.json -o out --shared --quiet");
    CHECK_EQ(
        python(folder, std::string(helpers) + R"(
module = tvm_ffi.load_module("out/libmine.so")
a, b, c = numbers(8, 4), numbers(4, 6), numpy.zeros((8, 6), numpy.float32)
module.fixed(a, b, c)
print(numpy.array_equal(c, a @ b))

# Sizes and leading dimensions are those of the arrays.
wide = numpy.zeros((5, 9), numpy.float32)
a, b = numbers(5, 3), numbers(3, 7)
module.any(a, b, wide[:, 1:8])
print(numpy.array_equal(wide[:, 1:8], a @ b), wide[:, 0].any(), wide[:, 8].any())
row = numpy.lib.stride_tricks.as_strided(a, (1, 3), (4, 4))
module.any(row, b, wide[:1, 1:8])
print(numpy.array_equal(wide[:1, 1:8], row @ b))
x = numbers(3, 11)
y = numpy.empty_like(x)
module.rows(x, y)
e = numpy.exp(x - x.max(1, keepdims=True))
print(numpy.allclose(y, e / e.sum(1, keepdims=True), atol=1e-6))

# One large array for both threads.
a, b = numbers(512, 300), numbers(300, 400)
results = [numpy.zeros((512, 400), numpy.float32) for _ in range(2)]
def work(c):
    for _ in range(20):
        module.any(a, b, c)
threads = [threading.Thread(target=work, args=(c,)) for c in results]
for t in threads: t.start()
for t in threads: t.join()
print(all(numpy.allclose(c, a @ b) for c in results))

a, b, c = numbers(8, 4), numbers(4, 6), numpy.zeros((8, 6), numpy.float32)
error(module.fixed, a, b)
error(module.fixed, a, 3, c)
error(module.fixed, a, b.astype(numpy.float64), c)
error(module.fixed, a, b[0], c)
error(module.fixed, a, numbers(4, 7), c)
error(module.fixed, a, numbers(6, 4).T, c)
error(module.fixed, numpy.frombuffer(bytearray(129), numpy.uint8)[1:].view(numpy.float32).reshape(8, 4), b, c)
error(module.fixed, a, b, a)
error(module.any, a, numbers(5, 6), c)
error(module.halves, a[0], a[0])
)"),
        "True\nTrue False False\nTrue\nTrue\nTrue\n"
        "TypeError: fixed takes 3 arguments (A, B, C), and 2 are given\n"
        "TypeError: fixed: argument 1, \"B\", is no array; legal is one of float32 with 2 axes\n"
        "TypeError: fixed: argument 1, \"B\", has elements of float64; legal is float32\n"
        "ValueError: fixed: argument 1, \"B\", has 1 axes; legal is 2\n"
        "ValueError: fixed: axis 1 of \"B\" has 7 elements; legal is 6\n"
        "ValueError: fixed: axis 0 of \"B\" has the stride 1; legal is 6 elements, as in an array that is dense in C "
        "order\n"
        "ValueError: fixed: argument 0, \"A\", is not aligned; legal is an address that is a multiple of 4\n"
        "ValueError: fixed: axis 1 of \"C\" has 4 elements; legal is 6\n"
        "ValueError: any: axis 0 of \"B\" has 5 elements; legal is 4\n"
        "TypeError: halves: argument 0, \"X\", has elements of float32; legal is bfloat16\n");
}

TEST_CASE("Python runs a model, with two threads at once") {
    if (!has_python()) return;
    const fs::path folder = scratch("driver_python", "model");
    graph::Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21]>\n"
                             "net (float[batch, 64] x, int64[2] rows) => (float[2, 64] y, bool[2, 64] positive)\n"
                             "<float[64] one = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                             "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}, float zero = {0}>\n"
                             "{ s = Softmax(x) t = Add(s, one) y = Gather(t, rows) p = Gather(x, rows) positive = "
                             "Greater(p, zero) }",
                             "text")
        .save((folder / "net.onnx").string());
    must_run("cd " + folder.string() + " && " + kumiko_command +
             " build net.onnx --size batch=1000 -o out --shared --quiet");
    CHECK_EQ(python(folder, std::string(helpers) + R"(
module = tvm_ffi.load_module("out/libnet.so")
x, rows = numbers(1000, 64), numpy.array([3, 999])
e = numpy.exp(x - x.max(1, keepdims=True))
want = (e / e.sum(1, keepdims=True) + 1)[rows]
def outputs():
    return numpy.zeros((2, 64), numpy.float32), numpy.zeros((2, 64), bool)
y, positive = outputs()
module.run(x, rows, y, positive)
print(numpy.allclose(y, want, atol=1e-6), numpy.array_equal(positive, x[rows] > 0))

all_outputs = [outputs() for _ in range(2)]
def work(own):
    for _ in range(200):
        module.net_run(x, rows, *own)
threads = [threading.Thread(target=work, args=(own,)) for own in all_outputs]
for t in threads: t.start()
for t in threads: t.join()
print(all(numpy.array_equal(a, y) and numpy.array_equal(b, positive) for a, b in all_outputs))

# Tensors of TVM FFI own their arrays.
t = tvm_ffi.from_dlpack(x)
del x
module.run(t, rows, *all_outputs[0])
print(numpy.array_equal(all_outputs[0][0], y))
error(module.run, t, numpy.array([3, 1000]), y, positive)
error(module.run, t, rows, t, positive)
both = numpy.zeros(2 * 64 * 4 + 64, numpy.uint8)
error(module.run, t, rows, both[:512].view(numpy.float32).reshape(2, 64), both[448:].view(bool).reshape(2, 64))
print(both.any())
)"),
             "True True\nTrue\nTrue\n"
             "RuntimeError: run: node Gather of \"y\": an index in \"rows\" is out of range; legal are -1000 to 999\n"
             "ValueError: run: axis 0 of \"y\" has 1000 elements; legal is 2\n"
             "ValueError: run: the output \"y\" overlaps \"positive\"; legal are separate arrays\n"
             "False\n");
}

TEST_CASE("Python gives the memory of states, and reads outputs whose sizes depend on data") {
    if (!has_python()) return;
    const fs::path folder = scratch("driver_python", "state");
    graph::Model::parse_text(
        "<ir_version: 10, opset_import: [\"\" : 21]>\n"
        "net (float[2] x, float[2] h, bool[4] c) => (float[2] y, float[2] hn, int64[1, found] at)\n"
        "{ hn = Add(h, x) y = Neg(hn) at = NonZero(c) }",
        "text")
        .save((folder / "net.onnx").string());
    must_run("cd " + folder.string() + " && " + kumiko_command +
             " build net.onnx --state auto -o out --shared --quiet");
    CHECK(read(folder / "out/net.h").find("void *state; /* NET_STATE_BYTES bytes, aligned to 4; net_reset() sets ") !=
          std::string::npos);
    CHECK_EQ(python(folder, std::string(helpers) + R"(
module = tvm_ffi.load_module("out/libnet.so")
print(module.state_bytes(), module.net_state_bytes())
state = numpy.full(64, 255, numpy.uint8)
module.reset(state)
print(state.any())
x, c, y = numbers(2), numpy.array([False, True, False, True]), numpy.zeros(2, numpy.float32)
at, size = numpy.zeros((1, 4), numpy.int64), numpy.zeros((), numpy.int64)
for _ in range(2):
    module.run(x, c, state, y, at, size)
    print(y, at.ravel()[:size], size)
other = numpy.zeros(64, numpy.uint8)
module.net_run(x, c, other, y, at, size)
print(y)
module.net_reset(state)
module.run(x, c, state, y, at, size)
print(y)
error(module.run, x, c, y, at, size)
error(module.run, x, c, state[:63], y, at, size)
error(module.run, x, c, numpy.zeros(65, numpy.uint8)[1:], y, at, size)
error(module.run, x, c, state, y, at[:, :2], size)
error(module.run, x, c, state, state[:8].view(numpy.float32), at, size)
error(module.reset, x)
error(module.reset)
error(module.state_bytes, 1)
)"),
             "64 64\nFalse\n[3. 2.] [1 3] 2\n[6. 4.] [1 3] 2\n[3. 2.]\n[3. 2.]\n"
             "TypeError: run takes 6 arguments (x, c, state, y, at, at_size), and 5 are given\n"
             "ValueError: run: axis 0 of \"state\" has 63 elements; legal is 64\n"
             "ValueError: run: \"state\" is not aligned; legal is an address that is a multiple of 4\n"
             "ValueError: run: axis 1 of \"at\" has 2 elements; legal is 4\n"
             "ValueError: run: the output \"state\" overlaps \"y\"; legal are separate arrays\n"
             "TypeError: reset: argument 0, \"state\", has elements of float32; legal is uint8\n"
             "TypeError: reset takes 1 arguments (state), and 0 are given\n"
             "TypeError: state_bytes takes no arguments, and 1 are given\n");
}

TEST_CASE("a shared library that cannot be made says why") {
    const fs::path folder = scratch("driver_python", "refused");
    std::ofstream(folder / "kernels.json")
        << R"({"name": "mine", "kernels": [{"op": "relu", "parameters": {"n": 16}}]})";
    std::string text;
    CHECK_EQ(run("cd " + folder.string() + " && " + kumiko_command +
                     " build kernels.json -o out --shared --quiet --target riscv64-freestanding",
                 text),
             1);
    CHECK_MESSAGE(text.find("a machine without an operating system loads no shared libraries; legal is --target "
                            "riscv64\n") != std::string::npos,
                  text);
    CHECK_FALSE(fs::exists(folder / "out"));
}
