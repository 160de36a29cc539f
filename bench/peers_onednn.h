// oneDNN as a peer, in a separate module: the library is large and starts OpenMP's threads.
#pragma once

#include "bench/peers.h"

#include <dnnl.hpp>

#include <unordered_map>

namespace kumiko::bench {

class OneDnn : public Peer {
public:
    std::string name() const override { return "oneDNN"; }
    std::string version() const override;
    bool available() const override { return true; }
    std::string reason() const override { return ""; }

    Result matmul(const MatmulCase &, const void *a, const void *b, void *c, const PeerOptions &) override;
    Result conv2d(const ConvCase &, const void *src, const void *weights, void *dst, const PeerOptions &) override;
    Result rows(const RowsCase &, const float *src, const float *scale, const float *shift, float *dst,
                const PeerOptions &) override;
    Result elementwise(const std::string &function, int64_t count, const float *src, float *dst,
                       const PeerOptions &) override;
    Result binary(const BinaryCase &, const float *a, const float *b, float *dst, const PeerOptions &) override;
    Result reduce(const ReduceCase &, const float *src, float *dst, const PeerOptions &) override;
    Result transpose(const TransposeCase &, const float *src, float *dst, const PeerOptions &) override;
    Result pool(const PoolCase &, const float *src, float *dst, const PeerOptions &) override;
    Result resize(const ResizeCase &, const float *src, float *dst, const PeerOptions &) override;
    Result image_norm(const ImageNormCase &, const float *src, const float *mean, const float *variance,
                      const float *scale, const float *shift, float *dst, const PeerOptions &) override;
    Result slice(const SliceCase &, const float *src, float *dst, const PeerOptions &) override;
    Result concat(const ConcatCase &, const std::vector<const float *> &src, float *dst, const PeerOptions &) override;
    Result quantise(const QuantiseCase &, const void *src, void *dst, const PeerOptions &) override;

private:
    using Arguments = std::unordered_map<int, dnnl::memory>;

    dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream_{engine_};

    // A primitive that oneDNN rejects, or for which it has no fast code ("ref:any"), counts as
    // unsupported by this peer. oneDNN plans for the number of threads at creation.
    template<typename Make>
    Result guarded(const PeerOptions &options, const Make &make) {
        // Sets the number of threads for which oneDNN plans.
        plan_for(options.threads);
        try {
            Result result = make();
            if (result && result->note.starts_with("ref")) return {};
            return result;
        } catch (const dnnl::error &) {
            return {};
        }
    }
    static void plan_for(int threads);

    // oneDNN has no pointers to const.
    dnnl::memory wrap(const dnnl::memory::desc &desc, const void *data) const {
        return dnnl::memory(desc, engine_, const_cast<void *>(data));
    }
    // Memory for an array of this layout.
    dnnl::memory allocated(const dnnl::memory::desc &desc);
    // The array in the wanted layout, copied if it has another.
    dnnl::memory reordered(dnnl::memory from, const dnnl::memory::desc &wanted);
    // The epilogue's residual and function; their arguments are added to `arguments`. Throws
    // dnnl::error for an unsupported function.
    dnnl::primitive_attr post_operations(const Epilogue &e, const dnnl::memory::desc &result,
                                         Arguments &arguments) const;
    PeerKernel kernel(dnnl::primitive primitive, const char *implementation, const PeerOptions &options,
                      Arguments arguments);
};

} // namespace kumiko::bench
