#include "bench/peers_blas.h"

namespace kumiko::bench {

namespace {

class OpenBlas : public Blas {
public:
    OpenBlas() : Blas(files()) {
        set_threads_ = symbol<void (*)(int)>("openblas_set_num_threads");
        if (available() && !set_threads_) reason_ = "libopenblas has no openblas_set_num_threads";
        if (const auto config = symbol<const char *(*)()>("openblas_get_config"); available() && config) {
            const std::string text = config(); // "OpenBLAS 0.3.21 NO_LAPACKE ..."
            const size_t begin = text.find(' ');
            version_ =
                begin == std::string::npos ? text : text.substr(begin + 1, text.find(' ', begin + 1) - begin - 1);
        }
    }
    std::string name() const override { return "OpenBLAS"; }

    Result transpose(const TransposeCase &s, const float *src, float *dst, const PeerOptions &options) override {
        using Copy = void (*)(int, int, int, int, float, const float *, int, float *, int);
        const auto copy = symbol<Copy>("cblas_somatcopy");
        if (!available() || !copy || s.order != std::vector<int64_t>{1, 0}) return {};
        const int m = static_cast<int>(s.shape[0]), n = static_cast<int>(s.shape[1]);
        return kernel(
            options, [=] { copy(cblas_row_major, cblas_transposed, m, n, 1.0f, src, n, dst, m); }, "omatcopy");
    }

protected:
    void use_threads(int threads) override { set_threads_(threads); }

    Result other_matmul(const MatmulCase &s, const void *a, const void *b, void *c,
                        const PeerOptions &options) override {
        using Sbgemm = void (*)(int, int, int, int, int, int, float, const uint16_t *, int, const uint16_t *, int,
                                float, float *, int);
        const auto gemm = symbol<Sbgemm>("cblas_sbgemm");
        if (!gemm || options.prepack_weights || s.batch) return {};
        if (s.a != Dtype::BF16 || s.b != Dtype::BF16 || s.c != Dtype::F32) return {};
        const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
        const int ta = s.transpose_a ? cblas_transposed : cblas_plain,
                  tb = s.transpose_b ? cblas_transposed : cblas_plain;
        return kernel(options, [=] {
            gemm(cblas_row_major, ta, tb, m, n, k, 1.0f, static_cast<const uint16_t *>(a), s.transpose_a ? m : k,
                 static_cast<const uint16_t *>(b), s.transpose_b ? k : n, 0.0f, static_cast<float *>(c), n);
        });
    }

private:
    // Its idle threads spin for 2^26 cycles, longer than the pause before the next timed piece;
    // 2^16 keeps them awake between its own calls. It reads this variable when it is loaded.
    static std::vector<std::string> files() {
        setenv("OPENBLAS_THREAD_TIMEOUT", "16", 0);
        return {"libopenblas.so.0", "libopenblas.so"};
    }

    void (*set_threads_)(int) = nullptr;
};

} // namespace

std::unique_ptr<Peer> make_openblas() { return std::make_unique<OpenBlas>(); }

} // namespace kumiko::bench
