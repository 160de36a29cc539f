// Other libraries that do the same work, behind one small interface. Each is loaded on first use,
// so a program that compares nothing does not start their threads. A missing library reports its
// reason and is no failure.
//
//   for (Peer *peer : peers()) {
//       if (!peer->available()) { line(peer->name() + ": " + peer->reason()); continue; }
//       if (auto kernel = peer->matmul({512, 512, 512}, a, b, c, options))
//           work.push_back(kernel->work);
//   }
//
// Arrays are those of bench/peer_cases.h. The caller owns them, keeps them as long as the kernel,
// and fills inputs before requesting the kernel.
#pragma once

#include "bench/peer_cases.h"
#include "bench/timer.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kumiko::bench {

struct PeerOptions {
    int threads = 1;
    // Weights (matmul: B) are converted to the peer's own layout once, outside `work`.
    bool prepack_weights = false;
    // Convolution: activations are in the peer's own layout too; the reorders of src and dst are
    // outside `work`.
    bool own_activations = false;
    // Attention: compute it as matrix product, softmax, matrix product, even if the peer has a
    // fused operation.
    bool in_steps = false;
};

struct PeerKernel {
    TimedWork work;
    // Copies the result to the caller's output if `work` leaves it elsewhere. Call it before
    // comparing values, not while timing.
    std::function<void()> collect = [] {};
    std::string note; // its choice, for reports: "jit:avx2", "pre-packed weights"
};

class Peer {
public:
    virtual ~Peer() = default;
    virtual std::string name() const = 0;    // "OpenBLAS"
    virtual std::string version() const = 0; // "0.3.21"; "" when it is not available
    virtual bool available() const = 0;
    virtual std::string reason() const = 0; // why it is not available

    // Nullopt: this peer does not support it.
    using Result = std::optional<PeerKernel>;
    virtual Result matmul(const MatmulCase &, const void *a, const void *b, void *c, const PeerOptions &) { return {}; }
    virtual Result conv2d(const ConvCase &, const void *src, const void *weights, void *dst, const PeerOptions &) {
        return {};
    }
    // scale and shift are null if the function has none.
    virtual Result rows(const RowsCase &, const float *src, const float *scale, const float *shift, float *dst,
                        const PeerOptions &) {
        return {};
    }
    // function: a name of ops/elementwise.h, such as relu, tanh, gelu (by erf), gelu_tanh, exp
    virtual Result elementwise(const std::string &function, int64_t count, const float *src, float *dst,
                               const PeerOptions &) {
        return {};
    }
    virtual Result binary(const BinaryCase &, const float *a, const float *b, float *dst, const PeerOptions &) {
        return {};
    }
    virtual Result reduce(const ReduceCase &, const float *src, float *dst, const PeerOptions &) { return {}; }
    virtual Result transpose(const TransposeCase &, const float *src, float *dst, const PeerOptions &) { return {}; }
    virtual Result pool(const PoolCase &, const float *src, float *dst, const PeerOptions &) { return {}; }
    virtual Result resize(const ResizeCase &, const float *src, float *dst, const PeerOptions &) { return {}; }
    // mean and variance are null if they are not given.
    virtual Result image_norm(const ImageNormCase &, const float *src, const float *mean, const float *variance,
                              const float *scale, const float *shift, float *dst, const PeerOptions &) {
        return {};
    }
    virtual Result gather(const GatherCase &, const float *table, const int32_t *index, float *dst,
                          const PeerOptions &) {
        return {};
    }
    virtual Result one_hot(const OneHotCase &, const int32_t *index, float *dst, const PeerOptions &) { return {}; }
    virtual Result pad(const PadCase &, const float *src, float *dst, const PeerOptions &) { return {}; }
    virtual Result slice(const SliceCase &, const float *src, float *dst, const PeerOptions &) { return {}; }
    virtual Result concat(const ConcatCase &, const std::vector<const float *> &src, float *dst, const PeerOptions &) {
        return {};
    }
    virtual Result cumulative_sum(const CumulativeSumCase &, const float *src, float *dst, const PeerOptions &) {
        return {};
    }
    virtual Result quantise(const QuantiseCase &, const void *src, void *dst, const PeerOptions &) { return {}; }
    virtual Result attention(const AttentionCase &, const float *q, const float *k, const float *v, float *dst,
                             const PeerOptions &) {
        return {};
    }
    virtual Result recurrent(const RecurrentCase &, const float *src, const float *weights, const float *of_state,
                             const float *bias, const float *h0, const float *c0, float *dst, const PeerOptions &) {
        return {};
    }
};

// OpenBLAS, MKL, oneDNN, LIBXSMM, XNNPACK and ONNX Runtime in this order, available or not. They
// live until the program ends.
std::vector<Peer *> peers();
// Case-insensitive; null if there is no such peer.
Peer *find_peer(const std::string &name);

// The function that a peer in a loadable module (peers_onednn.cpp) exports under the name below.
using MakePeer = Peer *(*)();
inline constexpr const char *make_peer_symbol = "kumiko_make_peer";

// A peer that is not available.
class MissingPeer : public Peer {
public:
    MissingPeer(std::string name, std::string reason) : name_(std::move(name)), reason_(std::move(reason)) {}
    std::string name() const override { return name_; }
    std::string version() const override { return ""; }
    bool available() const override { return false; }
    std::string reason() const override { return reason_; }

private:
    std::string name_, reason_;
};

// The parts of peers().
std::unique_ptr<Peer> make_openblas();
std::unique_ptr<Peer> make_mkl();
std::unique_ptr<Peer> make_onnxruntime();

} // namespace kumiko::bench
