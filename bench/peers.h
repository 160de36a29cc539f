// Other libraries that do the same work, behind one small interface. Each is loaded when it is first asked for, so a
// program that compares nothing does not start their threads; one that is missing says so and is no failure.
//
//   for (Peer *peer : peers()) {
//       if (!peer->available()) { line(peer->name() + ": " + peer->reason()); continue; }
//       if (auto kernel = peer->matmul({512, 512, 512}, a, b, c, options)) work.push_back(kernel->run);
//   }
//
// All arrays are float32, row-major and dense, and belong to the caller, who keeps them as long as the kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kumiko::bench {

struct MatmulCase {
    int64_t m, n, k; // C[m,n] = A[m,k] B[k,n]
    double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// dst[n,f,oh,ow] = bias[f] + sum over c,r,s of src[n,g*C/G+c,...] * weights[f,c,r,s]; src is NCHW, weights are [F,C/G,R,S].
struct ConvCase {
    int64_t n, c, h, w, filters, r, s;
    int64_t stride = 1, pad = 0, dilation = 1, groups = 1;
    int64_t out_h() const { return (h + 2 * pad - dilation * (r - 1) - 1) / stride + 1; }
    int64_t out_w() const { return (w + 2 * pad - dilation * (s - 1) - 1) / stride + 1; }
    // As if the padding were computed too, which is how it is usually counted.
    double flops() const {
        return 2.0 * static_cast<double>(n * filters * out_h() * out_w()) * static_cast<double>(c / groups * r * s);
    }
};

// Along the columns of a matrix.
struct RowsCase {
    int64_t rows, columns;
    double bytes() const { return 8.0 * static_cast<double>(rows) * static_cast<double>(columns); }
};

struct PeerOptions {
    int threads = 1;
    // Weights (matmul: B) are brought into the peer's own layout once, outside `run`.
    bool prepack_weights = false;
    // Convolution: activations too stand in the peer's own layout; the reorders of src and dst are outside `run`.
    bool own_activations = false;
};

struct PeerKernel {
    std::function<void()> run;
    // Brings the result into the caller's output where `run` leaves it elsewhere (own_activations). Call it before
    // comparing values, not while timing.
    std::function<void()> collect = [] {};
    std::string note; // what it chose, for reports: "jit:avx2", "weights packed before"
};

class Peer {
public:
    virtual ~Peer() = default;
    virtual std::string name() const = 0;    // "OpenBLAS"
    virtual std::string version() const = 0; // "0.3.21"; "" when it is not available
    virtual bool available() const = 0;
    virtual std::string reason() const = 0; // why it is not available

    // Nothing: this peer does not do that.
    using Result = std::optional<PeerKernel>;
    virtual Result matmul(const MatmulCase &, const float *a, const float *b, float *c, const PeerOptions &) {
        return {};
    }
    // bias may be null
    virtual Result conv2d(const ConvCase &, const float *src, const float *weights, const float *bias, float *dst,
                          const PeerOptions &) {
        return {};
    }
    virtual Result softmax(const RowsCase &, const float *src, float *dst, const PeerOptions &) { return {}; }
    virtual Result layer_norm(const RowsCase &, float epsilon, const float *src, const float *scale, const float *shift,
                              float *dst, const PeerOptions &) {
        return {};
    }
    // function: relu, tanh, sigmoid, gelu (by erf), gelu_tanh, silu, exp, log, sqrt, abs, square
    virtual Result elementwise(const std::string &function, int64_t count, const float *src, float *dst,
                               const PeerOptions &) {
        return {};
    }
};

// OpenBLAS and oneDNN, available or not, in this order. They live until the program ends.
std::vector<Peer *> peers();
// By name, without regard to case; null when there is no such peer.
Peer *find_peer(const std::string &name);

// What a peer that lives in a loadable module (peers_onednn.cpp) exports under the name below.
using MakePeer = Peer *(*)();
inline constexpr const char *make_peer_symbol = "kumiko_make_peer";

} // namespace kumiko::bench
