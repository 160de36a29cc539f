// Sequences, optionals and strings: the evaluator, and programs that know their structure.
// Links: graph/build
#include "dsl/types.h"
#include "graph/build/compiled_model.h"
#include "graph/ir/strings.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

Model model(const std::string &text) {
    return Model::parse_text("<ir_version: 10, opset_import: [\"\" : 21, \"ai.onnx.ml\" : 4]> g " + text, "m");
}

Buffer<> floats(const std::vector<float> &values, const Extents &extents) {
    Buffer<> b(f32, extents);
    std::copy(values.begin(), values.end(), static_cast<float *>(b.data()));
    return b;
}

std::vector<float> numbers(const Buffer<> &b) {
    const auto *from = static_cast<const float *>(b.data());
    return {from, from + b.number_of_elements()};
}

// The first output of both ways, which are equal.
std::vector<float> run(const std::string &text, const std::vector<Buffer<>> &inputs) {
    const Model m = model(text);
    const Buffer<> evaluated = evaluate(m, inputs).at(0), compiled = CompiledModel::compile(m).run(inputs).at(0);
    CHECK_EQ(compiled.extents(), evaluated.extents());
    CHECK_EQ(numbers(compiled), numbers(evaluated));
    return numbers(evaluated);
}

using Numbers = std::vector<float>;

} // namespace

TEST_CASE("sequences of known structure are lists of tensors in programs") {
    const Buffer<> x = floats({1, 2, 3, 4, 5, 6}, {3, 2});
    CHECK_EQ(run("(float[3, 2] x) => (float[1, 2] y) { s = SplitToSequence(x) p = Constant<value_int = -2>() "
                 "y = SequenceAt(s, p) }",
                 {x}),
             Numbers{3, 4});
    CHECK_EQ(run("(float[3, 2] x) => (float[3, 2] y) { n = Constant<value_int = 2>() s = SplitToSequence(x, n) "
                 "p = Constant<value_int = 0>() a = SequenceAt(s, p) t = SequenceErase(s, p) u = SequenceInsert(t, a) "
                 "y = ConcatFromSequence<axis = 0>(u) }",
                 {x}),
             Numbers{5, 6, 1, 2, 3, 4});
    CHECK_EQ(run("(float[3, 2] x) => (float[2, 3] y) { s = SplitToSequence<axis = 1, keepdims = 0>(x) "
                 "y = ConcatFromSequence<axis = 0, new_axis = 1>(s) }",
                 {x}),
             Numbers{1, 3, 5, 2, 4, 6});
    CHECK_EQ(run("(float[3, 2] x) => (float[3, 2] y) { s = SplitToSequence(x) "
                 "t = SequenceMap<body = b (float[1, 2] e, float[3, 2] all) => (float[1, 2] r) "
                 "{ m = ReduceMax(all) r = Mul(e, m) }>(s, x) y = ConcatFromSequence<axis = 0>(t) }",
                 {x}),
             Numbers{6, 12, 18, 24, 30, 36});
    CHECK_EQ(run("(float[3, 2] x) => (float y) { s = SequenceConstruct(x, x) n = SequenceLength(s) o = Optional(n) "
                 "h = OptionalHasElement(o) e = OptionalGetElement(o) a = Cast<to = 1>(h) b = Cast<to = 1>(e) "
                 "y = Add(a, b) }",
                 {x}),
             Numbers{3});
}

TEST_CASE("a loop of a known number of iterations may have a sequence as its state") {
    CHECK_EQ(run("(float[2] x) => (float[6] y) { n = Constant<value_int = 3>() s = SequenceEmpty() "
                 "t = Loop<body = b (int64 i, bool c, seq(float[2]) s) => (bool d, seq(float[2]) t) "
                 "{ d = Identity(c) f = Cast<to = 1>(i) v = Mul(x, f) t = SequenceInsert(s, v) }>(n, , s) "
                 "y = ConcatFromSequence<axis = 0>(t) }",
                 {floats({1, 10}, {2})}),
             Numbers{0, 0, 1, 10, 2, 20});
}

TEST_CASE("wrong positions and kinds in sequences are errors that name the node") {
    const auto refused = [](const std::string &text, const std::vector<Buffer<>> &inputs) {
        const std::string evaluated = refusal([&] { evaluate(model(text), inputs); });
        CHECK_EQ(refusal([&] { CompiledModel::compile(model(text)); }), evaluated);
        return evaluated;
    };
    const Buffer<> x = floats({1, 2}, {2});
    CHECK_EQ(refused("(float[2] x) => (float[1] y) { s = SplitToSequence(x) p = Constant<value_int = 2>() "
                     "y = SequenceAt(s, p) }",
                     {x}),
             "node SequenceAt of \"y\": position 2 of a sequence of 2 elements; legal are -2 to 1");
    CHECK_EQ(refused("(float[2] x) => (float[2] y) { s = SequenceEmpty() y = ConcatFromSequence<axis = 0>(s) }", {x}),
             "node ConcatFromSequence of \"y\": a sequence of 0 elements; legal are 1 or more");
    CHECK_EQ(refused("(float[2] x) => (float[2] y) { n = Constant<value_ints = [1, 2]>() s = SplitToSequence(x, n) "
                     "y = ConcatFromSequence<axis = 0>(s) }",
                     {x}),
             "node SplitToSequence of \"s\": parts of 1, 2 elements of an axis of 2; legal are parts of 0 or more "
             "elements whose sum is the extent");
    CHECK_EQ(refused("(float[2] x) => (float[2] y) { o = Optional<type = float[2]>() y = OptionalGetElement(o) }", {x}),
             "node OptionalGetElement of \"y\": \"o\" has no element");
    CHECK_EQ(refusal([] {
                 CompiledModel::compile(model("(float[2] x, int64 p) => (float[1] y) { s = SplitToSequence(x) "
                                              "y = SequenceAt(s, p) }"));
             }),
             "node SequenceAt of \"y\": \"p\" depends on data; supported in programs are constant positions in "
             "sequences, and constant lengths");
    CHECK_EQ(refusal([] {
                 evaluate_values(model("(seq(float[2]) s) => (float[2] y) { y = ConcatFromSequence<axis = 0>(s) }"),
                                 {Value(Value::Sequence{Value(Buffer<>(i32, {2}))})});
             }),
             "m: input s: float[2] is given i32[2]: another element type");
}

TEST_CASE("strings are cast, compared and looked up") {
    const auto strings = [](const std::string &text, const Buffer<> &input) {
        return strings_of(evaluate(model(text), {input}).at(0));
    };
    using Texts = std::vector<std::string>;
    CHECK_EQ(strings("(float[4] x) => (string[4] y) { y = Cast<to = 8>(x) }", floats({1, 0.1f, -INFINITY, 1e20f}, {4})),
             Texts{"1.0", "0.1", "-INF", "1e+20"});
    const Buffer<> texts = string_tensor({"1", "+2.5", "-inf", "1e-3"}, {4});
    CHECK_EQ(numbers(evaluate(model("(string[4] x) => (float[4] y) { y = Cast<to = 1>(x) }"), {texts}).at(0)),
             Numbers{1, 2.5f, -INFINITY, 1e-3f});
    CHECK_EQ(strings("(string[2] x) => (string[2, 3] y, int64[2] n) { y, n = StringSplit<delimiter = \",\", "
                     "maxsplit = 2>(x) }",
                     string_tensor({"a,b", "c,,d,e"}, {2})),
             Texts{"a", "b", "", "c", "", "d,e"});
    CHECK_EQ(strings("(string[3] x) => (string[2] y) { y = StringNormalizer<case_change_action = \"UPPER\", stopwords "
                     "= [\"B\"]>(x) }",
                     string_tensor({"a", "b", "\xc3\xa4"}, {3})),
             Texts{"A", "\xc3\x84"});
}

TEST_CASE("a string that is no number, and strings that depend on data in a program, are errors") {
    const std::string cast = "(string[1] x) => (int32[1] y) { y = Cast<to = 6>(x) }";
    for (const char *text : {"two", "", "1.5", "3000000000"})
        CHECK_EQ(refusal([&] { evaluate(model(cast), {string_tensor({text}, {1})}); }),
                 fmt::format("node Cast of \"y\": \"{}\" cannot be cast to i32; legal are numbers of this type", text));
    CHECK_EQ(refusal([&] { CompiledModel::compile(model(cast)); }),
             "m: input x: string[1] is a tensor of strings; supported in programs are tensors of numbers");
    CHECK_EQ(refusal([&] {
                 evaluate(model("(string[1] x) => (string[1] y) { y = Add(x, x) }"), {string_tensor({"a"}, {1})});
             }),
             "node Add of \"y\": its input \"x\" is string; supported are casts, moves and operators of strings of "
             "this type");
    CHECK_EQ(refusal([&] {
                 CompiledModel::compile(
                     model("(int64[1] x) => (float[1] y) { y = ai.onnx.ml.LabelEncoder<keys_int64s = "
                           "[1], values_floats = [2.0]>(x) }"));
             }),
             "no error");
}

TEST_CASE("labels of numbers are looked up in programs too") {
    const std::string text =
        "(float[4] x) => (float[4] y) { y = ai.onnx.ml.LabelEncoder<keys_floats = [1.0, 2.0, 1.0], "
        "values_floats = [10.0, 20.0, 30.0], default_float = -1.0>(x) }";
    CHECK_EQ(run(text, {floats({1, 2, 3, 1}, {4})}), Numbers{10, 20, -1, 10});
}
