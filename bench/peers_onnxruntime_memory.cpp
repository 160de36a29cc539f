// ONNX Runtime's row-wise and element-wise operations.
#include "bench/peers_onnxruntime.h"

#include <algorithm>
#include <map>

namespace kumiko::bench {

Peer::Result OnnxRuntime::rows(const RowsCase &s, const float *src, const float *scale, const float *shift, float *dst,
                               const PeerOptions &options) {
    OnnxGraph g;
    const OnnxShape shape = {s.rows, s.columns}, row = {s.columns};
    std::vector<OnnxName> operands = {g.input(Dtype::F32, shape, src)};
    OnnxName y;
    if (s.function == "softmax" || s.function == "log_softmax") {
        y = g.node(s.function == "softmax" ? "Softmax" : "LogSoftmax", operands, {{"axis", -1}});
    } else if (s.function == "layer_norm" || s.function == "rms_norm") {
        operands.push_back(g.input(Dtype::F32, row, scale, true));
        if (shift) operands.push_back(g.input(Dtype::F32, row, shift, true));
        y = g.node(shift ? "LayerNormalization" : "RMSNormalization", operands,
                   {{"axis", -1}, {"epsilon", static_cast<double>(s.epsilon)}});
    } else {
        return {};
    }
    return graph_kernel(g, y, Dtype::F32, shape, dst, options);
}

Peer::Result OnnxRuntime::elementwise(const std::string &function, int64_t count, const float *src, float *dst,
                                      const PeerOptions &options) {
    OnnxGraph g;
    const OnnxName y = onnx_function(g, function, g.input(Dtype::F32, {count}, src));
    if (y.empty()) return {};
    return graph_kernel(g, y, Dtype::F32, {count}, dst, options);
}

Peer::Result OnnxRuntime::binary(const BinaryCase &s, const float *a, const float *b, float *dst,
                                 const PeerOptions &options) {
    static const std::map<std::string, const char *> operators = {{"add", "Add"}, {"sub", "Sub"}, {"mul", "Mul"},
                                                                  {"div", "Div"}, {"max", "Max"}, {"min", "Min"}};
    const auto found = operators.find(s.function);
    if (found == operators.end()) return {};
    OnnxGraph g;
    const OnnxShape shape = {s.rows, s.columns};
    const OnnxName left = g.input(Dtype::F32, shape, a),
                   right = g.input(Dtype::F32, s.row ? OnnxShape{s.columns} : shape, b);
    return graph_kernel(g, g.node(found->second, {left, right}), Dtype::F32, shape, dst, options);
}

Peer::Result OnnxRuntime::reduce(const ReduceCase &s, const float *src, float *dst, const PeerOptions &options) {
    static const std::map<std::string, const char *> operators = {
        {"sum", "ReduceSum"}, {"mean", "ReduceMean"}, {"max", "ReduceMax"}, {"min", "ReduceMin"}};
    const auto found = operators.find(s.kind);
    if (found == operators.end()) return {};
    OnnxGraph g;
    OnnxShape left;
    for (size_t i = 0; i < s.shape.size(); i++) {
        if (std::find(s.axes.begin(), s.axes.end(), static_cast<int64_t>(i)) == s.axes.end())
            left.push_back(s.shape[i]);
    }
    const OnnxName x = g.input(Dtype::F32, s.shape, src),
                   axes = g.numbers("s64", s.axes, {static_cast<int64_t>(s.axes.size())});
    return graph_kernel(g, g.node(found->second, {x, axes}, {{"keepdims", 0}}), Dtype::F32, left, dst, options);
}

Peer::Result OnnxRuntime::image_norm(const ImageNormCase &s, const float *src, const float *mean, const float *variance,
                                     const float *scale, const float *shift, float *dst, const PeerOptions &options) {
    if (s.channels_last) return {}; // its images are NCHW
    OnnxGraph g;
    const OnnxShape shape = {s.n, s.c, s.h, s.w}, channel = {s.c};
    std::vector<OnnxName> operands = {g.input(Dtype::F32, shape, src)};
    for (const float *each : {scale, shift, mean, variance}) {
        if (each) operands.push_back(g.input(Dtype::F32, channel, each, true));
    }
    Json attributes = {{"epsilon", static_cast<double>(s.epsilon)}};
    if (s.kind == "group") attributes["num_groups"] = s.groups;
    const OnnxName y = g.node(s.kind == "group" ? "GroupNormalization" : "BatchNormalization", operands, attributes);
    return graph_kernel(g, y, Dtype::F32, shape, dst, options);
}

Peer::Result OnnxRuntime::quantise(const QuantiseCase &s, const void *src, void *dst, const PeerOptions &options) {
    OnnxGraph g;
    const bool forth = s.from == Dtype::F32;
    const Dtype bytes = forth ? s.to : s.from;
    if (bytes != Dtype::U8 && bytes != Dtype::S8) return {};
    const OnnxName x = g.input(s.from, {s.count}, src), scale = g.numbers("f32", s.scale, OnnxShape()),
                   zero = g.numbers(bytes == Dtype::U8 ? "u8" : "s8", s.zero_point, OnnxShape());
    const OnnxName y = g.node(forth ? "QuantizeLinear" : "DequantizeLinear", {x, scale, zero});
    return graph_kernel(g, y, s.to, {s.count}, dst, options);
}

} // namespace kumiko::bench
