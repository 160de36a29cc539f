// oneDNN's products and convolutions.
#include "bench/peers_onednn.h"

#include "bench/peers_onednn_functions.h"
#include "support/memory.h"

// Of libgomp; its header would need the compiler's OpenMP option.
extern "C" void omp_set_num_threads(int);

namespace kumiko::bench {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::data_type type_of(Dtype type) {
    switch (type) {
    case Dtype::F64:
        return memory::data_type::f64;
    case Dtype::F16:
        return memory::data_type::f16;
    case Dtype::BF16:
        return memory::data_type::bf16;
    case Dtype::U8:
        return memory::data_type::u8;
    case Dtype::S8:
        return memory::data_type::s8;
    case Dtype::S32:
        return memory::data_type::s32;
    case Dtype::F32:
        break;
    }
    return memory::data_type::f32;
}

// A matrix of `rows` x `columns`, or a batch of them; `turned`: stored column by column.
memory::desc matrix(Dtype type, int64_t batch, int64_t rows, int64_t columns, bool turned = false) {
    if (batch) return memory::desc({batch, rows, columns}, type_of(type), turned ? Tag::acb : Tag::abc);
    return memory::desc({rows, columns}, type_of(type), turned ? Tag::ba : Tag::ab);
}

memory::desc any_layout(const memory::desc &d) { return memory::desc(d.get_dims(), d.get_data_type(), Tag::any); }

} // namespace

std::string OneDnn::version() const {
    const dnnl_version_t *v = dnnl_version();
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

void OneDnn::plan_for(int threads) { omp_set_num_threads(threads); }

memory OneDnn::allocated(const memory::desc &desc) {
    memory m(desc, engine_);
    ask_for_large_pages(m.get_data_handle(), desc.get_size());
    return m;
}

memory OneDnn::reordered(memory from, const memory::desc &wanted) {
    if (from.get_desc() == wanted) return from;
    memory to = allocated(wanted);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return to;
}

dnnl::primitive_attr OneDnn::post_operations(const Epilogue &e, const memory::desc &result,
                                             Arguments &arguments) const {
    dnnl::post_ops ops;
    if (e.residual) {
        ops.append_binary(dnnl::algorithm::binary_add, result);
        arguments[DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1] = wrap(result, e.residual);
    }
    if (!e.activation.empty()) {
        const auto function = onednn_function(e.activation);
        if (!function) throw dnnl::error(dnnl_unimplemented, "no such function");
        ops.append_eltwise(function->which, function->alpha, function->beta);
    }
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(ops);
    return attributes;
}

PeerKernel OneDnn::kernel(dnnl::primitive primitive, const char *implementation, const PeerOptions &options,
                          Arguments arguments) {
    PeerKernel out;
    out.note = implementation;
    out.work = [this, primitive, arguments = std::move(arguments), threads = options.threads] {
        plan_for(threads);
        primitive.execute(stream_, arguments);
        stream_.wait();
    };
    return out;
}

Peer::Result OneDnn::matmul(const MatmulCase &s, const void *a, const void *b, void *c, const PeerOptions &options) {
    return guarded(options, [&] {
        const int64_t shared = s.batch ? 1 : 0; // a batch of one is broadcast
        const memory::desc a_desc = matrix(s.a, s.batch, s.m, s.k, s.transpose_a),
                           b_desc = matrix(s.b, s.shared_b ? shared : s.batch, s.k, s.n, s.transpose_b),
                           c_desc = matrix(s.c, s.batch, s.m, s.n);
        Arguments arguments;
        const dnnl::primitive_attr attributes = post_operations(s.epilogue, c_desc, arguments);
        const memory::desc packed = options.prepack_weights ? any_layout(b_desc) : b_desc;
        const memory::desc bias = matrix(Dtype::F32, shared, 1, s.n);
        const auto pd = s.epilogue.bias
                            ? dnnl::matmul::primitive_desc(engine_, a_desc, packed, bias, c_desc, attributes)
                            : dnnl::matmul::primitive_desc(engine_, a_desc, packed, c_desc, attributes);
        arguments[DNNL_ARG_SRC] = wrap(a_desc, a);
        arguments[DNNL_ARG_WEIGHTS] = reordered(wrap(b_desc, b), pd.weights_desc());
        arguments[DNNL_ARG_DST] = wrap(c_desc, c);
        if (s.epilogue.bias) arguments[DNNL_ARG_BIAS] = wrap(bias, s.epilogue.bias);
        return kernel(dnnl::matmul(pd), pd.impl_info_str(), options, arguments);
    });
}

Peer::Result OneDnn::conv2d(const ConvCase &s, const void *src, const void *weights, void *dst,
                            const PeerOptions &options) {
    return guarded(options, [&] {
        memory::dims weight_dims = {s.filters, s.c / s.groups, s.r, s.s};
        Tag weight_tag = Tag::oihw;
        if (s.groups > 1) {
            weight_dims = {s.groups, s.filters / s.groups, s.c / s.groups, s.r, s.s};
            weight_tag = Tag::goihw;
        }
        const memory::desc src_plain({s.n, s.c, s.h, s.w}, type_of(s.src), Tag::nchw),
            dst_plain({s.n, s.filters, s.out_h(), s.out_w()}, type_of(s.dst), Tag::nchw),
            weights_plain(weight_dims, type_of(s.weights), weight_tag);
        const memory::desc bias =
            s.epilogue.bias ? memory::desc({s.filters}, memory::data_type::f32, Tag::a) : memory::desc();
        const bool own = options.own_activations;
        Arguments arguments;
        dnnl::convolution_forward::primitive_desc pd(
            engine_, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
            own ? any_layout(src_plain) : src_plain,
            options.prepack_weights ? any_layout(weights_plain) : weights_plain, bias,
            own ? any_layout(dst_plain) : dst_plain, {s.stride, s.stride}, {s.dilation - 1, s.dilation - 1},
            {s.pad, s.pad}, {s.pad, s.pad}, post_operations(s.epilogue, dst_plain, arguments));
        memory result = wrap(dst_plain, dst);
        memory target = pd.dst_desc() == dst_plain ? result : allocated(pd.dst_desc());
        arguments[DNNL_ARG_SRC] = reordered(wrap(src_plain, src), pd.src_desc());
        arguments[DNNL_ARG_WEIGHTS] = reordered(wrap(weights_plain, weights), pd.weights_desc());
        arguments[DNNL_ARG_DST] = target;
        if (s.epilogue.bias) arguments[DNNL_ARG_BIAS] = wrap(bias, s.epilogue.bias);
        PeerKernel out = kernel(dnnl::convolution_forward(pd), pd.impl_info_str(), options, arguments);
        if (pd.dst_desc() != dst_plain) {
            out.collect = [this, target, result]() mutable {
                dnnl::reorder(target, result).execute(stream_, target, result);
                stream_.wait();
            };
        }
        return out;
    });
}

} // namespace kumiko::bench

extern "C" __attribute__((visibility("default"))) kumiko::bench::Peer *kumiko_make_peer() {
    return new kumiko::bench::OneDnn;
}
