// Libraries with the C interface of BLAS, loaded when they are constructed: the common part of
// OpenBLAS and MKL.
#pragma once

#include "bench/peers.h"

namespace kumiko::bench {

// The C interface of BLAS, which is fixed.
enum CblasNumber { cblas_row_major = 101, cblas_plain = 111, cblas_transposed = 112 };

class Blas : public Peer {
public:
    bool available() const override { return reason_.empty(); }
    std::string reason() const override { return reason_; }
    std::string version() const override { return available() ? version_ : ""; }

    // float32 and float64 by gemm, or by gemv if a side is one; a batch by one call each.
    Result matmul(const MatmulCase &, const void *a, const void *b, void *c, const PeerOptions &) override;

protected:
    // Tries the files in order. If none loads, or it lacks sgemm, the peer is not available.
    explicit Blas(const std::vector<std::string> &files);

    // Sets the number of threads of the next call.
    virtual void use_threads(int threads) = 0;
    // Types other than float32 and float64, and pre-packed weights; nullopt unless a library
    // overrides it.
    virtual Result other_matmul(const MatmulCase &, const void *, const void *, void *, const PeerOptions &) {
        return {};
    }

    template<typename F>
    F symbol(const char *name) const {
        return reinterpret_cast<F>(find(name));
    }
    // The call as work with that many threads.
    PeerKernel kernel(const PeerOptions &options, std::function<void()> call, const std::string &note = "");

    std::string version_, reason_;

private:
    void *library_ = nullptr;
    int threads_ = 0; // of the call before

    void *find(const char *name) const;
    template<typename T>
    Result product(const MatmulCase &s, const T *a, const T *b, T *c, const PeerOptions &options);
};

} // namespace kumiko::bench
