// What is wrong with a model, and what would be legal: each error names the file, and the node,
// value or tensor.
#include "graph/eval/evaluate.h"
#include "graph/onnx/model.h"
#include "support/error.h"
#include "support/temporary_folder.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

#include <fstream>

using namespace kumiko;
using graph::Model;

namespace {

std::string model_text(const std::string &body, const std::string &inputs = "float[2] x",
                       const std::string &outputs = "float[2] y") {
    return "<ir_version: 10, opset_import: [\"\" : 21]>\ng (" + inputs + ") => (" + outputs + ") {" + body + "}";
}

Model model_of(const std::string &body, const std::string &inputs = "float[2] x",
               const std::string &outputs = "float[2] y") {
    return Model::parse_text(model_text(body, inputs, outputs), "m");
}

std::string evaluation(const Model &model, const std::vector<Buffer<>> &inputs) {
    return refusal([&] { graph::evaluate(model, inputs); });
}

} // namespace

TEST_CASE("files that are no models") {
    const TemporaryFolder folder;
    const std::string file = folder.path().string() + "/m.onnx";
    CHECK_EQ(refusal([&] { Model::load(file); }), "\"" + file + "\" cannot be read");
    std::ofstream(file) << "not a model";
    CHECK_EQ(refusal([&] { Model::load(file); }), file + ": these 11 bytes are no ONNX model, or a part of one");
    std::ofstream(file, std::ios::trunc).close();
    CHECK_EQ(refusal([&] { Model::load(file); }), file + ": the model has no graph; it may be another kind of file");
    // Every part of a model is an error, or a smaller model.
    model_of("y = Relu(x)").save(file);
    std::ifstream in(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    for (size_t n = 0; n < bytes.size(); n++)
        CHECK_NOTHROW(refusal([&] { Model::parse(bytes.substr(0, n), "part").check(); }));
}

TEST_CASE("graphs that do not fit together") {
    CHECK_EQ(
        refusal([] { model_of("y = Relu(z)"); }),
        "m: node Relu of \"y\" reads \"z\", which no input, constant or earlier node makes; nodes stand after those "
        "whose values they read");
    CHECK_EQ(
        refusal([] { model_of("z = Relu(y) y = Relu(z)"); }),
        "m: node Relu of \"z\" reads \"y\", which no input, constant or earlier node makes; nodes stand after those "
        "whose values they read");
    CHECK_EQ(refusal([] { model_of("y = Relu(x) y = Abs(x)"); }),
             "m: node Abs of \"y\" makes \"y\", which is made already; each value has one producer");
    CHECK_EQ(refusal([] { model_of("z = Relu(x)"); }), "m: output \"y\" is made by no node");
    CHECK_EQ(refusal([] { model_of("y = other.Relu(x)"); }),
             "m: node Relu of \"y\" is of domain \"other\", for which the model names no opset");
    CHECK(refusal([] { model_of("y = Relu(x, x)").check(); }).starts_with("m: "));
}

TEST_CASE("inputs of another type or shape") {
    const Model m = model_of("y = Relu(x)");
    CHECK_EQ(evaluation(m, {}), "m takes 1 inputs, and 0 are given");
    CHECK_EQ(evaluation(m, {Buffer<>(Halide::Int(32), {2})}),
             "m: input x: float[2] is given i32[2]: another element type");
    CHECK_EQ(evaluation(m, {Buffer<>(Halide::Float(32), {3})}),
             "m: input x: float[2] is given f32[3]: axis 0 has 2 elements");
    CHECK_EQ(evaluation(m, {Buffer<>(Halide::Float(32), {2, 1})}),
             "m: input x: float[2] is given f32[2,1]: another number of axes");
    const Model open = model_of("y = Add(x, z)", "float[N] x, float[N] z", "float[N] y");
    CHECK_EQ(evaluation(open, {Buffer<>(Halide::Float(32), {2}), Buffer<>(Halide::Float(32), {3})}),
             "m: input z: float[N] is given f32[3]: axis 0 is \"N\", which is 2 elsewhere");
    const Model text = model_of("y = Identity(x)", "string[2] x", "string[2] y");
    CHECK_EQ(evaluation(text, {Buffer<>(Halide::Float(32), {2})}),
             "m: input x: string[2] is given f32[2]: another element type");
}

TEST_CASE("operators without a formula, and arguments that have no meaning") {
    Buffer<float> x({2});
    x(0) = 1, x(1) = 2;
    CHECK_EQ(evaluation(model_of("y = Bernoulli(x)"), {x}),
             "node \"Bernoulli of y\" (RandomUniformLike) of opset 21: there is no formula for this operator");
    CHECK_EQ(evaluation(model_of("y = Softmax <axis = 3> (x)"), {x}),
             "node Softmax of \"y\": axis 3 of a tensor of 1 axes; legal are -1 to 0");
    CHECK_EQ(evaluation(model_of("s = Constant <value = int64[1] {5}> () y = Reshape(x, s)"), {x}),
             "node Reshape of \"y\": 2 elements do not fill the new shape");
    CHECK_EQ(evaluation(model_of("i = Constant <value = int64[1] {7}> () y = Gather(x, i)"), {x}),
             "node Gather of \"y\": the index 7 in \"i\" of 2 elements; legal are -2 to 1");
    CHECK_EQ(evaluation(model_of("i = Constant <value = float[3] {1, 2, 3}> () y = Add(x, i)"), {x}),
             "node Add of \"y\": the extents 2 and 3 of inputs do not broadcast");
}
