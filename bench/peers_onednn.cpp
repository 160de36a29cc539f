// oneDNN as a peer, in a module of its own: the library is large and starts OpenMP's threads.
#include "bench/peers.h"

#include <dnnl.hpp>

#include <map>

extern "C" void omp_set_num_threads(int); // libgomp's; its header would need the compiler's OpenMP switch

namespace kumiko::bench {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto f32 = memory::data_type::f32;
constexpr auto inference = dnnl::prop_kind::forward_inference;

memory wrap(const memory::desc &desc, const dnnl::engine &engine, const float *data) {
    return memory(desc, engine, const_cast<float *>(data)); // oneDNN has no pointers to const
}

class OneDnn : public Peer {
public:
    std::string name() const override { return "oneDNN"; }
    std::string version() const override {
        const dnnl_version_t *v = dnnl_version();
        return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
    }
    bool available() const override { return true; }
    std::string reason() const override { return ""; }

    Result matmul(const MatmulCase &s, const float *a, const float *b, float *c, const PeerOptions &options) override {
        return guarded(options, [&] {
            memory::desc a_desc({s.m, s.k}, f32, Tag::ab), b_desc({s.k, s.n}, f32, Tag::ab),
                c_desc({s.m, s.n}, f32, Tag::ab);
            memory::desc any({s.k, s.n}, f32, Tag::any);
            dnnl::matmul::primitive_desc pd(engine_, a_desc, options.prepack_weights ? any : b_desc, c_desc);
            memory weights = reordered(wrap(b_desc, engine_, b), pd.weights_desc());
            return kernel(dnnl::matmul(pd), pd.impl_info_str(), options,
                          {{DNNL_ARG_SRC, wrap(a_desc, engine_, a)},
                           {DNNL_ARG_WEIGHTS, weights},
                           {DNNL_ARG_DST, wrap(c_desc, engine_, c)}});
        });
    }

    Result conv2d(const ConvCase &s, const float *src, const float *weights, const float *bias, float *dst,
                  const PeerOptions &options) override {
        return guarded(options, [&] {
            memory::dims weight_dims = {s.filters, s.c / s.groups, s.r, s.s};
            Tag weight_tag = Tag::oihw;
            if (s.groups > 1) {
                weight_dims = {s.groups, s.filters / s.groups, s.c / s.groups, s.r, s.s};
                weight_tag = Tag::goihw;
            }
            memory::desc src_plain({s.n, s.c, s.h, s.w}, f32, Tag::nchw);
            memory::desc dst_plain({s.n, s.filters, s.out_h(), s.out_w()}, f32, Tag::nchw);
            memory::desc weights_plain(weight_dims, f32, weight_tag);
            memory::desc src_any({s.n, s.c, s.h, s.w}, f32, Tag::any);
            memory::desc dst_any({s.n, s.filters, s.out_h(), s.out_w()}, f32, Tag::any);
            memory::desc weights_any(weight_dims, f32, Tag::any);
            memory::desc bias_desc = bias ? memory::desc({s.filters}, f32, Tag::a) : memory::desc();
            bool own = options.own_activations;
            dnnl::convolution_forward::primitive_desc pd(
                engine_, inference, dnnl::algorithm::convolution_direct, own ? src_any : src_plain,
                options.prepack_weights ? weights_any : weights_plain, bias_desc, own ? dst_any : dst_plain,
                {s.stride, s.stride}, {s.dilation - 1, s.dilation - 1}, {s.pad, s.pad}, {s.pad, s.pad});
            memory result = wrap(dst_plain, engine_, dst);
            memory target = pd.dst_desc() == dst_plain ? result : memory(pd.dst_desc(), engine_);
            Arguments arguments = {
                {DNNL_ARG_SRC, reordered(wrap(src_plain, engine_, src), pd.src_desc())},
                {DNNL_ARG_WEIGHTS, reordered(wrap(weights_plain, engine_, weights), pd.weights_desc())},
                {DNNL_ARG_DST, target}};
            if (bias) arguments[DNNL_ARG_BIAS] = wrap(bias_desc, engine_, bias);
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

    Result softmax(const RowsCase &s, const float *src, float *dst, const PeerOptions &options) override {
        return guarded(options, [&] {
            memory::desc desc({s.rows, s.columns}, f32, Tag::ab);
            dnnl::softmax_forward::primitive_desc pd(engine_, inference, dnnl::algorithm::softmax_accurate, desc, desc,
                                                     1);
            return kernel(dnnl::softmax_forward(pd), pd.impl_info_str(), options,
                          {{DNNL_ARG_SRC, wrap(desc, engine_, src)}, {DNNL_ARG_DST, wrap(desc, engine_, dst)}});
        });
    }

    Result layer_norm(const RowsCase &s, float epsilon, const float *src, const float *scale, const float *shift,
                      float *dst, const PeerOptions &options) override {
        return guarded(options, [&] {
            memory::desc desc({s.rows, s.columns}, f32, Tag::ab), row({s.columns}, f32, Tag::a);
            auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
            dnnl::layer_normalization_forward::primitive_desc pd(engine_, inference, desc, desc, epsilon, flags);
            return kernel(dnnl::layer_normalization_forward(pd), pd.impl_info_str(), options,
                          {{DNNL_ARG_SRC, wrap(desc, engine_, src)},
                           {DNNL_ARG_SCALE, wrap(row, engine_, scale)},
                           {DNNL_ARG_SHIFT, wrap(row, engine_, shift)},
                           {DNNL_ARG_DST, wrap(desc, engine_, dst)}});
        });
    }

    Result elementwise(const std::string &function, int64_t count, const float *src, float *dst,
                       const PeerOptions &options) override {
        using dnnl::algorithm;
        static const std::map<std::string, std::pair<algorithm, float>> known = {
            {"relu", {algorithm::eltwise_relu, 0}},
            {"tanh", {algorithm::eltwise_tanh, 0}},
            {"sigmoid", {algorithm::eltwise_logistic, 0}},
            {"gelu", {algorithm::eltwise_gelu_erf, 0}},
            {"gelu_tanh", {algorithm::eltwise_gelu_tanh, 0}},
            {"silu", {algorithm::eltwise_swish, 1}},
            {"exp", {algorithm::eltwise_exp, 0}},
            {"log", {algorithm::eltwise_log, 0}},
            {"sqrt", {algorithm::eltwise_sqrt, 0}},
            {"abs", {algorithm::eltwise_abs, 0}},
            {"square", {algorithm::eltwise_square, 0}}};
        auto found = known.find(function);
        if (found == known.end()) return {};
        return guarded(options, [&] {
            memory::desc desc({count}, f32, Tag::a);
            auto [which, alpha] = found->second;
            dnnl::eltwise_forward::primitive_desc pd(engine_, inference, which, desc, desc, alpha, 0.0f);
            return kernel(dnnl::eltwise_forward(pd), pd.impl_info_str(), options,
                          {{DNNL_ARG_SRC, wrap(desc, engine_, src)}, {DNNL_ARG_DST, wrap(desc, engine_, dst)}});
        });
    }

private:
    using Arguments = std::unordered_map<int, memory>;

    // A primitive that oneDNN refuses is one that this peer does not do. It plans for the number of threads at creation.
    template<typename Make>
    Result guarded(const PeerOptions &options, const Make &make) {
        omp_set_num_threads(options.threads);
        try {
            return make();
        } catch (const dnnl::error &) {
            return {};
        }
    }

    memory reordered(memory from, const memory::desc &wanted) {
        if (from.get_desc() == wanted) return from;
        memory to(wanted, engine_);
        dnnl::reorder(from, to).execute(stream_, from, to);
        stream_.wait();
        return to;
    }

    PeerKernel kernel(dnnl::primitive primitive, const char *implementation, const PeerOptions &options,
                      Arguments arguments) {
        PeerKernel out;
        out.note = implementation;
        out.run = [this, primitive, arguments = std::move(arguments), threads = options.threads] {
            omp_set_num_threads(threads);
            primitive.execute(stream_, arguments);
            stream_.wait();
        };
        return out;
    }

    dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
    mutable dnnl::stream stream_{engine_};
};

} // namespace

} // namespace kumiko::bench

extern "C" __attribute__((visibility("default"))) kumiko::bench::Peer *kumiko_make_peer() {
    return new kumiko::bench::OneDnn;
}
