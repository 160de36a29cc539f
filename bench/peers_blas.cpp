#include "bench/peers_blas.h"

#include <dlfcn.h>

namespace kumiko::bench {

namespace {

template<typename T>
using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha, const T *a, int lda,
                      const T *b, int ldb, T beta, T *c, int ldc);
template<typename T>
using Gemv = void (*)(int order, int transpose, int rows, int columns, T alpha, const T *a, int lda, const T *x,
                      int x_step, T beta, T *y, int y_step);

// "cblas_sgemv" for float, "cblas_dgemv" for double.
template<typename T>
std::string cblas_name(const char *what) {
    return std::string("cblas_") + (sizeof(T) == 4 ? "s" : "d") + what;
}

} // namespace

Blas::Blas(const std::vector<std::string> &files) {
    for (const std::string &file : files) {
        if ((library_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))) break;
        reason_ = dlerror();
    }
    if (!library_) return;
    reason_.clear();
    if (!find("cblas_sgemm")) reason_ = "the library has no cblas_sgemm";
}

void *Blas::find(const char *name) const { return library_ ? dlsym(library_, name) : nullptr; }

PeerKernel Blas::kernel(const PeerOptions &options, std::function<void()> call, const std::string &note) {
    PeerKernel k;
    k.work = [this, threads = options.threads, call = std::move(call)] {
        // Costs time, compared with tiny work.
        if (threads != threads_) use_threads(threads_ = threads);
        call();
    };
    k.note = note;
    return k;
}

template<typename T>
Peer::Result Blas::product(const MatmulCase &s, const T *a, const T *b, T *c, const PeerOptions &options) {
    const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
    const int lda = s.transpose_a ? m : k, ldb = s.transpose_b ? k : n;
    const int ta = s.transpose_a ? cblas_transposed : cblas_plain, tb = s.transpose_b ? cblas_transposed : cblas_plain;
    const auto gemv = symbol<Gemv<T>>(cblas_name<T>("gemv").c_str());
    if (n == 1 && !s.batch && gemv) {
        return kernel(
            options, [=] { gemv(cblas_row_major, ta, s.transpose_a ? k : m, lda, T(1), a, lda, b, 1, T(0), c, 1); },
            "gemv");
    }
    if (m == 1 && !s.batch && gemv) { // a gemv with B, transposed
        const int turned = s.transpose_b ? cblas_plain : cblas_transposed;
        return kernel(
            options, [=] { gemv(cblas_row_major, turned, s.transpose_b ? n : k, ldb, T(1), b, ldb, a, 1, T(0), c, 1); },
            "gemv");
    }
    const auto gemm = symbol<Gemm<T>>(cblas_name<T>("gemm").c_str());
    if (!gemm) return {};
    const int64_t count = s.batch ? s.batch : 1, step_b = s.shared_b ? 0 : s.k * s.n;
    return kernel(options, [=] {
        for (int64_t i = 0; i < count; i++) {
            gemm(cblas_row_major, ta, tb, m, n, k, T(1), a + i * s.m * s.k, lda, b + i * step_b, ldb, T(0),
                 c + i * s.m * s.n, n);
        }
    });
}

Peer::Result Blas::matmul(const MatmulCase &s, const void *a, const void *b, void *c, const PeerOptions &options) {
    if (!available() || !s.epilogue.none()) return {};
    if (s.all(Dtype::F32) && !options.prepack_weights)
        return product(s, static_cast<const float *>(a), static_cast<const float *>(b), static_cast<float *>(c),
                       options);
    if (s.all(Dtype::F64) && !options.prepack_weights)
        return product(s, static_cast<const double *>(a), static_cast<const double *>(b), static_cast<double *>(c),
                       options);
    return other_matmul(s, a, b, c, options);
}

} // namespace kumiko::bench
