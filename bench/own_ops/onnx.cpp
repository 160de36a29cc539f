// One file, because it is one table: a graph for each op.
#include "bench/own_ops/onnx.h"

#include "bench/contest.h"
#include "support/error.h"

#include <cmath>
#include <map>

namespace kumiko::bench {

namespace {

// ONNX's numbers of the types.
constexpr int to_f32 = 1, to_u8 = 2, to_s8 = 3, to_s32 = 6, to_s64 = 7;
const char *const microsoft = "com.microsoft"; // the domain of operators beyond the standard

using Names = std::vector<OnnxName>;

OnnxShape shape_of(const Buffer<> &b) {
    OnnxShape shape;
    for (size_t d = 0; d < b.rank(); d++) shape.push_back(b.extent(d));
    return shape;
}

// Builds a graph.
class OwnGraph {
public:
    OwnGraph(const OwnOp &own, const Op &op, const std::vector<Buffer<>> &inputs)
        : own_(own), op_(op), inputs_(inputs) {}
    const OnnxGraph &graph() const { return graph_; }

    int64_t size(const std::string &name) const { return Extents(own_.sizes).value(name); }
    // An input of the op, in its own shape or in one with as many elements.
    OnnxName in(const std::string &name, const OnnxShape &shape = {}) { return input(name, shape, false); }
    OnnxName filters(const std::string &name, const OnnxShape &shape) { return input(name, shape, true); }
    OnnxName number(double value) { return graph_.numbers("f32", value, {}); }
    OnnxName numbers(const std::vector<double> &values, const OnnxShape &shape) {
        Json nested = values;
        for (size_t d = shape.size(); d-- > 1;) { // rows of rows
            Json rows = Json::array();
            const size_t row = static_cast<size_t>(shape[d]);
            for (size_t n = 0; n < nested.size(); n += row) {
                Json one = Json::array();
                for (size_t k = n; k < n + row; k++) one.push_back(nested[k]);
                rows.push_back(one);
            }
            nested = rows;
        }
        return graph_.numbers("f32", nested, shape);
    }
    OnnxName list(const OnnxShape &values) { return graph_.list(values); }
    OnnxName integer(const char *type, int64_t value) { return graph_.numbers(type, value, {}); }

    OnnxName node(const std::string &op, const Names &inputs, const Json &attributes = Json::object(),
                  const std::string &domain = "") {
        return graph_.node(op, inputs, attributes, domain);
    }
    Names nodes(size_t results, const std::string &op, const Names &inputs, const Json &attributes = Json::object()) {
        return graph_.nodes(results, op, inputs, attributes);
    }
    OnnxName reshape(const OnnxName &x, const OnnxShape &shape) { return node("Reshape", {x, graph_.list(shape)}); }
    OnnxName turn(const OnnxName &x, const OnnxShape &axes) { return node("Transpose", {x}, {{"perm", axes}}); }
    OnnxName cast(const OnnxName &x, int type) { return node("Cast", {x}, {{"to", type}}); }
    // "ReduceSum" and others.
    OnnxName reduce(const std::string &op, const OnnxName &x, const OnnxShape &axes, bool keep = false) {
        return node(op, {x, graph_.list(axes)}, {{"keepdims", keep ? 1 : 0}});
    }
    OnnxName place(const std::string &op, const OnnxName &x, int64_t axis) { // ArgMax or ArgMin
        return cast(node(op, {x}, {{"axis", axis}, {"keepdims", 0}}), to_s32);
    }
    OnnxName silu(const OnnxName &x) { return node("QuickGelu", {x}, {{"alpha", 1.0}}, microsoft); }
    OnnxName product(const OnnxName &a, const OnnxName &b, bool turn_a, bool turn_b, double scale) {
        return node("FusedMatMul", {a, b}, {{"transA", int(turn_a)}, {"transB", int(turn_b)}, {"alpha", scale}},
                    microsoft);
    }

private:
    const OwnOp &own_;
    const Op &op_;
    const std::vector<Buffer<>> &inputs_;
    OnnxGraph graph_;

    OnnxName input(const std::string &name, OnnxShape shape, bool constant) {
        for (size_t n = 0; n < inputs_.size(); n++) {
            if (op_.inputs()[n].name != name) continue;
            const Buffer<> &b = inputs_[n];
            if (shape.empty()) shape = shape_of(b);
            return graph_.input(dtype_of(b.type()).value(), shape, b.data(), constant);
        }
        throw InternalError("the op " + own_.name + " has no input " + name);
    }
};

using Make = Names (*)(OwnGraph &);

// ---- reductions and rows

Names minmax(OwnGraph &g) {
    const OnnxName x = g.in("X");
    return {g.reduce("ReduceMax", x, {1, 2}), g.reduce("ReduceMin", x, {1, 2})};
}
Names maxarg(OwnGraph &g) {
    const OnnxName x = g.in("X", {g.size("N"), g.size("H") * g.size("W")});
    return {g.reduce("ReduceMax", x, {1}), g.place("ArgMax", x, 1)};
}
Names moments(OwnGraph &g) {
    const OnnxName x = g.in("X");
    return {g.reduce("ReduceSum", x, {0}), g.reduce("ReduceSumSquare", x, {0})};
}
Names cosine(OwnGraph &g) {
    const OnnxName a = g.in("A"), b = g.in("B");
    const OnnxName ab = g.reduce("ReduceSum", g.node("Mul", {a, b}), {1}), aa = g.reduce("ReduceSumSquare", a, {1}),
                   bb = g.reduce("ReduceSumSquare", b, {1});
    return {g.node("Div", {ab, g.node("Mul", {g.node("Sqrt", {aa}), g.node("Sqrt", {bb})})}), aa};
}
Names distances(OwnGraph &g) {
    return {g.node("CDist", {g.in("A"), g.in("B")}, {{"metric", "sqeuclidean"}}, microsoft)};
}
Names top1(OwnGraph &g) {
    const OnnxName x = g.in("X");
    return {g.reduce("ReduceMax", x, {1}), g.place("ArgMax", x, 1)};
}
Names quantise_rows(OwnGraph &g) {
    const OnnxName x = g.in("X"), largest = g.reduce("ReduceMax", g.node("Abs", {x}), {1}, true);
    const OnnxName most = g.node("Max", {largest, g.number(1e-8)});
    const OnnxName scaled = g.node("Round", {g.node("Mul", {x, g.node("Div", {g.number(127), most})})});
    return {g.cast(g.node("Clip", {scaled, g.number(-127), g.number(127)}), to_s8),
            g.reshape(g.node("Div", {most, g.number(127)}), {g.size("M")})};
}

// ---- normalisation

Names rms_residual(OwnGraph &g) {
    const OnnxName s = g.node("Add", {g.in("X"), g.in("R")});
    return {g.node("RMSNormalization", {s, g.in("g")}, {{"axis", -1}, {"epsilon", 1e-5}}), s};
}
Names group_norm_silu(OwnGraph &g) {
    const int64_t N = g.size("N"), G = g.size("G"), C = g.size("C"), H = g.size("H"), W = g.size("W");
    const OnnxName x = g.in("X", {N, G * C, H, W}), scale = g.in("scale", {G * C}), shift = g.in("shift", {G * C});
    return {g.reshape(g.silu(g.node("GroupNormalization", {x, scale, shift}, {{"num_groups", G}, {"epsilon", 1e-5}})),
                      {N, G, C, H, W})};
}
Names log_softmax_middle(OwnGraph &g) { return {g.node("LogSoftmax", {g.in("X")}, {{"axis", 1}})}; }
Names layer_norm_moments(OwnGraph &g) {
    const Names all =
        g.nodes(3, "LayerNormalization", {g.in("X"), g.in("g"), g.in("b")}, {{"axis", -1}, {"epsilon", 1e-5}});
    return {all[0], g.reshape(all[1], {g.size("M")}), g.reshape(all[2], {g.size("M")})};
}
Names layernorm3(OwnGraph &g) { // the variance is 1 / r² − ε
    const OnnxName ones = g.numbers(std::vector<double>(static_cast<size_t>(g.size("N")), 1), {g.size("N")});
    const Names all = g.nodes(3, "LayerNormalization", {g.in("X"), ones}, {{"axis", -1}, {"epsilon", 1e-5}});
    const OnnxName r = g.reshape(all[2], {g.size("M")});
    return {all[0], g.reshape(all[1], {g.size("M")}),
            g.node("Sub", {g.node("Reciprocal", {g.node("Mul", {r, r})}), g.number(1e-5)})};
}
Names softmax_bias(OwnGraph &g) {
    const OnnxName s = g.node("Div", {g.node("Add", {g.in("X"), g.in("bias")}), g.in("t", {g.size("B"), 1, 1})});
    return {g.node("Softmax", {s}, {{"axis", -1}})};
}
Names lrn(OwnGraph &g) {
    const OnnxShape shape = {g.size("N"), g.size("C"), g.size("P")};
    const OnnxName x = g.in("X", {shape[0], shape[1], shape[2], 1});
    return {g.reshape(g.node("LRN", {x}, {{"alpha", 0.1}, {"beta", 0.75}, {"bias", 1.0}, {"size", 5}}), shape)};
}

// ---- losses

Names cross_entropy(OwnGraph &g) { // of smoothed labels
    const OnnxName logs = g.node("LogSoftmax", {g.in("X")}, {{"axis", 1}});
    const OnnxName own = g.node("GatherElements", {logs, g.in("label", {g.size("M"), 1})}, {{"axis", 1}});
    const OnnxName mean = g.reduce("ReduceMean", logs, {1});
    return {g.node("Add", {g.node("Mul", {g.reshape(own, {g.size("M")}), g.number(-0.9)}),
                           g.node("Mul", {mean, g.number(-0.1)})})};
}
Names triplet_loss(OwnGraph &g) {
    const OnnxName a = g.in("A"), near = g.reduce("ReduceL2", g.node("Sub", {a, g.in("P")}), {1}),
                   far = g.reduce("ReduceL2", g.node("Sub", {a, g.in("N")}), {1});
    const OnnxName loss = g.node("Relu", {g.node("Add", {g.node("Sub", {near, far}), g.number(0.2)})});
    return {loss, g.reduce("ReduceMean", loss, {0})};
}
Names kl_rows(OwnGraph &g) {
    const OnnxName a = g.node("LogSoftmax", {g.in("A")}, {{"axis", 1}}),
                   b = g.node("LogSoftmax", {g.in("B")}, {{"axis", 1}});
    return {g.reduce("ReduceSum", g.node("Mul", {g.node("Exp", {a}), g.node("Sub", {a, b})}), {1})};
}
Names info_nce(OwnGraph &g) {
    const OnnxName a = g.in("A"), b = g.in("B"), s = g.product(a, b, false, true, 2);
    const OnnxName both = g.node("Add", {g.reduce("ReduceLogSumExp", s, {1}), g.reduce("ReduceLogSumExp", s, {0})});
    const OnnxName own = g.node("Mul", {g.reduce("ReduceSum", g.node("Mul", {a, b}), {1}), g.number(2)});
    return {g.reduce("ReduceMean", g.node("Sub", {g.node("Mul", {both, g.number(0.5)}), own}), {0})};
}
Names sinkhorn(OwnGraph &g) { // matrices of one row are much faster than vectors
    const int64_t M = g.size("M"), N = g.size("N");
    const OnnxName K = g.in("K"), row = g.node("Gemm", {g.in("v", {1, N}), K}, {{"transB", 1}});
    const OnnxName u = g.node("Div", {g.in("a", {1, M}), row});
    const OnnxName w = g.node("Div", {g.in("b", {1, N}), g.node("MatMul", {u, K})});
    return {g.reshape(u, {M}), g.reshape(w, {N})};
}

// ---- attention

OnnxName scores(OwnGraph &g) {
    return g.product(g.in("Q"), g.in("K"), false, true, 1 / std::sqrt(static_cast<double>(g.size("D"))));
}
OnnxName mixed(OwnGraph &g, const OnnxName &score) {
    return g.node("MatMul", {g.node("Softmax", {score}, {{"axis", -1}}), g.in("V")});
}
Names attention_bias(OwnGraph &g) { return {mixed(g, g.node("Add", {scores(g), g.in("bias")}))}; }
Names attention_causal(OwnGraph &g) {
    const OnnxShape shape = {1, g.size("H"), g.size("N"), g.size("D")};
    const OnnxName y = g.node("Attention", {g.in("Q", shape), g.in("K", shape), g.in("V", shape)},
                              {{"is_causal", 1}, {"scale", 1 / std::sqrt(static_cast<double>(g.size("D")))}});
    return {g.reshape(y, {shape[1], shape[2], shape[3]})};
}
Names attention_window(OwnGraph &g) {
    const int64_t N = g.size("N"), R = g.size("R");
    std::vector<double> mask;
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < N; j++) mask.push_back(j <= i && i - j < R ? 0 : -1e30);
    }
    return {mixed(g, g.node("Add", {scores(g), g.numbers(mask, {N, N})}))};
}
Names linear_attention(OwnGraph &g) {
    const auto phi = [&](const char *x) { return g.node("Add", {g.node("Elu", {g.in(x)}), g.number(1)}); };
    const OnnxName q = phi("Q"), k = phi("K"), kv = g.product(k, g.in("V"), true, false, 1);
    const OnnxName bottom = g.product(q, g.reduce("ReduceSum", k, {1}, true), false, true, 1);
    return {g.node("Div", {g.node("MatMul", {q, kv}), bottom})};
}

// ---- products of matrices

Names product2(OwnGraph &g) { return {g.node("MatMul", {g.node("MatMul", {g.in("S"), g.in("B")}), g.in("C")})}; }
Names low_rank(OwnGraph &g) {
    return {g.node("Gemm", {g.node("MatMul", {g.in("A"), g.in("B")}), g.in("C"), g.in("Z")}, {{"alpha", 0.5}})};
}
Names geglu(OwnGraph &g) {
    const OnnxName x = g.in("X");
    return {g.node("Mul", {g.silu(g.node("MatMul", {x, g.in("A")})), g.node("MatMul", {x, g.in("B")})})};
}
Names reglu_bias(OwnGraph &g) {
    const OnnxName x = g.in("X");
    return {g.node("Mul", {g.node("Relu", {g.node("Gemm", {x, g.in("A"), g.in("u")})}),
                           g.node("Gemm", {x, g.in("B"), g.in("v")})})};
}
Names product_softmax(OwnGraph &g) {
    return {g.node("Softmax", {g.node("MatMul", {g.in("A"), g.in("B")})}, {{"axis", -1}})};
}
Names cosine_matrix(OwnGraph &g) {
    const auto unit = [&](const char *x) { return g.node("LpNormalization", {g.in(x)}, {{"axis", 1}, {"p", 2}}); };
    return {g.product(unit("A"), unit("B"), false, true, 1)};
}
Names covariance(OwnGraph &g) {
    const OnnxName x = g.in("X"), mean = g.reduce("ReduceMean", x, {0}), z = g.node("Sub", {x, mean});
    return {g.product(z, z, true, false, 1.0 / static_cast<double>(g.size("N") - 1)), mean};
}
Names mahalanobis(OwnGraph &g) {
    const OnnxName d = g.node("Sub", {g.in("X"), g.in("mean")});
    return {g.reduce("ReduceSum", g.node("Mul", {g.node("MatMul", {d, g.in("S")}), d}), {1})};
}
Names trmm(OwnGraph &g) { return {g.node("MatMul", {g.node("Trilu", {g.in("L")}, {{"upper", 0}}), g.in("B")})}; }
Names product_zero_points(OwnGraph &g) {
    const OnnxName c = g.node("MatMulInteger", {g.in("A"), g.in("B"), g.integer("u8", 118), g.integer("s8", -7)});
    const OnnxName y = g.node("Round", {g.node("Mul", {g.cast(c, to_f32), g.in("scale")})});
    return {g.cast(g.node("Clip", {g.node("Add", {y, g.number(128)}), g.number(0), g.number(255)}), to_u8)};
}
Names dft_power(OwnGraph &g) {
    const OnnxName x = g.in("X"), re = g.node("MatMul", {x, g.in("C")}), im = g.node("MatMul", {x, g.in("S")});
    return {g.node("Add", {g.node("Mul", {re, re}), g.node("Mul", {im, im})})};
}
Names kmeans_assign(OwnGraph &g) {
    const OnnxName d = g.node("CDist", {g.in("X"), g.in("M")}, {{"metric", "sqeuclidean"}}, microsoft);
    return {g.place("ArgMin", d, 1), g.reduce("ReduceMin", d, {1})};
}
Names moe_gate(OwnGraph &g) {
    const OnnxShape all = {g.size("T")};
    const OnnxName logit = g.node("MatMul", {g.in("X"), g.in("W")});
    const Names best = g.nodes(2, "TopK", {logit, g.list({2})}, {{"axis", -1}});
    const auto both = [&](const OnnxName &pair) {
        Names parts = g.nodes(2, "Split", {pair}, {{"axis", 1}, {"num_outputs", 2}});
        for (OnnxName &p : parts) p = g.reshape(p, all);
        return parts;
    };
    const Names weights = both(g.node("Softmax", {best[0]}, {{"axis", -1}})), experts = both(g.cast(best[1], to_s32));
    return {weights[0], weights[1], experts[0], experts[1],
            g.reduce("ReduceMean", g.node("Softmax", {logit}, {{"axis", -1}}), {0})};
}

// ---- convolutions and images

Names conv1d_groups(OwnGraph &g) {
    const int64_t N = g.size("N"), G = g.size("G"), O = g.size("O"), C = g.size("C"), L = g.size("L");
    const OnnxName y = g.node("Conv", {g.in("X", {N, G * C, L}), g.filters("W", {G * O, C, 4})},
                              {{"group", G}, {"kernel_shape", {4}}, {"dilations", {2}}});
    const OnnxShape shape = {N, G, O, L - 6};
    return {g.reshape(g.node("Relu", {y}), shape), g.reshape(g.node("Min", {y, g.number(0)}), shape)};
}
Names conv_hard_swish_pool(OwnGraph &g) {
    const int64_t O = g.size("O"), C = g.size("C"), H = g.size("H"), W = g.size("W");
    const OnnxName s = g.node("Conv", {g.in("X", {1, C, H, W}), g.filters("F", {O, C, 3, 3}), g.filters("b", {O})},
                              {{"kernel_shape", {3, 3}}, {"pads", {1, 1, 1, 1}}});
    const OnnxName y = g.node("MaxPool", {g.node("HardSwish", {s})}, {{"kernel_shape", {2, 2}}, {"strides", {2, 2}}});
    return {g.reshape(y, {O, H / 2, W / 2})};
}
Names causal_conv1d(OwnGraph &g) {
    const int64_t O = g.size("O"), C = g.size("C"), T = g.size("T");
    const OnnxName s = g.node("Conv", {g.in("X", {1, C, T}), g.filters("W", {O, C, 3}), g.filters("b", {O})},
                              {{"kernel_shape", {3}}, {"dilations", {4}}, {"pads", {8, 0}}});
    return {g.reshape(g.node("Tanh", {s}), {O, T})};
}
Names separable_block(OwnGraph &g) {
    const int64_t O = g.size("O"), C = g.size("C"), H = g.size("H"), W = g.size("W");
    const OnnxName d = g.node("Conv", {g.in("X", {1, C, H, W}), g.filters("D", {C, 1, 3, 3})},
                              {{"group", C}, {"kernel_shape", {3, 3}}, {"pads", {1, 1, 1, 1}}});
    const OnnxName y = g.node("Conv", {g.node("Relu", {d}), g.filters("V", {O, C, 1, 1}), g.filters("b", {O})},
                              {{"kernel_shape", {1, 1}}});
    return {g.reshape(g.node("Relu", {y}), {O, H, W})};
}
Names avgpool_exclude(OwnGraph &g) {
    const OnnxName y = g.node("AveragePool", {g.turn(g.in("X"), {0, 3, 1, 2})},
                              {{"kernel_shape", {3, 3}}, {"strides", {2, 2}}, {"pads", {1, 1, 1, 1}}});
    return {g.turn(y, {0, 2, 3, 1})};
}
Names deconv(OwnGraph &g) {
    const int64_t C = g.size("C"), O = g.size("O"), H = g.size("H"), W = g.size("W");
    const OnnxName s =
        g.node("ConvTranspose", {g.in("X", {1, C, H, W}), g.filters("F", {C, O, 4, 4}), g.filters("b", {O})},
               {{"kernel_shape", {4, 4}}, {"strides", {2, 2}}, {"pads", {1, 1, 1, 1}}});
    return {g.reshape(g.node("Relu", {s}), {O, 2 * H, 2 * W})};
}
Names conv_dilated_groups(OwnGraph &g) {
    const int64_t H = g.size("H"), W = g.size("W"), G = g.size("G"), C = g.size("C"), O = g.size("O");
    const OnnxName x = g.turn(g.in("X", {1, H, W, G * C}), {0, 3, 1, 2});
    const OnnxName f = g.reshape(g.turn(g.filters("F", {G, 3, 3, C, O}), {0, 4, 3, 1, 2}), {G * O, C, 3, 3});
    const OnnxName s = g.node("Conv", {x, f, g.filters("b", {G * O})},
                              {{"group", G}, {"kernel_shape", {3, 3}}, {"dilations", {2, 2}}, {"pads", {2, 2, 2, 2}}});
    return {g.reshape(g.turn(g.node("LeakyRelu", {s}, {{"alpha", 0.1}}), {0, 2, 3, 1}), {H, W, G, O})};
}
Names gauss(OwnGraph &g) {
    const int64_t H = g.size("H"), W = g.size("W");
    const OnnxName padded =
        g.node("Pad", {g.in("X", {1, 1, H, W}), g.list({0, 0, 3, 3, 0, 0, 3, 3})}, {{"mode", "edge"}});
    const OnnxName across = g.node("Conv", {padded, g.filters("w", {1, 1, 1, 7})}, {{"kernel_shape", {1, 7}}});
    return {g.reshape(g.node("Conv", {across, g.filters("w", {1, 1, 7, 1})}, {{"kernel_shape", {7, 1}}}), {H, W})};
}
OnnxName heat_step(OwnGraph &g, const OnnxName &x) {
    return g.node("Conv", {x, g.numbers({0, 0.1, 0, 0.1, 0.6, 0.1, 0, 0.1, 0}, {1, 1, 3, 3})},
                  {{"kernel_shape", {3, 3}}, {"pads", {1, 1, 1, 1}}});
}
Names heat(OwnGraph &g) {
    const int64_t H = g.size("H"), W = g.size("W");
    return {g.reshape(heat_step(g, g.in("X", {1, 1, H, W})), {H, W})};
}
Names heat_twice(OwnGraph &g) {
    const int64_t H = g.size("H"), W = g.size("W");
    return {g.reshape(heat_step(g, heat_step(g, g.in("X", {1, 1, H, W}))), {H, W})};
}
Names gray(OwnGraph &g) { // a matrix of one row is much faster than a vector
    const OnnxName w = g.numbers({0.299, 0.587, 0.114}, {1, 3});
    return {g.reshape(g.node("Gemm", {w, g.in("X")}, {{"transB", 1}}), {g.size("P")})};
}
Names normalise_image(OwnGraph &g) {
    const OnnxName x = g.node("Mul", {g.cast(g.turn(g.in("X"), {0, 3, 1, 2}), to_f32), g.number(1.0 / 255)});
    return {g.node("Div", {g.node("Sub", {x, g.in("mean", {3, 1, 1})}), g.in("dev", {3, 1, 1})})};
}
Names pixel_shuffle_u8(OwnGraph &g) {
    const int64_t H = g.size("H"), W = g.size("W");
    const OnnxName x = g.node("DepthToSpace", {g.in("X", {1, 12, H, W})}, {{"blocksize", 2}, {"mode", "CRD"}});
    const OnnxName scaled = g.node("Round", {g.node("Mul", {x, g.number(255)})});
    const OnnxName bytes = g.cast(g.node("Clip", {scaled, g.number(0), g.number(255)}), to_u8);
    return {g.turn(g.reshape(bytes, {3, 2 * H, 2 * W}), {1, 2, 0})};
}
Names integral_image(OwnGraph &g) {
    const OnnxName rows = g.node("CumSum", {g.cast(g.in("X"), to_s32), g.integer("s64", 1)});
    return {g.node("CumSum", {rows, g.integer("s64", 0)})};
}

// ---- gathers and scatters

Names embedding_bag(OwnGraph &g) {
    return {g.reduce("ReduceMean", g.node("Gather", {g.in("table"), g.in("id")}, {{"axis", 0}}), {1})};
}
Names sparse_product(OwnGraph &g) {
    const int64_t M = g.size("M"), L = g.size("L"), N = g.size("N");
    const OnnxName rows = g.node("Gather", {g.in("B"), g.in("column")}, {{"axis", 0}});
    return {g.reshape(g.node("MatMul", {g.in("V", {M, 1, L}), rows}), {M, N})};
}
Names scatter_add(OwnGraph &g) {
    const int64_t V = g.size("V"), D = g.size("D");
    const OnnxName zeros = g.numbers(std::vector<double>(static_cast<size_t>(V * D), 0), {V, D});
    return {
        g.node("ScatterND", {zeros, g.cast(g.in("id", {g.size("N"), 1}), to_s64), g.in("G")}, {{"reduction", "add"}})};
}

const std::map<std::string, Make> &graphs() {
    static const std::map<std::string, Make> all = {
        {"minmax", minmax},
        {"maxarg", maxarg},
        {"moments", moments},
        {"cosine", cosine},
        {"distances", distances},
        {"top1", top1},
        {"quantise_rows", quantise_rows},
        {"rms_residual", rms_residual},
        {"group_norm_silu", group_norm_silu},
        {"log_softmax_middle", log_softmax_middle},
        {"layer_norm_moments", layer_norm_moments},
        {"layernorm3", layernorm3},
        {"softmax_bias", softmax_bias},
        {"lrn", lrn},
        {"cross_entropy", cross_entropy},
        {"triplet_loss", triplet_loss},
        {"kl_rows", kl_rows},
        {"info_nce", info_nce},
        {"sinkhorn", sinkhorn},
        {"attention_bias", attention_bias},
        {"attention_causal", attention_causal},
        {"attention_window", attention_window},
        {"linear_attention", linear_attention},
        {"product2", product2},
        {"low_rank", low_rank},
        {"geglu", geglu},
        {"reglu_bias", reglu_bias},
        {"product_softmax", product_softmax},
        {"cosine_matrix", cosine_matrix},
        {"covariance", covariance},
        {"mahalanobis", mahalanobis},
        {"trmm", trmm},
        {"product_zero_points", product_zero_points},
        {"dft_power", dft_power},
        {"kmeans_assign", kmeans_assign},
        {"moe_gate", moe_gate},
        {"conv1d_groups", conv1d_groups},
        {"conv_hard_swish_pool", conv_hard_swish_pool},
        {"causal_conv1d", causal_conv1d},
        {"separable_block", separable_block},
        {"avgpool_exclude", avgpool_exclude},
        {"deconv", deconv},
        {"conv_dilated_groups", conv_dilated_groups},
        {"gauss", gauss},
        {"heat", heat},
        {"heat_twice", heat_twice},
        {"gray", gray},
        {"normalise_image", normalise_image},
        {"pixel_shuffle_u8", pixel_shuffle_u8},
        {"integral_image", integral_image},
        {"embedding_bag", embedding_bag},
        {"sparse_product", sparse_product},
        {"scatter_add", scatter_add},
    };
    return all;
}

} // namespace

std::vector<std::string> ops_with_onnx_graph() {
    std::vector<std::string> names;
    for (const auto &[name, make] : graphs()) names.push_back(name);
    return names;
}

bool has_onnx_graph(const OwnOp &own) { return graphs().count(own.name) != 0; }

std::shared_ptr<OnnxSession> make_onnx_session(const std::shared_ptr<PythonPeer> &process, const OwnOp &own,
                                               const Op &op, const std::vector<Buffer<>> &inputs) {
    const auto found = graphs().find(own.name);
    if (found == graphs().end()) throw InternalError("the op " + own.name + " has no graph of ONNX");
    OwnGraph graph(own, op, inputs);
    const Names names = found->second(graph);
    std::vector<OnnxOutput> outputs;
    for (size_t n = 0; n < names.size(); n++) {
        const Buffer<> like = make_output(op, op.outputs()[n], {});
        outputs.push_back({names[n], dtype_of(like.type()).value(), shape_of(like)});
    }
    // Softmax assigns denormal weights to masked elements, which make its products slow.
    constexpr bool flush_denormals = true;
    auto session = std::make_shared<OnnxSession>(process, graph.graph(), outputs, 1, flush_denormals);
    if (!session->refusal().empty())
        throw UserError("ONNX Runtime rejects the graph of " + own.name + ": " + session->refusal());
    return session;
}

} // namespace kumiko::bench
