// Rules of graphs: the example of each, graphs that they must leave alone, random graphs, and graphs
// as models of ONNX.
// Links: graph/rules
// Levels: no
#include "graph/eval/evaluate.h"
#include "graph/rules/rules.h"
#include "support/random.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
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
        Type(b.type()) == i64 ? add_numbers<int64_t>(all, b) : add_numbers<float>(all, b);
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
void check_same(const FixedGraph &before, const FixedGraph &after, bool exact, uint64_t seed) {
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
                CHECK_NOTHROW(check_close(y[o], x[o], {1e-5, 1e-5}));
        }
    }
}

} // namespace

TEST_CASE("the example of each rule becomes its result, with the same values") {
    for (const Rule &rule : all_rules()) {
        CAPTURE(rule.name);
        const FixedGraph before = fixed(rule.before);
        FixedGraph after = before;
        const SimplifyReport report = simplify(after, {.rules = {rule.name}});
        CHECK_GT(report.rules.at(rule.name).applied, 0);
        CHECK_EQ(form_of(after), form_of(fixed(rule.after)));
        check_same(before, after, rule.exact, 1);
        // All rules together do not undo it.
        FixedGraph all = before;
        simplify(all, {.exact = rule.exact});
        CHECK_LE(all.nodes.size(), after.nodes.size());
        check_same(before, all, rule.exact, 2);
        if (!rule.exact) {
            FixedGraph left = before;
            CHECK_EQ(simplify(left, {.exact = true, .rules = {rule.name}}).rules.size(), 0);
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
                                            r.exact ? "equal" : "rounds", r.source);
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
                         {.exact = exact});
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
