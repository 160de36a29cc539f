// Rules of graphs: the example of each, graphs that they must leave alone, random graphs, and
// graphs as models of ONNX. One file, because the cases share the graphs of text and the checks.
// Links: graph/rules
// Levels: no
#include "graph/eval/evaluate.h"
#include "graph/formulas/windows.h"
#include "graph/rules/rules.h"
#include "support/random.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

FixedGraph fixed(const std::string &text, int opset = 21) {
    return fix_sizes(
        Model::parse_text(fmt::format("<ir_version: 10, opset_import: [\"\" : {}]> g {}", opset, text), "m"));
}

// The operators in order: "Conv Relu".
std::string ops_of(const FixedGraph &graph) {
    std::string text;
    for (const Node &n : graph.nodes) text += (text.empty() ? "" : " ") + n.op;
    return text;
}

std::string ops_after(const std::string &text, const SimplifyOptions &options = {}) {
    FixedGraph graph = fixed(text);
    simplify(graph, options);
    return ops_of(graph);
}

template<typename T>
void add_numbers(std::string &text, const Buffer<> &b) {
    for (size_t n = 0; n < b.number_of_elements(); n++)
        text += fmt::format("{}{:.5g}", n ? "," : "", double(static_cast<const T *>(b.data())[n]));
}

// The graph without names of values: constants by their elements, others by numbers.
std::string form_of(const FixedGraph &graph) {
    std::map<std::string, std::string> names;
    std::string text;
    for (const std::string &i : graph.inputs) names[i] = i;
    const auto name = [&](const std::string &value) {
        if (value.empty() || !graph.is_constant(value)) {
            const auto made = names.emplace(value, fmt::format("v{}", names.size()));
            return made.first->second;
        }
        const Buffer<> &b = *graph.value(value).value;
        std::string all = "{";
        const Type t = b.type();
        t == i64   ? add_numbers<int64_t>(all, b)
        : t == i32 ? add_numbers<int32_t>(all, b)
        : t == u8  ? add_numbers<uint8_t>(all, b)
        : t == i8  ? add_numbers<int8_t>(all, b)
                   : add_numbers<float>(all, b);
        return all + fmt::format("}}[{}]", fmt::join(b.extents(), ","));
    };
    for (const Node &n : graph.nodes) {
        std::string line = n.op + "(";
        for (const std::string &i : n.inputs) line += name(i) + " ";
        line += ")";
        for (const auto &[attribute, value] : n.attributes) {
            line += " " + attribute;
            if (const auto *i = std::get_if<int64_t>(&value.value)) line += fmt::format("={}", *i);
            if (const auto *i = std::get_if<std::vector<int64_t>>(&value.value))
                line += fmt::format("={}", fmt::join(*i, ","));
        }
        line += " ->";
        for (const std::string &o : n.outputs) line += " " + name(o);
        text += line + "\n";
    }
    for (const std::string &o : graph.outputs) text += name(o) + "\n";
    return text;
}

// Values that rules could lose are among them.
Buffer<> odd_values(Type type, const Extents &extents, Random &rng, bool special) {
    Buffer<> made = random_buffer(type, extents, rng(), -4, 4);
    if (!special || type != f32) return made;
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const float values[] = {0.f, -0.f, 1.f, -1.f, inf, -inf, nan, 1e-40f, 3e38f};
    auto *data = static_cast<float *>(made.data());
    for (size_t n = 0; n < made.number_of_elements(); n++) {
        if (rng.below(3) == 0) data[n] = values[rng.below(9)];
    }
    return made;
}

std::vector<Buffer<>> inputs_of(const FixedGraph &graph, Random &rng, bool special) {
    std::vector<Buffer<>> made;
    for (const std::string &i : graph.inputs)
        made.push_back(odd_values(graph.value(i).type, graph.value(i).extents, rng, special));
    return made;
}

// Compares the results of two graphs of the same inputs.
void check_same(const FixedGraph &before, const FixedGraph &after, Rounding rounding, uint64_t seed) {
    const bool exact = rounding == Rounding::Exact;
    const double bound = rounding == Rounding::Close ? 1e-5 : 1e-4;
    CHECK_EQ(before.inputs, after.inputs);
    CHECK_EQ(before.outputs, after.outputs);
    Random rng(seed);
    const Model a = to_model(before), b = to_model(after);
    for (int round = 0; round < 4; round++) {
        const std::vector<Buffer<>> inputs = inputs_of(before, rng, exact && round > 0);
        const std::vector<Buffer<>> x = evaluate(a, inputs), y = evaluate(b, inputs);
        REQUIRE_EQ(x.size(), y.size());
        for (size_t o = 0; o < x.size(); o++) {
            if (exact)
                CHECK_EQ(difference(y[o], x[o]), "");
            else
                CHECK_NOTHROW(check_close(y[o], x[o], {bound, bound}));
        }
    }
}

} // namespace

TEST_CASE("rules apply to the graphs of control flow, and the report counts them") {
    FixedGraph graph = fixed("(bool c, float[2] x) => (float[2] y) { y = If(c) <"
                             "then_branch = t () => (float[2] u) { a = Abs(x) i = Identity(a) u = Neg(i) }, "
                             "else_branch = e () => (float[2] v) { v = Neg(x) }> }");
    REQUIRE_EQ(graph.graphs.size(), 2);
    const SimplifyReport report = simplify(graph);
    CHECK_EQ(ops_of(*graph.graphs[0]), "Abs Neg");
    CHECK_EQ(ops_of(*graph.graphs[1]), "Neg");
    CHECK_EQ(report.nodes_before, report.nodes_after + 1);
}

TEST_CASE("the example of each rule becomes its result, with the same values") {
    for (const Rule &rule : all_rules()) {
        CAPTURE(rule.name);
        const FixedGraph before = fixed(rule.before);
        FixedGraph after = before;
        const SimplifyReport report = simplify(after, {.rounding = rule.rounding, .rules = {rule.name}});
        CHECK_GT(report.rules.at(rule.name).applied, 0);
        CHECK_EQ(form_of(after), form_of(fixed(rule.after)));
        check_same(before, after, rule.rounding, 1);
        // All rules together do not undo it.
        FixedGraph all = before;
        simplify(all, {.rounding = rule.rounding});
        CHECK_LE(all.nodes.size(), after.nodes.size());
        check_same(before, all, rule.rounding, 2);
        if (rule.rounding != Rounding::Exact) {
            FixedGraph left = before;
            const Rounding less = rule.rounding == Rounding::Fast ? Rounding::Close : Rounding::Exact;
            CHECK_EQ(simplify(left, {.rounding = less, .rules = {rule.name}}).rules.size(), 0);
            CHECK_EQ(form_of(left), form_of(before));
        }
    }
}

TEST_CASE("each rule is in docs/models.md") {
    std::ifstream in(std::string(KUMIKO_SOURCE_DIR) + "/docs/models.md");
    std::stringstream text;
    text << in.rdbuf();
    const std::string page = text.str();
    for (const Rule &r : all_rules()) {
        const std::string row = fmt::format("| `{}` | {} | {} | {} | {} |", r.name, r.matches, r.result,
                                            r.rounding == Rounding::Exact   ? "equal"
                                            : r.rounding == Rounding::Close ? "rounds"
                                                                            : "fast",
                                            r.source);
        CAPTURE(row);
        CHECK(page.find(row) != std::string::npos);
    }
}

TEST_CASE("weights with another reader are not scaled") {
    const std::string in = "(float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y) "
                           "<float[2, 2, 1, 1] w = {1, 2, 3, 4}, float two = {2}, float[1, 2, 1, 1] d = {5, 6}> ";
    CHECK_EQ(ops_after(in + "{ c = Conv(x, w) y = Mul(c, two) }"), "Conv");
    CHECK_EQ(ops_after(in + "{ c = Conv(x, w) s = Mul(c, two) t = Conv(s, w) y = Relu(t) }"), "Conv Mul Conv Relu");
    // A bias needs no other weights.
    CHECK_EQ(ops_after(in + "{ c = Conv(x, w) s = Add(c, d) t = Conv(s, w) y = Relu(t) }"), "Conv Conv Relu");
}

TEST_CASE("a value that others read stays") {
    const std::string constants = "<float[2, 2, 1, 1] w = {1, 2, 3, 4}, float two = {2}> ";
    CHECK_EQ(ops_after("(float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] c, float[1, 2, 2, 2] y) " + constants +
                       "{ c = Conv(x, w) y = Mul(c, two) }"),
             "Conv Mul");
    CHECK_EQ(ops_after("(float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y) " + constants +
                       "{ c = Conv(x, w) s = Mul(c, two) y = Add(c, s) }"),
             "Conv Mul Add");
}

TEST_CASE("what is no constant for each channel is not folded") {
    const auto after = [](const std::string &constant) {
        return ops_after("(float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y) <float[2, 2, 1, 1] w = {1, 2, 3, 4}, " +
                         constant + "> { c = Conv(x, w) y = Mul(c, k) }");
    };
    CHECK_EQ(after("float[2] k = {2, 3}"), "Conv Mul"); // along the last axis
    CHECK_EQ(after("float[2, 1, 1] k = {2, 3}"), "Conv");
    CHECK_EQ(after("float[2, 1, 1] k = {2, inf}"), "Conv Mul");
    CHECK_EQ(ops_after("(float[1, 2, 2, 2] x) => (float[3, 2, 2, 2] y) <float[2, 2, 1, 1] w = {1, 2, 3, 4}, "
                       "float[3, 1, 1, 1] k = {2, 3, 4}> { c = Conv(x, w) y = Mul(c, k) }"),
             "Conv Mul");
}

TEST_CASE("only constants that change nothing are removed") {
    const auto after = [](const std::string &node, const std::string &c, bool exact = true) {
        return ops_after("(float[2] x) => (float[2] y) <float[2] c = {" + c + "}> { a = " + node + " y = Relu(a) }",
                         {.rounding = exact ? Rounding::Exact : Rounding::Close});
    };
    CHECK_EQ(after("Mul(x, c)", "1, 1"), "Relu");
    CHECK_EQ(after("Mul(c, x)", "1, 1"), "Relu");
    CHECK_EQ(after("Mul(x, c)", "1, 2"), "Mul Relu");
    CHECK_EQ(after("Mul(x, c)", "0, 0"), "Mul Relu"); // NaN and infinities stay
    CHECK_EQ(after("Div(x, c)", "1, 1"), "Relu");
    CHECK_EQ(after("Div(c, x)", "1, 1"), "Div Relu");
    CHECK_EQ(after("Sub(x, c)", "0, 0"), "Relu");
    CHECK_EQ(after("Sub(x, c)", "0, -0.0"), "Sub Relu");
    CHECK_EQ(after("Sub(c, x)", "0, 0"), "Sub Relu");
    CHECK_EQ(after("Add(x, c)", "-0.0, -0.0"), "Relu");
    CHECK_EQ(after("Add(x, c)", "0, 0"), "Add Relu"); // -0 becomes 0
    CHECK_EQ(after("Add(x, c)", "0, 0", false), "Relu");
    CHECK_EQ(ops_after("(float[1] x) => (float[2] y) <float[2] c = {1, 1}> { a = Mul(x, c) y = Relu(a) }"), "Mul Relu");
    CHECK_EQ(ops_after("(int32[2] x) => (int32[2] y) <int32[2] c = {0, 0}> { a = Add(x, c) y = Neg(a) }"), "Neg");
}

TEST_CASE("outputs of the graph keep their names") {
    CHECK_EQ(ops_after("(float[2] x) => (float[2] y) { a = Relu(x) y = Identity(a) }"), "Relu");
    CHECK_EQ(ops_after("(float[2] x) => (float[2] y) { y = Identity(x) }"), "Identity");
    CHECK_EQ(ops_after("(float[2] x) => (float[2] a, float[2] y) { a = Relu(x) y = Identity(a) }"), "Relu Identity");
    CHECK_EQ(ops_after("(float[2] x) => (float[2] y, float[2] z) { a = Relu(x) y = Identity(a) z = Neg(a) }"),
             "Relu Neg");
}

TEST_CASE("a report says what each rule changed") {
    FixedGraph graph =
        fixed("(float[2] x) => (float[2] y) <float one = {1}> { a = Identity(x) b = Mul(a, one) y = Relu(b) }");
    const SimplifyReport report = simplify(graph);
    CHECK_EQ(report.nodes_before, 3);
    CHECK_EQ(report.nodes_after, 1);
    CHECK_EQ(report.bytes_before, 24);
    CHECK_EQ(report.bytes_after, 8);
    CHECK_EQ(report.rules.at("remove_no_op").nodes, 1);
    CHECK_EQ(report.rules.at("remove_neutral_constant").nodes, 1);
    CHECK_EQ(report.text(), "3 nodes become 1; they make 8 bytes instead of 24\n"
                            "  remove_neutral_constant     1 times,    1 nodes,            8 bytes fewer\n"
                            "  remove_no_op                1 times,    1 nodes,            8 bytes fewer\n");
    CHECK_EQ(message_of([&] { simplify(graph, {.rules = {"remove_noop"}}); }),
             "there is no rule \"remove_noop\" (did you mean 'remove_no_op'?)");
}

TEST_CASE("a graph is written as a model that passes the checker and reads back equal") {
    FixedGraph graph =
        fixed("(float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y, float[2] k) <float[2, 2, 1, 1] w = {1, 2, 3, 4}, "
              "float[2] k = {5, 6}> { c = Conv<pads = [0, 0, 0, 0], auto_pad = \"NOTSET\">(x, w, k) y = Relu(c) }");
    const Model model = to_model(graph);
    model.check();
    const std::string file = std::string(KUMIKO_BINARY_DIR) + "/test_graph_rules.onnx";
    model.save(file);
    const Model again = Model::load(file);
    again.check();
    CHECK_EQ(form_of(fix_sizes(again)), form_of(graph));
    CHECK_EQ(again.opsets(), std::map<std::string, int>{{"", 21}});
    CHECK_EQ(again.infer().at("c").text(), "c: float[1,2,2,2]");
    std::remove(file.c_str());
}

TEST_CASE("nodes of several opsets are stated in one of them, or not at all") {
    FixedGraph graph = fixed("(float[2] x) => (float[2] y) { a = Softmax(x) y = Relu(a) }");
    graph.nodes[1].opset = 14; // Relu did not change since
    CHECK_EQ(to_model(graph).opsets().at(""), 21);
    graph.nodes[1].opset = 13; // Softmax did not change either
    CHECK_EQ(to_model(graph).opsets().at(""), 13);
    graph.nodes[0].opset = 11, graph.nodes[1].opset = 14;
    CHECK_EQ(
        refusal([&] { to_model(graph); }),
        "m: node Softmax of \"a\" is of opset 11 and differs in opset 14, of which another node is; a file of ONNX has "
        "one opset of each domain");
}

TEST_CASE("divisions become multiplications by numbers, exactly for powers of two") {
    const auto after = [](const std::string &c, bool exact) {
        return ops_after("(float[2] x) => (float[2] y) <float[2] c = {" + c + "}> { y = Div(x, c) }",
                         {.rounding = exact ? Rounding::Exact : Rounding::Close});
    };
    CHECK_EQ(after("4, -0.5", true), "Mul");
    CHECK_EQ(after("4, 3", true), "Div");
    CHECK_EQ(after("4, 3", false), "Mul");
    for (const char *c : {"1, 0", "1, inf", "1, nan", "1, 1e-45", "1, 2e38"}) CHECK_EQ(after(c, false), "Div");
}

TEST_CASE("constants are merged only where nothing cancels or overflows") {
    const auto after = [](const std::string &a, const std::string &b, const std::string &nodes) {
        return ops_after("(float[2, 2] x) => (float[2, 2] y) <float" + a + ", float" + b + "> {" + nodes + "}");
    };
    CHECK_EQ(after("[2] a = {2, 3}", "[2] b = {4, 5}", "p = Mul(x, a) y = Mul(p, b)"), "Mul");
    CHECK_EQ(after("[2] a = {2, 3}", "[2] b = {4, 5}", "p = Add(x, a) y = Sub(p, b)"), "Add");
    CHECK_EQ(after("[2] a = {2, 3}", "[2] b = {4, 5}", "p = Add(x, a) y = Mul(p, b)"), "Add Mul");
    CHECK_EQ(after("[2] a = {2, 3}", "[2] b = {4, 5}", "p = Mul(x, a) y = Sub(b, p)"), "Mul Sub");
    CHECK_EQ(after("[2] a = {2, 1e30}", "[2] b = {4, 1e30}", "p = Mul(x, a) y = Mul(p, b)"), "Mul Mul");
    CHECK_EQ(after("[2] a = {2, 1e-30}", "[2] b = {4, 1e-30}", "p = Mul(x, a) y = Mul(p, b)"), "Mul Mul");
    CHECK_EQ(after("[2] a = {2, 0}", "[2] b = {4, 3}", "p = Mul(x, a) y = Mul(p, b)"), "Mul Mul");
    CHECK_EQ(after("[2] a = {2, -inf}", "[2] b = {4, 3}", "p = Add(x, a) y = Add(p, b)"), "Add Add");
    // The product of a row and a column is larger than both.
    CHECK_EQ(after("[2] a = {2, 3}", "[2, 1] b = {4, 5}", "p = Mul(x, a) y = Mul(p, b)"), "Mul Mul");
}

TEST_CASE("padding stays a node if the window's would be another") {
    const auto after = [](const std::string &pad, const std::string &window, const std::string &shape) {
        return ops_after(
            "(float[1, 1, 3, 3] x) => (float[" + shape +
            "] y) <int64[8] p = {0, 0, 1, 1, 0, 0, 1, 1}, "
            "int64[8] c = {0, 1, 0, 0, 0, 0, 0, 0}, int64[8] n = {0, 0, 1, -1, 0, 0, 1, 1}, float one = {1}, "
            "float minus = {-0.0}, float[1, 1, 2, 2] w = {1, 2, 3, 4}, float[1, 2, 2, 2] w2 = {1, 2, 3, 4, 5, "
            "6, 7, 8}> { a = " +
            pad + " y = " + window + " }");
    };
    CHECK_EQ(after("Pad(x, p)", "Conv(a, w)", "1, 1, 4, 4"), "Conv");
    CHECK_EQ(after("Pad(x, p)", "Conv<auto_pad = \"VALID\">(a, w)", "1, 1, 4, 4"), "Conv");
    CHECK_EQ(after("Pad(x, p)", "Conv<auto_pad = \"SAME_UPPER\">(a, w)", "1, 1, 5, 5"), "Pad Conv");
    CHECK_EQ(ops_after("(float[1, 1, 3] x) => (float[1, 1, 1, 4] y) <int64[2] p = {1, 1}, int64[1] d = {2}, "
                       "int64[4] s = {1, 1, 1, 5}, float zero = {0}, float[1, 1, 1, 2] w = {1, 2}> "
                       "{ a = Pad(x, p, zero, d) b = Reshape(a, s) y = Conv(b, w) }"),
             "Reshape Conv");
    CHECK_EQ(ops_after("(float[1, 2, 3] x) => (float[1, 1, 1, 9] y) <int64[2] p = {1, 1}, int64[1] d = {2}, "
                       "int64[4] s = {1, 1, 1, 10}, float zero = {0}, float[1, 1, 1, 2] w = {1, 2}> "
                       "{ a = Pad(x, p, zero, d) b = Reshape(a, s) y = Conv(b, w) }"),
             "Pad Reshape Conv");
    CHECK_EQ(after("Pad(x, p, one)", "Conv(a, w)", "1, 1, 4, 4"), "Pad Conv");
    CHECK_EQ(after("Pad(x, p, minus)", "Conv(a, w)", "1, 1, 4, 4"), "Pad Conv");
    CHECK_EQ(after("Pad<mode = \"edge\">(x, p)", "Conv(a, w)", "1, 1, 4, 4"), "Pad Conv");
    CHECK_EQ(after("Pad(x, c)", "Conv(a, w2)", "1, 1, 2, 2"), "Pad Conv");
    CHECK_EQ(after("Pad(x, n)", "Conv(a, w)", "1, 1, 4, 2"), "Pad Conv");
    CHECK_EQ(after("Pad(x, p)", "AveragePool<kernel_shape = [2, 2]>(a)", "1, 1, 4, 4"), "AveragePool");
    CHECK_EQ(after("Pad(x, p)", "AveragePool<kernel_shape = [2, 2], pads = [1, 1, 1, 1]>(a)", "1, 1, 6, 6"),
             "Pad AveragePool");
    CHECK_EQ(after("Pad(x, p)", "AveragePool<kernel_shape = [2, 2], ceil_mode = 1>(a)", "1, 1, 4, 4"),
             "Pad AveragePool");
    CHECK_EQ(after("Pad(x, p)", "MaxPool<kernel_shape = [2, 2]>(a)", "1, 1, 4, 4"), "Pad MaxPool");
}

TEST_CASE("strides move before nodes whose other pixels nothing reads") {
    const auto graph = [](const std::string &outputs, const std::string &nodes, int opset = 21) {
        return fixed(
            "(float[1, 2, 5, 6] x, float[1, 2, 1, 1] k) => (" + outputs +
                ") <float[2, 2, 3, 3] w = {1, -2, 3, 4, -5, 6, 7, 8, -9, 1, 2, 3, -4, 5, 6, 7, -8, 9, 2, 4, 6, "
                "8, 1, 3, 5, 7, 9, 3, 1, 4, 1, 5, 9, 2, 6, 5}, float[1, 2, 1, 1] u = {2, -1}> { " +
                nodes + " }",
            opset);
    };
    const auto after = [&](const std::string &outputs, const std::string &nodes, int opset = 21) {
        const FixedGraph before = graph(outputs, nodes, opset);
        FixedGraph made = before;
        simplify(made, {.rules = {"strides_before_readers"}});
        check_same(before, made, Rounding::Exact, 7);
        std::string text;
        for (const Node &n : made.nodes) {
            text += (text.empty() ? "" : " ") + n.op;
            for (const int64_t stride : n.integers("strides")) text += fmt::format(" {}", stride);
        }
        return text;
    };
    const std::string conv = "a = Conv<pads = [1, 1, 1, 1]>(x, w) ", y = "y = Conv<strides = [2, 3]>(b, u) ",
                      result = "float[1, 1, 3, 2] y";
    CHECK_EQ(after(result, conv + "b = Relu(a) " + y), "Conv 2 3 Relu Conv 1 1");
    // A tensor that is the same for all pixels is read as it is, and another one by its pixels.
    CHECK_EQ(after(result, conv + "c = Mul(a, k) b = Add(c, x) " + y), "Conv 2 3 Mul Slice Add Conv 1 1");
    CHECK_EQ(after(result, conv + "b = Add(a, x) " + y, 9), "Conv 2 3 MaxPool 2 3 Add Conv 1 1");
    CHECK_EQ(after("float[1, 1, 2, 2] y", "a = MaxPool<kernel_shape = [2, 2], strides = [2, 1]>(x) b = Neg(a) "
                                          "y = Conv<strides = [1, 3]>(b, u) "),
             "MaxPool 2 3 Neg Conv 1 1");
    // Pixels that something else reads are computed.
    CHECK_EQ(after(result + ", float[1, 2, 5, 6] b", conv + "b = Relu(a) " + y), "Conv Relu Conv 2 3");
    CHECK_EQ(after(result + ", float[1, 2, 5, 6] z", conv + "b = Relu(a) z = Exp(b) " + y), "Conv Relu Exp Conv 2 3");
    CHECK_EQ(after(result + ", float[1, 2, 5, 6] z", conv + "b = Relu(a) z = Exp(a) " + y), "Conv Relu Exp Conv 2 3");
    CHECK_EQ(after(result + ", float[1, 1, 3, 3] z", conv + "b = Relu(a) z = Conv<strides = [2, 2]>(b, u) " + y),
             "Conv Relu Conv 2 2 Conv 2 3");
    CHECK_EQ(after(result, "a = Conv<auto_pad = \"SAME_UPPER\">(x, w) b = Relu(a) " + y), "Conv Relu Conv 2 3");
    CHECK_EQ(after("float[1, 1, 4, 3] y", conv + "b = Relu(a) y = Conv<strides = [2, 3], pads = [1, 1, 1, 1]>(b, u) "),
             "Conv Relu Conv 2 3");
    CHECK_EQ(after(result, "b = Relu(x) " + y), "Relu Conv 2 3");
    // A window of the region that reads all pixels of a tensor keeps them.
    const std::string both = conv + "c = Conv<pads = [1, 1, 1, 1]>(a, w) ";
    CHECK_EQ(after(result, both + "b = Add(c, a) " + y), "Conv Conv 2 3 Slice Add Conv 1 1");
    CHECK_EQ(after(result, both + "b = Add(a, c) " + y), "Conv Conv 2 3 Slice Add Conv 1 1");
    // Strides whose product exceeds the largest one leave one pixel.
    CHECK_EQ(after("float[1, 1, 1, 2] y", "a = Conv<pads = [1, 1, 1, 1], strides = [65536, 1]>(x, w) b = Neg(a) "
                                          "y = Conv<strides = [65536, 3]>(b, u) "),
             "Conv 2147483647 3 Neg Conv 1 1");
    // NaN remains in pixels that a MaxPool takes.
    const FixedGraph old = fixed("(float[1, 1, 1, 5] x, float[1, 1, 1, 5] z) => (float[1, 1, 1, 3] y) "
                                 "<float[1, 1, 1, 1] u = {2}> { a = Conv(z, u) b = Add(a, x) "
                                 "y = Conv<strides = [1, 2]>(b, u) }",
                                 9);
    FixedGraph made = old;
    simplify(made, {.rules = {"strides_before_readers"}});
    CHECK_EQ(ops_of(made), "Conv MaxPool Add Conv");
    for (uint32_t seed = 0; seed < 10; seed++) check_same(old, made, Rounding::Exact, seed);
}

TEST_CASE("pointwise nodes move before a view only to join the node that computes its input") {
    const auto after = [](const std::string &nodes, const std::string &outputs = "float[6] y") {
        return ops_after("(float[2, 3] x, float[2, 3] z, float[6] v) => (" + outputs + ") <int64[1] s = {6}, " +
                         "float[6] c = {1, 2, 3, 4, 5, 6}> {" + nodes + "}");
    };
    CHECK_EQ(after("a = Softmax(x) b = Reshape(a, s) d = Mul(b, c) y = Exp(d)"), "Softmax Mul Exp Reshape");
    CHECK_EQ(after("a = Softmax(x) b = Reshape(a, s) d = Reshape(z, s) y = Mul(b, d)"), "Softmax Mul Reshape");
    CHECK_EQ(after("a = Softmax(x) b = Reshape(a, s) y = Mul(b, b)"), "Softmax Mul Reshape");
    CHECK_EQ(after("b = Reshape(x, s) y = Exp(b)"), "Reshape Exp");
    CHECK_EQ(after("a = Softmax(x) b = Reshape(a, s) y = Mul(b, v)"), "Softmax Reshape Mul");
    CHECK_EQ(after("a = Softmax(x) b = Reshape(a, s) y = Exp(b)", "float[6] b, float[6] y"), "Softmax Reshape Exp");
    CHECK_EQ(after("a = Softmax(x) b = Reshape(a, s) y = Exp(b) w = Neg(a)", "float[2, 3] w, float[6] y"),
             "Softmax Reshape Exp Neg");
    // Constants that the shape before has no axis for.
    CHECK_EQ(ops_after("(float[6, 2] x) => (float[2, 3, 2] y) <int64[3] s = {2, 3, 2}, float[3, 1] c = {1, 2, 3}> "
                       "{ a = Softmax(x) b = Reshape(a, s) y = Mul(b, c) }"),
             "Softmax Reshape Mul");
    CHECK_EQ(ops_after("(float[6, 2] x) => (float[2, 3, 2] y) <int64[3] s = {2, 3, 2}, float[2] c = {1, 2}> "
                       "{ a = Softmax(x) b = Reshape(a, s) y = Mul(b, c) }"),
             "Softmax Mul Reshape");
}

TEST_CASE("casts that lose bits stay") {
    const auto after = [](const std::string &from, int through, int to, const std::string &made) {
        return ops_after(
            fmt::format("({}[2] x) => ({}[2] y) {{ a = Cast<to = {}>(x) b = Cast<to = {}>(a) y = Neg(b) }}", from, made,
                        through, to));
    };
    CHECK_EQ(after("float", 11, 1, "float"), "Neg");
    CHECK_EQ(after("float", 10, 1, "float"), "Cast Cast Neg");
    CHECK_EQ(after("int32", 1, 6, "int32"), "Cast Cast Neg"); // float has 24 bits
    CHECK_EQ(after("int32", 11, 6, "int32"), "Neg");
    CHECK_EQ(after("int32", 7, 1, "float"), "Cast Neg");
    CHECK_EQ(after("int32", 3, 7, "int64"), "Cast Cast Neg");
}

TEST_CASE("transposes cancel across branches, and stay where that would need others") {
    const std::string to = "Transpose<perm = [0, 2, 3, 1]>", back = "Transpose<perm = [0, 3, 1, 2]>";
    const auto after = [&](const std::string &nodes, const std::string &outputs = "float[1, 2, 3, 4] y") {
        return ops_after("(float[1, 2, 3, 4] x, float[1, 2, 3, 4] z, float[1, 3, 4, 2] t) => (" + outputs +
                         ") <float[2] c = {1, 2}, float[3, 1, 1] d = {3, 4, 5}> {" + nodes + "}");
    };
    CHECK_EQ(after("a = " + to + "(x) b = " + to +
                   "(z) s = Mul(a, b) r = Add(s, d) q = Sigmoid(r) m = Mul(r, q) y = " + back + "(m)"),
             "Mul Add Sigmoid Mul");
    // One transpose instead of two: but those are part of the product's kernel, and that would be a
    // copy.
    CHECK_EQ(after("a = " + to + "(x) b = " + to + "(z) s = Mul(a, b) y = Relu(s)", "float[1, 3, 4, 2] y"),
             "Transpose Transpose Mul Relu");
    CHECK_EQ(after("a = " + to + "(x) s = Mul(a, c) y = Relu(s)", "float[1, 3, 4, 2] y"), "Transpose Mul Relu");
    // As many as before.
    CHECK_EQ(after("a = " + to + "(x) s = Mul(a, t) y = " + back + "(s)"), "Transpose Mul");
    CHECK_EQ(after("a = " + to + "(x) s = Sigmoid(a) y = " + back + "(s)", "float[1, 3, 4, 2] s, float[1, 2, 3, 4] y"),
             "Sigmoid Transpose");
    CHECK_EQ(after("a = " + to + "(x) b = " + to + "(z) s = Concat<axis = -1>(a, b) y = " + back + "(s)",
                   "float[1, 4, 3, 4] y"),
             "Concat");
    // Broadcast along an axis that the input lacks.
    CHECK_EQ(ops_after("(float[3, 4] x, float[2] z) => (float[2, 4, 3] y) <int64[3] s = {2, 1, 1}> { a = Transpose(x) "
                       "b = Reshape(z, s) y = Add(a, b) }"),
             "Transpose Reshape Add");
}

TEST_CASE("equal nodes of different attributes or constants stay") {
    const auto after = [](const std::string &nodes) {
        return ops_after("(float[2] x) => (float[2] y) <float a = {0}, float b = {-0.0}> {" + nodes + "}");
    };
    CHECK_EQ(after("p = Elu<alpha = 2.0>(x) q = Elu<alpha = 2.0>(x) y = Mul(p, q)"), "Elu Mul");
    CHECK_EQ(after("p = Elu<alpha = 2.0>(x) q = Elu<alpha = 3.0>(x) y = Mul(p, q)"), "Elu Elu Mul");
    CHECK_EQ(after("p = Max(x, a) q = Max(x, b) y = Div(p, q)"), "Max Max Div");
    // Two outputs of the graph cannot be one value.
    CHECK_EQ(ops_after("(float[2] x) => (float[2] y, float[2] z) { y = Exp(x) z = Exp(x) }"), "Exp Exp");
}

namespace {

// Graphs of matrices, and of images [1, channels, height, width] or their transposes, with what
// rules look for.
class RandomGraph {
public:
    RandomGraph(Random &rng, bool exact) : rng_(rng), exact_(exact) {}

    FixedGraph make() {
        graph_.name = "random";
        for (int i = 0; i < 2; i++) {
            ValueInfo in{"in" + std::to_string(i), f32, "float", std::vector<Dimension>()};
            const Extents extents = i == 0 && rng_.chance(0.5) ? Extents{4, 3} : Extents{1, 2, 3, 4};
            for (const int64_t e : extents) in.shape->push_back({e, ""});
            graph_.inputs.push_back(in);
            values_.push_back({in.name, extents});
        }
        const int steps = static_cast<int>(rng_.between(3, 14));
        for (int s = 0; s < steps; s++) step();
        const Value last = values_.back();
        graph_.outputs.push_back({last.name, f32, "float", {}});
        if (const Value other = rng_.pick(values_); other.name != last.name && rng_.chance(0.5))
            graph_.outputs.push_back({other.name, f32, "float", {}});
        for (ValueInfo &o : graph_.outputs) {
            o.shape.emplace();
            for (const Value &v : values_) {
                if (v.name != o.name) continue;
                for (const int64_t e : v.extents) o.shape->push_back({e, ""});
            }
        }
        return fix_sizes(Model::of_graph(graph_, "random"));
    }

private:
    struct Value {
        std::string name;
        Extents extents;
    };

    std::string constant(const Buffer<> &b) {
        const std::string name = "k" + std::to_string(graph_.constants.size());
        graph_.constants[name] = b;
        return name;
    }
    std::string integers(const std::vector<int64_t> &all) { return constant(int64_tensor(all, {int64_t(all.size())})); }

    std::string numbers(const Extents &extents) {
        Buffer<> b = random_buffer(f32, extents, rng_(), 0.5, 2);
        const int kind = static_cast<int>(rng_.below(8));
        const float fill[] = {1, 0, -0.f, 2, 0.5f};
        for (size_t n = 0; n < b.number_of_elements(); n++) {
            float &v = static_cast<float *>(b.data())[n];
            if (rng_.chance(0.3)) v = -v;
            if (kind < 5 && (exact_ || fill[kind] != 0)) v = fill[kind];
        }
        return constant(b);
    }

    std::string add(const std::string &op, const std::vector<std::string> &inputs, const Extents &extents,
                    const std::map<std::string, Attribute> &attributes = {}) {
        Node n;
        n.op = op, n.opset = 21, n.inputs = inputs, n.attributes = attributes;
        n.outputs = {"v" + std::to_string(made_++)};
        graph_.nodes.push_back(n);
        values_.push_back({n.outputs[0], extents});
        return n.outputs[0];
    }

    static std::map<std::string, Attribute> ints(const std::string &name, const std::vector<int64_t> &all) {
        return {{name, Attribute{all}}};
    }

    static bool is_image(const Value &v) { return v.extents.size() == 4; }

    void copy(const Value &v) {
        const Extents &e = v.extents;
        add(rng_.pick<std::string>({"Identity", "Dropout"}), {v.name}, e);
    }

    void apply_function(const Value &v) {
        const Extents &e = v.extents;
        if (rng_.chance(0.2))
            add("Pow", {v.name, constant(Buffer<>(random_buffer(f32, {}, 1, 2, 2)))}, e);
        else
            add(rng_.pick<std::string>({"Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Identity"}), {v.name}, e);
    }

    // Arithmetic with a constant.
    void with_constant(const Value &v) {
        const Extents &e = v.extents;
        Extents c;
        switch (rng_.below(4)) {
        case 0:
            break;
        case 1:
            c = {e.back()};
            break;
        case 2:
            c = e;
            break;
        default:
            if (e.size() > 1) c.assign(e.size() - 1, 1), c[0] = e[1];
        }
        const std::string k = numbers(c), op = rng_.pick<std::string>({"Mul", "Div", "Add", "Sub"});
        const bool first = rng_.chance(0.8);
        add(op, {first ? v.name : k, first ? k : v.name}, e);
    }

    // Arithmetic of two values.
    void with_other(const Value &v) {
        const Extents &e = v.extents;
        std::vector<Value> same;
        for (const Value &o : values_) {
            if (o.extents == e) same.push_back(o);
        }
        add(rng_.pick<std::string>({"Add", "Mul", "Sub", "Max"}), {v.name, rng_.pick(same).name}, e);
    }

    void transpose(const Value &v) {
        const Extents &e = v.extents;
        std::vector<int64_t> order(e.size());
        for (size_t d = 0; d < order.size(); d++) order[d] = int64_t(d);
        rng_.shuffle(order);
        if (is_image(v) && rng_.chance(0.7))
            order = rng_.chance(0.5) ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 3, 1, 2};
        Extents to;
        for (const int64_t d : order) to.push_back(e[size_t(d)]);
        add("Transpose", {v.name}, to, ints("perm", order));
    }

    void reshape(const Value &v) {
        const Extents &e = v.extents;
        int64_t all = 1;
        for (const int64_t d : e) all *= d;
        const Extents to = rng_.chance(0.3)   ? Extents{all}
                           : rng_.chance(0.5) ? Extents{e[0], all / e[0]}
                                              : Extents{1, e.back(), all / e.back(), 1};
        const std::string flat = add("Reshape", {v.name, integers(to)}, to);
        if (rng_.chance(0.5)) add("Reshape", {flat, integers(e)}, e);
    }

    void insert_axis(const Value &v) {
        const Extents &e = v.extents;
        Extents to = e;
        to.insert(to.begin(), 1);
        const std::string more = add("Unsqueeze", {v.name, integers({0})}, to);
        add("Squeeze", {more, integers({0})}, e);
    }

    // Through another type.
    void through_type(const Value &v) {
        const Extents &e = v.extents;
        const int64_t type = rng_.pick<int64_t>({1, 11, 10});
        const std::string to = add("Cast", {v.name}, e, {{"to", Attribute{type}}});
        if (type == 1) return;
        values_.pop_back(); // no f32
        add("Cast", {to}, e, {{"to", Attribute{int64_t(1)}}});
    }

    void normalise(const Value &v) {
        if (!is_image(v)) return;
        const Extents &e = v.extents;
        const std::string s = numbers({e[1]}), b = numbers({e[1]}), m = numbers({e[1]});
        const std::string variance = constant(random_buffer(f32, {e[1]}, rng_(), 0.5, 2));
        add("BatchNormalization", {v.name, s, b, m, variance}, e);
    }

    void convolve(const Value &v) {
        if (!is_image(v)) return;
        const Extents &e = v.extents;
        const int64_t k = std::min({rng_.between(1, 2), e[2], e[3]}), out = rng_.between(1, 3);
        const bool back = rng_.chance(0.3);
        std::string w = numbers(back ? Extents{e[1], out, k, k} : Extents{out, e[1], k, k});
        if (!weights_.empty() && rng_.chance(0.3)) {
            const Value old = rng_.pick(weights_);
            if (!back && old.extents == Extents{out, e[1], k, k}) w = old.name;
        }
        if (!back) weights_.push_back({w, {out, e[1], k, k}});
        std::vector<std::string> inputs = {v.name, w};
        if (rng_.chance(0.4)) inputs.push_back(numbers({out}));
        const int64_t more = back ? k - 1 : 1 - k;
        const Extents made = {e[0], out, e[2] + more, e[3] + more};
        std::string c = add(back ? "ConvTranspose" : "Conv", inputs, made);
        if (!rng_.chance(0.3)) return;
        if (rng_.chance(0.5)) c = add("Add", {c, rng_.chance(0.5) ? c : numbers(made)}, made);
        const std::vector<int64_t> by = {rng_.between(1, 2), 2};
        add("Conv", {c, numbers({2, out, 1, 1})}, {made[0], 2, (made[2] - 1) / by[0] + 1, (made[3] - 1) / by[1] + 1},
            ints("strides", by));
    }

    void pad(const Value &v) {
        if (!is_image(v)) return;
        const Extents &e = v.extents;
        const Extents to = {e[0], e[1], e[2] + 1, e[3] + 2};
        const std::string padded = add("Pad", {v.name, integers({0, 0, 1, 1, 0, 0, 0, 1})}, to);
        if (rng_.chance(0.5))
            add("AveragePool", {padded}, {e[0], e[1], e[2], e[3] + 1}, ints("kernel_shape", {2, 2}));
        else
            add("Conv", {padded, numbers({2, e[1], 2, 2})}, {e[0], 2, e[2], e[3] + 1});
    }

    // Joined, and taken apart.
    void join_and_slice(const Value &v) {
        const Extents &e = v.extents;
        const auto axis = int64_t(rng_.below(e.size()));
        Extents to = e;
        to[size_t(axis)] *= 2;
        const std::string other = add("Neg", {v.name}, e);
        const std::string both = add("Concat", {v.name, other}, to, {{"axis", Attribute{axis}}});
        if (rng_.chance(0.3)) {
            to[size_t(axis)] += e[size_t(axis)];
            add("Concat", {v.name, both}, to, {{"axis", Attribute{axis}}});
            return;
        }
        const int64_t begin = rng_.chance(0.7) ? e[size_t(axis)] : 1;
        add("Slice", {both, integers({begin}), integers({begin + e[size_t(axis)]}), integers({axis})}, e);
        if (begin != e[size_t(axis)] && begin + e[size_t(axis)] > to[size_t(axis)]) values_.pop_back();
    }

    // Taken apart, and joined.
    void slice_and_join(const Value &v) {
        const Extents &e = v.extents;
        const auto axis = int64_t(rng_.below(e.size()));
        const int64_t all = e[size_t(axis)];
        if (all < 2) return;
        Extents a = e, b = e;
        a[size_t(axis)] = 1, b[size_t(axis)] = all - 1;
        const std::string p = add("Slice", {v.name, integers({0}), integers({1}), integers({axis})}, a);
        const std::string q = add("Slice", {v.name, integers({1}), integers({INT64_MAX}), integers({axis})}, b);
        const bool right = rng_.chance(0.7);
        add("Concat", {right ? p : q, right ? q : p}, e, {{"axis", Attribute{axis}}});
    }

    void multiply(const Value &v) {
        const Extents &e = v.extents;
        if (e.size() == 2) {
            const std::string t = add("Transpose", {v.name}, {e[1], e[0]});
            const int64_t n = rng_.between(1, 3);
            if (rng_.chance(0.5))
                add("MatMul", {t, numbers({e[0], n})}, {e[1], n});
            else
                add("Gemm", {t, numbers({e[0], n})}, {e[1], n}, {{"alpha", Attribute{0.5f}}});
        } else {
            const int64_t n = rng_.between(1, 3);
            Extents to = e;
            to.back() = n;
            add("MatMul", {v.name, numbers({e.back(), n})}, to);
        }
    }

    // An earlier node again.
    void repeat(const Value &) {
        if (!graph_.nodes.empty()) {
            const Node n = rng_.pick(graph_.nodes);
            for (const Value &o : std::vector<Value>(values_)) {
                if (o.name == n.outputs[0]) add(n.op, n.inputs, o.extents, n.attributes);
            }
        }
    }

    void step() {
        static constexpr void (RandomGraph::*steps[])(const Value &) = {
            &RandomGraph::copy,           &RandomGraph::apply_function, &RandomGraph::with_constant,
            &RandomGraph::with_constant,  &RandomGraph::with_constant,  &RandomGraph::with_other,
            &RandomGraph::transpose,      &RandomGraph::transpose,      &RandomGraph::reshape,
            &RandomGraph::insert_axis,    &RandomGraph::through_type,   &RandomGraph::normalise,
            &RandomGraph::convolve,       &RandomGraph::convolve,       &RandomGraph::pad,
            &RandomGraph::join_and_slice, &RandomGraph::slice_and_join, &RandomGraph::multiply,
            &RandomGraph::multiply,       &RandomGraph::repeat};
        // Mostly from the last value, so that chains arise.
        const Value v = rng_.chance(0.75) ? values_.back() : rng_.pick(values_);
        (this->*steps[rng_.below(std::size(steps))])(v);
    }

    Random &rng_;
    const bool exact_;
    Graph graph_;
    std::vector<Value> values_, weights_;
    int made_ = 0;
};

// The largest size of any value, infinities and NaN apart.
double largest_value(const Model &model, const std::vector<Buffer<>> &inputs) {
    double largest = 1;
    EvaluateOptions options;
    options.made = [&](const std::string &, const Buffer<> &b) {
        if (Type(b.type()) != f32) return;
        for (size_t n = 0; n < b.number_of_elements(); n++) {
            const double v = std::abs(static_cast<const float *>(b.data())[n]);
            if (std::isfinite(v)) largest = std::max(largest, v);
        }
    };
    evaluate(model, inputs, options);
    return largest;
}

} // namespace

TEST_CASE("random graphs have the same values after all rules, in any order") {
    const uint64_t seed = 20261130;
    std::map<std::string, int> fired;
    for (uint64_t n = 0; n < 300; n++) {
        const bool exact = n % 2 == 0;
        const Rounding rounding = exact ? Rounding::Exact : n % 4 == 1 ? Rounding::Close : Rounding::Fast;
        CAPTURE(seed + n);
        Random rng(seed + n);
        const FixedGraph before = RandomGraph(rng, exact).make();
        std::vector<std::string> order;
        for (const Rule &r : all_rules()) order.push_back(r.name);
        rng.shuffle(order);
        FixedGraph after = before;
        const SimplifyReport report = simplify(after, {.rounding = rounding, .rules = order});
        for (const auto &[name, count] : report.rules) fired[name] += count.applied;
        CHECK_EQ(report.nodes_after, after.nodes.size());
        FixedGraph again = after;
        CHECK(simplify(again, {.rounding = rounding}).rules.empty());
        const Model a = to_model(before), b = to_model(after);
        CHECK_NOTHROW(b.check());
        for (int round = 0; round < 2; round++) {
            const std::vector<Buffer<>> inputs = inputs_of(before, rng, exact && round > 0);
            const std::vector<Buffer<>> x = evaluate(a, inputs), y = evaluate(b, inputs);
            const double bound = 2e-5 * largest_value(a, inputs);
            for (size_t o = 0; o < x.size(); o++) {
                if (exact)
                    CHECK_EQ(difference(y[o], x[o]), "");
                else
                    CHECK_NOTHROW(check_close(y[o], x[o], {2e-5, bound}));
            }
        }
    }
    for (const Rule &r : all_rules()) {
        CAPTURE(r.name);
        // The images are too small for other algorithms. test_graph_quantised.cpp has random
        // quantised graphs.
        const bool quantised = r.before.find("int8") != std::string::npos;
        if (r.rounding != Rounding::Fast && !quantised) CHECK_GT(fired[r.name], 0);
    }
}

TEST_CASE("only convolutions for which Winograd's algorithm pays are computed by it, in the tile that fits") {
    const auto tiles = [](const std::string &attributes, const std::string &weights, const std::string &image,
                          Rounding rounding = Rounding::Fast) {
        FixedGraph graph = fixed("(float[" + image + "] x) => (float y) <int64[4] s = {" + weights +
                                 "}> { w = ConstantOfShape<value = float[1] {0.5}>(s) c = Conv<pads = [1, 1, 1, 1]" +
                                 attributes + ">(x, w) y = ReduceSum<keepdims = 0>(c) }");
        simplify(graph, {.rounding = rounding});
        for (const Node &n : graph.nodes) {
            if (n.op == "Conv") return n.metadata.count(winograd_key) ? n.metadata.at(winograd_key) : "none";
        }
        return std::string("no Conv");
    };
    CHECK_EQ(tiles("", "16, 16, 3, 3", "1, 16, 16, 16"), "4");
    CHECK_EQ(tiles("", "16, 16, 3, 3", "1, 16, 16, 16", Rounding::Close), "none");
    CHECK_EQ(tiles("", "16, 16, 3, 3", "1, 16, 8, 8"), "2"); // too few tiles of 4 × 4
    CHECK_EQ(tiles("", "16, 16, 3, 3", "1, 16, 6, 4"), "none");
    CHECK_EQ(tiles("", "16, 16, 3, 3", "4, 16, 8, 8"), "4");
    CHECK_EQ(tiles("", "8, 16, 3, 3", "1, 16, 16, 16"), "none");
    CHECK_EQ(tiles("", "16, 8, 3, 3", "1, 8, 16, 16"), "none");
    CHECK_EQ(tiles(", group = 2", "32, 16, 3, 3", "1, 32, 16, 16"), "none");
    CHECK_EQ(tiles(", dilations = [2, 2]", "16, 16, 3, 3", "1, 16, 16, 16"), "none");
    CHECK_EQ(tiles(", strides = [2, 1]", "16, 16, 3, 3", "1, 16, 16, 16"), "none");
    CHECK_EQ(tiles(", strides = [3, 3]", "16, 16, 3, 3", "1, 16, 64, 64"), "none");
    CHECK_EQ(tiles("", "16, 16, 1, 3", "1, 16, 16, 16"), "none");
    CHECK_EQ(tiles("", "16, 16, 5, 5", "1, 16, 16, 16"), "none");
    CHECK_EQ(message_of([] { rounding_named("fats"); }),
             "the rounding is \"fats\"; legal are exact, close and fast (did you mean 'fast'?)");
}

TEST_CASE("the tile of a Conv is kept in the model of ONNX, and must be legal") {
    FixedGraph graph = fixed("(float[1, 16, 16, 16] x) => (float[1, 16, 16, 16] y) <int64[4] s = {16, 16, 3, 3}> "
                             "{ w = ConstantOfShape<value = float[1] {0.5}>(s) y = Conv<pads = [1, 1, 1, 1]>(x, w) }");
    simplify(graph, {.rounding = Rounding::Fast});
    FixedGraph again = fix_sizes(to_model(graph));
    REQUIRE_EQ(again.nodes.size(), 1);
    CHECK_EQ(again.nodes[0].metadata.at(winograd_key), "4");
    again.nodes[0].metadata[winograd_key] = "6";
    CHECK(message_of([&] {
              fix_sizes(to_model(again));
          }).find("its metadata kumiko.winograd_tile is \"6\"; legal are 2 and 4") != std::string::npos);
    again.nodes[0].metadata[winograd_key] = "4";
    again.nodes[0].attributes["dilations"].value = std::vector<int64_t>{2, 2};
    again.nodes[0].attributes["pads"].value = std::vector<int64_t>{2, 2, 2, 2};
    CHECK(message_of([&] { fix_sizes(to_model(again)); })
              .find("its metadata kumiko.winograd_tile is for f32, a window of 3 × 3, dilation 1, stride 1 or 2, and "
                    "one group") != std::string::npos);
}

TEST_CASE("long chains are simplified in one pass over them") {
    std::string body, constants = "float one = {1}, int64[2] s = {2, 3}, int64[1] f = {-1}";
    const int count = 2000;
    for (int n = 0; n < count; n++) {
        const std::string from = "v" + std::to_string(n), to = "v" + std::to_string(n + 1);
        body += to + (n % 4 == 0   ? " = Reshape(" + from + ", f) "
                      : n % 4 == 1 ? " = Reshape(" + from + ", s) "
                      : n % 4 == 2 ? " = Mul(" + from + ", one) "
                                   : " = Transpose<perm = [0, 1]>(" + from + ") ");
    }
    CHECK_EQ(ops_after("(float[2, 3] v0) => (float[2, 3] y) <" + constants + "> {" + body + " y = Relu(v" +
                       std::to_string(count) + ") }"),
             "Relu");
}

TEST_CASE("older operator sets keep their forms") {
    const auto after = [](int opset, const std::string &text) {
        FixedGraph graph = fixed(text, opset);
        const FixedGraph before = graph;
        simplify(graph, {.rounding = Rounding::Exact});
        check_same(before, graph, Rounding::Exact, 3);
        to_model(graph).check();
        return ops_of(graph);
    };
    CHECK_EQ(after(9, "(float[2, 3] x) => (float[2, 3] y) { a = Slice<axes = [1], starts = [0], ends = [9]>(x) "
                      "b = Unsqueeze<axes = [0]>(a) c = Squeeze<axes = [0]>(b) d = Dropout(c) y = Relu(d) }"),
             "Relu");
    CHECK_EQ(after(9, "(float[1, 1, 3, 3] x) => (float[1, 1, 4, 4] y) <float[1, 1, 2, 2] w = {1, 2, 3, 4}> "
                      "{ a = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1]>(x) y = Conv(a, w) }"),
             "Conv");
    CHECK_EQ(after(9, "(float[1, 1, 3, 3] x) => (float[1, 1, 4, 4] y) <float[1, 1, 2, 2] w = {1, 2, 3, 4}> "
                      "{ a = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1], value = 1.0>(x) y = Conv(a, w) }"),
             "Pad Conv");
    CHECK_EQ(after(9, "(float[2, 3] a, float[2, 4] b) => (float[2, 3] y, float[2, 4] z) { c = Concat<axis = 1>(a, b) "
                      "q, r = Split<axis = 1, split = [3, 4]>(c) y = Relu(q) z = Relu(r) }"),
             "Relu Relu");
    // A Gemm without a bias is legal from 11 on.
    const std::string product =
        "(float[2, 3] x, float[4, 3] w) => (float[2, 4] y) { t = Transpose(w) y = MatMul(x, t) }";
    CHECK_EQ(after(9, product), "Transpose MatMul");
    CHECK_EQ(after(11, product), "Gemm");
    const std::string sum =
        "(float[2, 3] x) => (float[2, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {7, 8}, "
        "float c = {0}> { p = Gemm(x, w, c) y = Add(p, b) }";
    CHECK_EQ(after(9, sum), "Gemm Add"); // the sum of biases rounds
}

TEST_CASE("tensors without axes and without elements") {
    CHECK_EQ(
        ops_after("(float x) => (float y) <float one = {1}, int64[1] d = {0}> { a = Mul(x, one) b = Unsqueeze(a, d) "
                  "c = Squeeze(b, d) e = Div(c, one) y = Relu(e) }"),
        "Relu");
    FixedGraph graph = fixed("(float[0, 3] x) => (float[0, 3] y, float[3] z) <int64[1] d = {0}> { y = Relu(x) "
                             "z = ReduceSum<keepdims = 0>(y, d) }");
    simplify(graph);
    to_model(graph).check();
    CHECK_EQ(graph.value("y").extents, Extents{0, 3});
}

TEST_CASE("weights of transposed and grouped convolutions, and of both forms of Gemm, are scaled") {
    const std::string six = " = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}";
    const auto check = [](const std::string &text) {
        const FixedGraph before = fixed(text);
        FixedGraph after = before;
        simplify(after, {.rules = {"fold_into_weights"}});
        CHECK_EQ(after.nodes.size(), 1);
        check_same(before, after, Rounding::Close, 4);
    };
    check("(float[1, 4, 2, 2] x) => (float[1, 4, 2, 2] y) <float[4, 2, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8}, "
          "float[4, 1, 1] k = {1, -2, 3, 0.5}> { c = ConvTranspose<group = 2>(x, w) y = Mul(c, k) }");
    check("(float[1, 4, 2, 2] x) => (float[1, 6, 2, 2] y) <float[6, 2, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "
          "12}, "
          "float[6, 1, 1] k = {1, -2, 3, 0.5, 7, 9}, float[6] b = {1, 2, 3, 4, 5, 6}> "
          "{ c = Conv<group = 2>(x, w, b) d = Sub(c, k) e = Div(d, k) y = Neg(e) }");
    for (const char *form : {"[4, 3] w", "[3, 4] w"}) {
        check(std::string("(float[2, 4] x) => (float[2, 3] y) <float") + form +
              " = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[3] k = {1, -2, 3}, float[1, 3] c = {5, 6, 7}> { p = "
              "Gemm<" +
              (form[1] == '3' ? "transB = 1, " : "") +
              "alpha = 0.5, beta = 3.0>(x, w, c) q = Mul(p, k) y = Add(q, k) }");
    }
    check("(float[4] x) => (float[3] y) <float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[3] k = {1, -2, "
          "3}> "
          "{ p = MatMul(x, w) y = Mul(k, p) }");
    check("(float[2, 1, 4] x) => (float[2, 1, 2] y) <float[2, 4, 2] w" + six +
          ", float[2] k = {3, -2}> "
          "{ p = MatMul(x, w) y = Mul(k, p) }");
    check("(double[2, 4] x) => (double[2, 2] y) <double[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}, double[2] k = {3, -2}> "
          "{ p = MatMul(x, w) y = Mul(p, k) }");
    // A vector of weights has no channels, and a MatMul no bias.
    CHECK_EQ(ops_after("(float[3, 4] x) => (float[3] y) <float[4] w = {1, 2, 3, 4}, float[3] k = {3, -2, 5}> "
                       "{ p = MatMul(x, w) y = Mul(p, k) }"),
             "MatMul Mul");
    CHECK_EQ(ops_after("(float[3, 4] x) => (float[3, 1] y) <float[4, 1] w = {1, 2, 3, 4}, float[1] k = {3}> "
                       "{ p = MatMul(x, w) y = Add(p, k) }"),
             "MatMul Add");
}

TEST_CASE("a rewriter refuses graphs that are wrong") {
    const FixedGraph graph = fixed("(float[2, 3] x) => (float[2, 3] y) { a = Neg(x) b = Exp(a) y = Abs(b) }");
    const auto error = [&](const std::function<void(Rewriter &, const Node &)> &change) {
        Rewriter rewriter(graph);
        try {
            change(rewriter, *rewriter.producer("b"));
        } catch (const InternalError &e) {
            return std::string(e.what());
        }
        return std::string("no error");
    };
    const auto with = [](Node node, const std::string &op, const std::string &input, const std::string &output) {
        node.op = op, node.inputs = {input}, node.outputs = {output};
        return node;
    };
    CHECK_EQ(error([&](Rewriter &r, const Node &n) { r.substitute(n, with(n, "Log", "a", "b")); }), "no error");
    CHECK_EQ(error([&](Rewriter &r, const Node &n) { r.substitute(n, with(n, "Transpose", "a", "b")); }),
             "node Transpose of \"b\" makes \"b\" of another type or shape than before");
    CHECK_EQ(error([&](Rewriter &r, const Node &n) { r.substitute(n, with(n, "Log", "a", "c")); }),
             "\"b\" is read and is not made any more");
    CHECK_EQ(error([&](Rewriter &r, const Node &n) { r.substitute(n, with(n, "Log", "c", "b")); }),
             "node Log of \"b\" reads \"c\", which is not made");
}

TEST_CASE("a rewriter keeps order, readers and bytes while nodes are inserted") {
    Rewriter rewriter(fixed("(float[2] x) => (float[2] y) { a = Neg(x) y = Exp(a) }"));
    std::string last = "a";
    const int count = 100; // more than the gap between two nodes takes without new numbers
    for (int n = 0; n < count; n++) {
        const Node end = *rewriter.producer("y");
        Node more = end;
        more.op = "Abs", more.inputs = {last}, more.outputs = {rewriter.new_name("v")};
        Node read = end;
        read.inputs = {more.outputs[0]};
        const Node *old = rewriter.producer("y");
        rewriter.substitute({old}, {{old, more}, {old, read}});
        last = more.outputs[0];
    }
    CHECK_EQ(rewriter.size(), count + 2);
    CHECK_EQ(rewriter.bytes_made(), (count + 2) * 8);
    const std::vector<const Node *> nodes = rewriter.nodes();
    for (size_t n = 1; n < nodes.size(); n++) {
        CHECK(rewriter.precedes(*nodes[n - 1], *nodes[n]));
        CHECK_EQ(rewriter.producer(nodes[n]->inputs[0]), nodes[n - 1]);
    }
    const FixedGraph graph = rewriter.finish();
    CHECK_EQ(graph.values.size(), count + 3);
    CHECK_NOTHROW(to_model(graph).check());
}
