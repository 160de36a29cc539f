// ONNX Runtime's products, convolutions and attention.
#include "bench/peers_onnxruntime.h"

#include <algorithm>

namespace kumiko::bench {

namespace {

OnnxName finished(OnnxGraph &g, OnnxName sum, const Epilogue &e, const OnnxShape &shape) {
    if (e.residual) sum = g.node("Add", {sum, g.input(Dtype::F32, shape, e.residual)});
    return e.activation.empty() ? sum : onnx_function(g, e.activation, sum);
}

} // namespace

Peer::Result OnnxRuntime::graph_kernel(const OnnxGraph &g, const OnnxName &output, Dtype type, const OnnxShape &shape,
                                       void *to, const PeerOptions &options, const std::string &note) {
    if (!available() || output.empty()) return {};
    const auto session =
        std::make_shared<OnnxSession>(process_, g, std::vector<OnnxOutput>{{output, type, shape}}, options.threads);
    if (!session->refusal().empty()) return {};
    PeerKernel kernel;
    kernel.work = TimedWork(std::function<double(int)>([session](int times) { return session->run(times); }));
    kernel.collect = [session, to] { session->collect({to}); };
    kernel.note = note;
    return kernel;
}

Peer::Result OnnxRuntime::matmul(const MatmulCase &s, const void *a, const void *b, void *c,
                                 const PeerOptions &options) {
    OnnxGraph g;
    const auto stacked = [&](bool batch, int64_t rows, int64_t columns) {
        return batch ? OnnxShape{s.batch, rows, columns} : OnnxShape{rows, columns};
    };
    const bool batch = s.batch != 0;
    const OnnxName left = g.input(s.a, s.transpose_a ? stacked(batch, s.k, s.m) : stacked(batch, s.m, s.k), a);
    const bool many_b = batch && !s.shared_b;
    const OnnxName right =
        g.input(s.b, s.transpose_b ? stacked(many_b, s.n, s.k) : stacked(many_b, s.k, s.n), b, options.prepack_weights);
    OnnxName product;
    const bool turned = s.transpose_a || s.transpose_b;
    if (s.c == Dtype::S32) {
        if (turned) return {};
        product = g.node("MatMulInteger", {left, right});
    } else if (s.a != s.c || s.b != s.c) {
        return {};
    } else if (batch && turned) {
        product = g.node("FusedMatMul", {left, right}, {{"transA", int(s.transpose_a)}, {"transB", int(s.transpose_b)}},
                         "com.microsoft");
    } else if (!batch && (turned || s.epilogue.bias)) {
        std::vector<OnnxName> operands = {left, right};
        if (s.epilogue.bias) operands.push_back(g.input(s.c, {s.n}, s.epilogue.bias, true));
        product = g.node("Gemm", operands, {{"transA", int(s.transpose_a)}, {"transB", int(s.transpose_b)}});
    } else {
        product = g.node("MatMul", {left, right});
        if (s.epilogue.bias) product = g.node("Add", {product, g.input(s.c, {s.n}, s.epilogue.bias, true)});
    }
    const OnnxShape shape = stacked(batch, s.m, s.n);
    product = finished(g, product, s.epilogue, shape);
    return graph_kernel(g, product, s.c, shape, c, options, options.prepack_weights ? "weights packed before" : "");
}

Peer::Result OnnxRuntime::conv2d(const ConvCase &s, const void *src, const void *weights, void *dst,
                                 const PeerOptions &options) {
    if (options.own_activations) return {}; // it keeps its layout within a graph
    OnnxGraph g;
    std::vector<OnnxName> operands = {g.input(s.src, {s.n, s.c, s.h, s.w}, src),
                                      g.input(s.weights, {s.filters, s.c / s.groups, s.r, s.s}, weights, true)};
    if (s.epilogue.bias) operands.push_back(g.input(Dtype::F32, {s.filters}, s.epilogue.bias, true));
    if (!s.floats() && s.dst != Dtype::S32) return {};
    const OnnxShape shape = {s.n, s.filters, s.out_h(), s.out_w()};
    const OnnxName sum = g.node(s.floats() ? "Conv" : "ConvInteger", operands,
                                {{"kernel_shape", {s.r, s.s}},
                                 {"strides", {s.stride, s.stride}},
                                 {"pads", {s.pad, s.pad, s.pad, s.pad}},
                                 {"dilations", {s.dilation, s.dilation}},
                                 {"group", s.groups}});
    return graph_kernel(g, finished(g, sum, s.epilogue, shape), s.dst, shape, dst, options);
}

Peer::Result OnnxRuntime::attention(const AttentionCase &s, const float *q, const float *k, const float *v, float *dst,
                                    const PeerOptions &options) {
    if (s.causal && (options.in_steps || s.s != s.t)) return {};
    if (options.in_steps && s.heads != s.groups) return {};
    OnnxGraph g;
    const OnnxName queries = g.input(Dtype::F32, {s.b, s.heads, s.s, s.d}, q),
                   keys = g.input(Dtype::F32, {s.b, s.groups, s.t, s.d}, k),
                   values = g.input(Dtype::F32, {s.b, s.groups, s.t, s.v}, v);
    OnnxName y;
    if (options.in_steps) {
        const OnnxName scores =
            g.node("FusedMatMul", {queries, keys}, {{"transB", 1}, {"alpha", s.scale}}, "com.microsoft");
        y = g.node("MatMul", {g.node("Softmax", {scores}, {{"axis", -1}}), values});
    } else {
        y = g.node("Attention", {queries, keys, values}, {{"is_causal", int(s.causal)}, {"scale", s.scale}});
    }
    return graph_kernel(g, y, Dtype::F32, {s.b, s.heads, s.s, s.v}, dst, options);
}

Peer::Result OnnxRuntime::recurrent(const RecurrentCase &s, const float *src, const float *weights,
                                    const float *of_state, const float *bias, const float *h0, const float *c0,
                                    float *dst, const PeerOptions &options) {
    if (s.reset_after) return {}; // its bias differs from ours
    const int64_t rows = s.gates() * s.u;
    // The second bias, of the state's product, is 0.
    std::vector<float> both(static_cast<size_t>(2 * rows));
    std::copy(bias, bias + rows, both.begin());
    OnnxGraph g;
    std::vector<OnnxName> operands = {g.input(Dtype::F32, {s.t, s.b, s.i}, src),
                                      g.input(Dtype::F32, {1, rows, s.i}, weights, true),
                                      g.input(Dtype::F32, {1, rows, s.u}, of_state, true),
                                      g.input(Dtype::F32, {1, 2 * rows}, both.data(), true),
                                      "",
                                      g.input(Dtype::F32, {1, s.b, s.u}, h0)};
    if (c0) operands.push_back(g.input(Dtype::F32, {1, s.b, s.u}, c0));
    const OnnxName y = g.node(s.kind == "lstm"  ? "LSTM"
                              : s.kind == "gru" ? "GRU"
                                                : "RNN",
                              operands, {{"hidden_size", s.u}, {"direction", s.reverse ? "reverse" : "forward"}});
    return graph_kernel(g, y, Dtype::F32, {s.t, 1, s.b, s.u}, dst, options, "weights packed before");
}

std::unique_ptr<Peer> make_onnxruntime() { return std::make_unique<OnnxRuntime>(); }

} // namespace kumiko::bench
