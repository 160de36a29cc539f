// Graphs with fixed sizes, and their division into groups of nodes that one op computes.
// Links: graph/fuse
// Levels: no
#include "dsl/interpret.h"
#include "graph/fuse/groups.h"
#include "tests/unit/graph_model.h"
#include "tests/unit/refusal.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fmt/format.h>

using namespace kumiko;
using namespace kumiko::graph;

namespace {

// The nodes of each group, in order: "Conv Relu, Add".
std::string groups_of(const FixedGraph &graph, const GroupOptions &options = {}) {
    std::string text;
    for (const Group &g : group_nodes(graph, options)) {
        text += text.empty() ? "" : ", ";
        for (size_t n = 0; n < g.nodes.size(); n++) text += (n ? " " : "") + graph.nodes[g.nodes[n]].op;
        if (g.view) text += " (view)";
    }
    return text;
}

std::string groups_of(const std::string &signature, const std::string &body, const std::string &constants = "") {
    return groups_of(fix_sizes(model(signature, body, constants)));
}

} // namespace

TEST_CASE("sizes of inputs become numbers, and shapes that nodes compute constants") {
    const Model m = model("(float[batch, 3, 4] x) => (float[batch, 12] y)",
                          "s = Shape(x) b = Gather(s, first) t = Concat<axis = 0>(b, twelve) y = Reshape(x, t)",
                          "int64[1] first = {0}, int64[1] twelve = {12}");
    const FixedGraph graph = fix_sizes(m, {.sizes = {{"batch", 5}}});
    CHECK_EQ(graph.inputs, std::vector<std::string>{"x"});
    CHECK_EQ(graph.value("y").extents, Extents{5, 12});
    CHECK_EQ(groups_of(graph), "Reshape (view)");
    CHECK_EQ(refusal([&] { fix_sizes(m); }),
             "m: input x: float[batch,3,4] has an open size \"batch\"; give it a number, such as --size batch=1");
    CHECK_EQ(refusal([&] {
                 fix_sizes(m, {.sizes = {{"batch", 5}, {"bacth", 5}}});
             }),
             "m has no size \"bacth\" (did you mean 'batch'?)");
    CHECK_EQ(refusal([&] {
                 fix_sizes(m, {.sizes = {{"batch", 0}}});
             }),
             "m: the size \"batch\" is 0; legal are 1 to 2147483647");
}

TEST_CASE("inputs that decide shapes are made constants") {
    const Model m = model("(float[6] x, int64[2] shape) => (float[2, 3] y)", "y = Reshape(x, shape)");
    CHECK_EQ(refusal([&] { fix_sizes(m); }),
             "input 1 (\"shape\") of node Reshape of \"y\" decides shapes, so it must be a constant");
    Buffer<> shape(i64, {2});
    const int64_t values[] = {2, 3};
    std::memcpy(shape.data(), values, sizeof values);
    const FixedGraph graph = fix_sizes(m, {.constants = {{"shape", shape}}});
    CHECK_EQ(graph.inputs, std::vector<std::string>{"x"});
    CHECK_EQ(graph.value("y").extents, Extents{2, 3});
    CHECK_EQ(refusal([&] {
                 fix_sizes(m, {.constants = {{"shapes", shape}}});
             }),
             "m has no input \"shapes\" to make a constant");
    CHECK_EQ(refusal([&] {
                 fix_sizes(m, {.constants = {{"x", shape}}});
             }),
             "m: input x: float[6] is made a constant of i64; legal is one of f32");
}

TEST_CASE("an If of a known condition becomes one of its graphs, also within another") {
    const auto inner = [](const std::string &condition, const std::string &a, const std::string &b) {
        return "If(" + condition + ") <then_branch = t () => (float[2] r) {" + a +
               "}, else_branch = e () => (float[2] r) {" + b + "}>";
    };
    const std::string body =
        "y = " + inner("yes", "r = " + inner("no", "q = Neg(x) r = Relu(q)", "q = Exp(x) r = Abs(q)"), "r = Neg(x)");
    const FixedGraph graph = fix_sizes(model("(float[2] x) => (float[2] y)", body, "bool yes = {1}, bool no = {0}"));
    std::string ops;
    for (const Node &n : graph.nodes) ops += n.op + " ";
    CHECK_EQ(ops, "Exp Abs Identity Identity ");
    // A condition that depends on data keeps both graphs.
    const FixedGraph both =
        fix_sizes(model("(float[2] x, bool c) => (float[2] y)", "y = " + inner("c", "r = Neg(x)", "r = Exp(x)")));
    REQUIRE_EQ(both.nodes.size(), 1);
    CHECK_EQ(both.nodes[0].inputs, std::vector<std::string>{"c", "x"});
    CHECK_EQ(both.graphs.at(0)->nodes[0].op, "Neg");
    CHECK_EQ(both.graphs.at(1)->nodes[0].op, "Exp");
}

TEST_CASE("constants are computed unless they would grow") {
    const std::string constants = "float[2] a = {1, 2}, int64[2] large = {512, 64}";
    FixedGraph graph = fix_sizes(model("(float[2] x) => (float[2] y)", "b = Exp(a) y = Add(x, b)", constants));
    CHECK_EQ(graph.nodes.size(), 1);
    CHECK(graph.is_constant("b"));
    // 128 KiB from 8 bytes.
    graph = fix_sizes(model(
        "(float[512, 2] x) => (float[512, 64] y)",
        "z = Unsqueeze(s, axes) b = Expand(z, large) c = MatMul(x, m) y = Add(c, b)",
        constants + ", float s = {3}, int64[1] axes = {0}, float[2, 64] m = {" +
            [] {
                std::string all = "0";
                for (int n = 1; n < 128; n++) all += ", " + std::to_string(n);
                return all;
            }() +
            "}"));
    CHECK_FALSE(graph.is_constant("b"));
}

TEST_CASE("pointwise nodes join a node with a sum as long as all paths meet again") {
    const std::string conv = "c = Conv<pads = [1, 1, 1, 1]>(x, w) ";
    const std::string in = "(float[1, 4, 8, 8] x, float[4, 4, 3, 3] w, float[1, 4, 8, 8] z) => (float[1, 4, 8, 8] y)";
    CHECK_EQ(groups_of(in, conv + "s = Sigmoid(c) y = Mul(c, s)"), "Conv Sigmoid Mul");
    CHECK_EQ(groups_of(in, conv + "r = Relu(c) y = Add(r, z)"), "Conv Relu Add");
    // The value before the activation is read twice, by a node that cannot join.
    CHECK_EQ(groups_of(in, conv + "r = Relu(c) d = Conv<pads = [1, 1, 1, 1]>(c, w) y = Add(r, d)"),
             "Conv, Relu, Conv Add");
    // Larger than the sum: each of its elements would be computed several times.
    CHECK_EQ(groups_of("(float[4, 1, 4] x, float[4, 4] w, float[1, 4, 4] z) => (float[4, 4, 4] y)",
                       "c = MatMul(x, w) y = Add(c, z)"),
             "MatMul, Add");
}

TEST_CASE("an output of the graph stays an output of its group") {
    const FixedGraph graph = fix_sizes(model("(float[4] x) => (float[4] a, float[4] y)", "a = Exp(x) y = Neg(a)"));
    CHECK_EQ(groups_of(graph), "Exp, Neg");
    const Group both{{0, 1}, {"a", "y"}, false};
    const GroupOp op = make_group_op(graph, both);
    CHECK_EQ(op.outputs, std::vector<std::string>{"a", "y"});
    Buffer<float> x({4});
    for (int i = 0; i < 4; i++) x(i) = float(i);
    const auto results = interpret(*op.op, {x});
    CHECK_EQ(Buffer<float>(results[1])(0), -1);
    CHECK_EQ(Buffer<float>(results[0])(0), 1);
}

TEST_CASE("equal parts of a graph are equal ops, whatever their names") {
    const FixedGraph graph =
        fix_sizes(model("(float[4, 8] x, float[8, 8] v, float[8, 8] w, float[8] b, float[8] d) => (float[4, 8] y)",
                        "m = MatMul(x, v) s = Add(m, b) r = Relu(s) n = MatMul(r, w) t = Add(n, d) y = Relu(t)"));
    const std::vector<Group> groups = group_nodes(graph);
    REQUIRE_EQ(groups.size(), 2);
    CHECK_EQ(make_group_op(graph, groups[0]).op->hash(), make_group_op(graph, groups[1]).op->hash());
}

TEST_CASE("formulas that read their inputs often do not grow without bound") {
    std::string body;
    for (int n = 0; n < 30; n++) body += "v" + std::to_string(n + 1) + " = HardSwish(v" + std::to_string(n) + ") ";
    const FixedGraph graph = fix_sizes(model("(float[4] v0) => (float[4] v30)", body));
    const std::vector<Group> groups = group_nodes(graph);
    REQUIRE_EQ(groups.size(), 1);
    CHECK_LT(make_group_op(graph, groups[0]).op->stages().size(), 31);
}

TEST_CASE("reshapes are views, and so are transposes that only move axes of one element") {
    CHECK_EQ(groups_of("(float[2, 1, 3] x) => (float[2, 3, 1] y)", "y = Transpose<perm = [0, 2, 1]>(x)"),
             "Transpose (view)");
    CHECK_EQ(groups_of("(float[2, 3] x) => (float[3, 2] y)", "y = Transpose(x)"), "Transpose");
    CHECK_EQ(groups_of("(float[2, 3] x) => (float[6] y)", "y = Flatten<axis = 0>(x)"), "Flatten (view)");
}

namespace {

// The boundaries: "a: Relu -> MatMul: reason".
std::string boundaries_of(const std::string &signature, const std::string &body, const std::string &constants = "",
                          const GroupOptions &options = {}) {
    const FixedGraph graph = fix_sizes(model(signature, body, constants));
    const Grouping grouping = explain_groups(graph, options);
    std::string text;
    for (const Boundary &b : grouping.boundaries)
        text += fmt::format("{}: {} -> {}: {}\n", b.value, graph.nodes[grouping.groups[b.from].nodes.back()].op,
                            graph.nodes[grouping.groups[b.to].nodes[0]].op, b.reason);
    return text;
}

} // namespace

TEST_CASE("each value between groups has the reason why it is stored") {
    const std::string weights = "float[4, 4] w, float[4, 4] v, float[4] c";
    CHECK_EQ(boundaries_of("(float[4, 4] x, " + weights + ") => (float[4, 4] y)",
                           "a = MatMul(x, w) b = Relu(a) y = MatMul(b, v)"),
             "b: Relu -> MatMul: MatMul is not pointwise: it begins a group of its own\n");
    // One of several readers cannot join.
    CHECK_EQ(boundaries_of("(float[4, 4] x, " + weights + ") => (float[4, 4] y)",
                           "a = MatMul(x, w) b = Relu(a) d = MatMul(a, v) y = Add(b, d)"),
             "a: MatMul -> Relu: all readers would have to join, but MatMul is not pointwise: it begins a group of its "
             "own\n"
             "a: MatMul -> MatMul: MatMul is not pointwise: it begins a group of its own\n"
             "b: Relu -> MatMul: Add is in another group\n");
    CHECK_EQ(boundaries_of("(float[4, 4] x, " + weights + ") => (float[4, 4] y, float[4, 4] a)",
                           "a = MatMul(x, w) y = Relu(a)"),
             "a: MatMul -> Relu: it is an output of the graph, which is stored\n");
    CHECK_EQ(boundaries_of("(float[4] x, float[4, 4] w) => (float[4, 4] y)", "a = Exp(x) y = Add(a, w)"),
             "a: Exp -> Add: Add computes [4,4] and not [4]\n");
    CHECK_EQ(
        boundaries_of("(float[4, 4] x, " + weights + ") => (float[4, 4] y)",
                      "a = Transpose<perm = [1, 0]>(x) y = ReduceSum<keepdims = 1>(a)"),
        "a: Transpose -> ReduceSum: Transpose would move elements again for each time that ReduceSum reads them\n");
    CHECK_EQ(boundaries_of("(float[4, 4] x) => (float[4, 4] y, float[4, 4] z)",
                           "a = Transpose<perm = [1, 0]>(x) y = Relu(a) z = Exp(a)"),
             "a: Transpose -> Relu: 2 nodes read it, each of which would compute it again\n"
             "a: Transpose -> Exp: 2 nodes read it, each of which would compute it again\n");
    CHECK_EQ(boundaries_of("(float[4] x) => (float[4] y)", "a = Exp(x) y = Relu(a)", "", {.fuse = false}),
             "a: Exp -> Relu: each node is a group, because fusion is off\n");
    // Nothing is stored between nodes of one group.
    CHECK_EQ(boundaries_of("(float[4] x) => (float[4] y)", "a = Exp(x) y = Relu(a)"), "");
}
