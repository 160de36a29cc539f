// LIBXSMM as a peer: small products, with code generated for each shape on request. It is in a
// separate module, since it is a static library that queries the processor when it is loaded.
#include "bench/peers.h"

#include <libxsmm.h>

namespace kumiko::bench {

namespace {

// Its manual claims best performance up to this size; its code is specialised for each shape.
constexpr double largest = 64.0 * 64 * 64;

class LibXsmm : public Peer {
public:
    LibXsmm() { libxsmm_init(); }
    std::string name() const override { return "LIBXSMM"; }
    std::string version() const override {
        return std::to_string(LIBXSMM_VERSION_MAJOR) + "." + std::to_string(LIBXSMM_VERSION_MINOR);
    }
    bool available() const override { return true; }
    std::string reason() const override { return ""; }

    // Its matrices are column-major, so it computes the transposed product of the transposed
    // operands: C^T = B^T A^T.
    Result matmul(const MatmulCase &s, const void *a, const void *b, void *c, const PeerOptions &options) override {
        if (s.batch || !s.epilogue.none() || options.prepack_weights) return {};
        if (static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) > largest) return {};
        const int m = static_cast<int>(s.n), n = static_cast<int>(s.m), k = static_cast<int>(s.k);
        const int lda = s.transpose_b ? k : m, ldb = s.transpose_a ? n : k, ldc = m;
        const int flags =
            (s.transpose_b ? LIBXSMM_GEMM_FLAG_TRANS_A : 0) | (s.transpose_a ? LIBXSMM_GEMM_FLAG_TRANS_B : 0);
        if (s.all(Dtype::F32)) {
            const float one = 1, zero = 0;
            return kernel<float>(libxsmm_smmdispatch(m, n, k, &lda, &ldb, &ldc, &one, &zero, &flags, nullptr), a, b, c);
        }
        if (s.all(Dtype::F64)) {
            const double one = 1, zero = 0;
            return kernel<double>(libxsmm_dmmdispatch(m, n, k, &lda, &ldb, &ldc, &one, &zero, &flags, nullptr), a, b,
                                  c);
        }
        return {};
    }

private:
    template<typename T, typename Function>
    static Result kernel(Function function, const void *a, const void *b, void *c) {
        if (!function) return {}; // no code for this shape
        PeerKernel out;
        out.work = [=] { function(static_cast<const T *>(b), static_cast<const T *>(a), static_cast<T *>(c)); };
        return out;
    }
};

} // namespace

} // namespace kumiko::bench

extern "C" __attribute__((visibility("default"))) kumiko::bench::Peer *kumiko_make_peer() {
    return new kumiko::bench::LibXsmm;
}
