// oneDNN's memory-bound operations: rows, elements, reductions, transposition.
#include "bench/peers_onednn.h"
#include "bench/peers_onednn_functions.h"

#include <algorithm>
#include <map>

namespace kumiko::bench {

namespace {

using dnnl::algorithm;
using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto f32 = memory::data_type::f32;
constexpr auto inference = dnnl::prop_kind::forward_inference;

memory::dims dense_strides(const memory::dims &shape) {
    memory::dims strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    return strides;
}

} // namespace

std::optional<OneDnnFunction> onednn_function(const std::string &name) {
    static const std::map<std::string, OneDnnFunction> known = {
        {"relu", {algorithm::eltwise_relu}},
        {"leaky_relu", {algorithm::eltwise_relu, 0.01f}},
        {"relu6", {algorithm::eltwise_clip, 0, 6}},
        {"tanh", {algorithm::eltwise_tanh}},
        {"sigmoid", {algorithm::eltwise_logistic}},
        {"hard_sigmoid", {algorithm::eltwise_hardsigmoid, 1.0f / 6, 0.5f}},
        {"hard_swish", {algorithm::eltwise_hardswish, 1.0f / 6, 0.5f}},
        {"gelu", {algorithm::eltwise_gelu_erf}},
        {"gelu_tanh", {algorithm::eltwise_gelu_tanh}},
        {"silu", {algorithm::eltwise_swish, 1}},
        {"softplus", {algorithm::eltwise_soft_relu, 1}},
        {"exp", {algorithm::eltwise_exp}},
        {"log", {algorithm::eltwise_log}},
        {"sqrt", {algorithm::eltwise_sqrt}},
        {"abs", {algorithm::eltwise_abs}},
        {"round", {algorithm::eltwise_round}},
        {"square", {algorithm::eltwise_square}}};
    const auto found = known.find(name);
    return found == known.end() ? std::nullopt : std::optional(found->second);
}

Peer::Result OneDnn::rows(const RowsCase &s, const float *src, const float *scale, const float *shift, float *dst,
                          const PeerOptions &options) {
    return guarded(options, [&]() -> Result {
        const memory::desc desc({s.rows, s.columns}, f32, Tag::ab), row({s.columns}, f32, Tag::a);
        Arguments arguments = {{DNNL_ARG_SRC, wrap(desc, src)}, {DNNL_ARG_DST, wrap(desc, dst)}};
        if (s.function == "softmax" || s.function == "log_softmax") {
            const auto which = s.function == "softmax" ? algorithm::softmax_accurate : algorithm::softmax_log;
            dnnl::softmax_forward::primitive_desc pd(engine_, inference, which, desc, desc, 1);
            return kernel(dnnl::softmax_forward(pd), pd.impl_info_str(), options, arguments);
        }
        if (s.function != "layer_norm") return {};
        const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
        dnnl::layer_normalization_forward::primitive_desc pd(engine_, inference, desc, desc, s.epsilon, flags);
        arguments[DNNL_ARG_SCALE] = wrap(row, scale);
        arguments[DNNL_ARG_SHIFT] = wrap(row, shift);
        return kernel(dnnl::layer_normalization_forward(pd), pd.impl_info_str(), options, arguments);
    });
}

Peer::Result OneDnn::elementwise(const std::string &function, int64_t count, const float *src, float *dst,
                                 const PeerOptions &options) {
    const auto f = onednn_function(function);
    if (!f) return {};
    return guarded(options, [&] {
        const memory::desc desc({count}, f32, Tag::a);
        dnnl::eltwise_forward::primitive_desc pd(engine_, inference, f->which, desc, desc, f->alpha, f->beta);
        return kernel(dnnl::eltwise_forward(pd), pd.impl_info_str(), options,
                      {{DNNL_ARG_SRC, wrap(desc, src)}, {DNNL_ARG_DST, wrap(desc, dst)}});
    });
}

Peer::Result OneDnn::binary(const BinaryCase &s, const float *a, const float *b, float *dst,
                            const PeerOptions &options) {
    static const std::map<std::string, algorithm> known = {
        {"add", algorithm::binary_add}, {"sub", algorithm::binary_sub}, {"mul", algorithm::binary_mul},
        {"div", algorithm::binary_div}, {"max", algorithm::binary_max}, {"min", algorithm::binary_min}};
    const auto found = known.find(s.function);
    if (found == known.end()) return {};
    return guarded(options, [&] {
        const memory::desc whole({s.rows, s.columns}, f32, Tag::ab), row({1, s.columns}, f32, Tag::ab);
        const memory::desc &second = s.row ? row : whole;
        dnnl::binary::primitive_desc pd(engine_, found->second, whole, second, whole);
        return kernel(
            dnnl::binary(pd), pd.impl_info_str(), options,
            {{DNNL_ARG_SRC_0, wrap(whole, a)}, {DNNL_ARG_SRC_1, wrap(second, b)}, {DNNL_ARG_DST, wrap(whole, dst)}});
    });
}

Peer::Result OneDnn::reduce(const ReduceCase &s, const float *src, float *dst, const PeerOptions &options) {
    static const std::map<std::string, algorithm> known = {{"sum", algorithm::reduction_sum},
                                                           {"mean", algorithm::reduction_mean},
                                                           {"max", algorithm::reduction_max},
                                                           {"min", algorithm::reduction_min}};
    const auto found = known.find(s.kind);
    if (found == known.end()) return {};
    return guarded(options, [&] {
        memory::dims left = s.shape;
        for (int64_t axis : s.axes) left[static_cast<size_t>(axis)] = 1;
        const memory::desc from(s.shape, f32, dense_strides(s.shape)), to(left, f32, dense_strides(left));
        dnnl::reduction::primitive_desc pd(engine_, found->second, from, to, 0.0f, 0.0f);
        return kernel(dnnl::reduction(pd), pd.impl_info_str(), options,
                      {{DNNL_ARG_SRC, wrap(from, src)}, {DNNL_ARG_DST, wrap(to, dst)}});
    });
}

// For oneDNN this is a copy between two layouts of the same array.
Peer::Result OneDnn::transpose(const TransposeCase &s, const float *src, float *dst, const PeerOptions &options) {
    return guarded(options, [&] {
        memory::dims turned;
        for (int64_t axis : s.order) turned.push_back(s.shape[static_cast<size_t>(axis)]);
        const memory::dims dense = dense_strides(turned);
        memory::dims strides(s.shape.size());
        for (size_t i = 0; i < s.order.size(); i++) strides[static_cast<size_t>(s.order[i])] = dense[i];
        const memory::desc from(s.shape, f32, dense_strides(s.shape)), to(s.shape, f32, strides);
        dnnl::reorder::primitive_desc pd(engine_, from, engine_, to);
        return kernel(dnnl::reorder(pd), pd.impl_info_str(), options,
                      {{DNNL_ARG_FROM, wrap(from, src)}, {DNNL_ARG_TO, wrap(to, dst)}});
    });
}

} // namespace kumiko::bench
