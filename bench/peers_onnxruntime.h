// ONNX Runtime as a peer: a small graph for each case, executed by the process of
// bench/python_peer.h.
#pragma once

#include "bench/onnxruntime_graph.h"
#include "bench/peers.h"

#include <memory>

namespace kumiko::bench {

class OnnxRuntime : public Peer {
public:
    std::string name() const override { return "ONNX Runtime"; }
    std::string version() const override { return process_->version(); }
    bool available() const override { return process_->reason().empty(); }
    std::string reason() const override { return process_->reason(); }

    // bench/peers_onnxruntime.cpp
    Result matmul(const MatmulCase &, const void *a, const void *b, void *c, const PeerOptions &) override;
    Result conv2d(const ConvCase &, const void *src, const void *weights, void *dst, const PeerOptions &) override;
    Result attention(const AttentionCase &, const float *q, const float *k, const float *v, float *dst,
                     const PeerOptions &) override;
    Result recurrent(const RecurrentCase &, const float *src, const float *weights, const float *of_state,
                     const float *bias, const float *h0, const float *c0, float *dst, const PeerOptions &) override;
    // bench/peers_onnxruntime_memory.cpp
    Result rows(const RowsCase &, const float *src, const float *scale, const float *shift, float *dst,
                const PeerOptions &) override;
    Result elementwise(const std::string &function, int64_t count, const float *src, float *dst,
                       const PeerOptions &) override;
    Result binary(const BinaryCase &, const float *a, const float *b, float *dst, const PeerOptions &) override;
    Result reduce(const ReduceCase &, const float *src, float *dst, const PeerOptions &) override;
    Result image_norm(const ImageNormCase &, const float *src, const float *mean, const float *variance,
                      const float *scale, const float *shift, float *dst, const PeerOptions &) override;
    Result quantise(const QuantiseCase &, const void *src, void *dst, const PeerOptions &) override;
    // bench/peers_onnxruntime_moves.cpp
    Result transpose(const TransposeCase &, const float *src, float *dst, const PeerOptions &) override;
    Result pool(const PoolCase &, const float *src, float *dst, const PeerOptions &) override;
    Result resize(const ResizeCase &, const float *src, float *dst, const PeerOptions &) override;
    Result gather(const GatherCase &, const float *table, const int32_t *index, float *dst,
                  const PeerOptions &) override;
    Result one_hot(const OneHotCase &, const int32_t *index, float *dst, const PeerOptions &) override;
    Result pad(const PadCase &, const float *src, float *dst, const PeerOptions &) override;
    Result slice(const SliceCase &, const float *src, float *dst, const PeerOptions &) override;
    Result concat(const ConcatCase &, const std::vector<const float *> &src, float *dst, const PeerOptions &) override;
    Result cumulative_sum(const CumulativeSumCase &, const float *src, float *dst, const PeerOptions &) override;

private:
    std::shared_ptr<PythonPeer> process_ = std::make_shared<PythonPeer>(PythonPeer::Library::OnnxRuntime);

    // A graph that it rejects counts as unsupported by this peer.
    Result graph_kernel(const OnnxGraph &, const OnnxName &output, Dtype type, const OnnxShape &shape, void *to,
                        const PeerOptions &, const std::string &note = "");
};

} // namespace kumiko::bench
