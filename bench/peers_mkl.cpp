// MKL through its single dynamic library. It uses libgomp's threads, as oneDNN does, so that a
// program has one kind.
#include "bench/peers_blas.h"
#include "support/memory.h"

#include <cstdlib>
#include <map>

// The folder with the libraries of `./run setup`.
#ifndef KUMIKO_DEPS
#define KUMIKO_DEPS ""
#endif

namespace kumiko::bench {

namespace {

// Numbers of MKL's C interface that BLAS has not.
constexpr int packed = 151, b_matrix = 162, fixed_offset = 173, gnu_threads = 3, lp64 = 0;
constexpr int64_t low_accuracy = 1; // of vector mathematics: 4 units in the last place

class Mkl : public Blas {
public:
    Mkl() : Blas({std::string(KUMIKO_DEPS) + "/mkl/lib/libmkl_rt.so.3", "libmkl_rt.so.3", "libmkl_rt.so.2"}) {
        if (!available()) return;
        const auto set_layer = symbol<int (*)(int)>("MKL_Set_Threading_Layer");
        const auto set_interface = symbol<int (*)(int)>("MKL_Set_Interface_Layer");
        set_threads_ = symbol<void (*)(int)>("MKL_Set_Num_Threads");
        const auto describe = symbol<void (*)(char *, int)>("MKL_Get_Version_String");
        if (!set_layer || !set_interface || !set_threads_ || !describe) {
            reason_ = "libmkl_rt lacks the functions that choose its threads";
            return;
        }
        set_interface(lp64);
        set_layer(gnu_threads);
        // "... Math Kernel Library Version 2026.2-Product Build 20260901 for ..."
        char text[256] = {};
        describe(text, sizeof text - 1);
        const std::string whole = text;
        const size_t begin = whole.find("Version ");
        version_ = begin == std::string::npos ? "?" : whole.substr(begin + 8, whole.find('-', begin) - begin - 8);
    }
    std::string name() const override { return "MKL"; }

    Result transpose(const TransposeCase &s, const float *src, float *dst, const PeerOptions &options) override {
        using Copy = void (*)(char, char, size_t, size_t, float, const float *, size_t, float *, size_t);
        const auto copy = symbol<Copy>("MKL_Somatcopy");
        if (!available() || !copy || s.order != std::vector<int64_t>{1, 0}) return {};
        const size_t m = static_cast<size_t>(s.shape[0]), n = static_cast<size_t>(s.shape[1]);
        return kernel(
            options, [=] { copy('R', 'T', m, n, 1.0f, src, n, dst, m); }, "omatcopy");
    }

    Result elementwise(const std::string &function, int64_t count, const float *src, float *dst,
                       const PeerOptions &options) override {
        static const std::map<std::string, const char *> known = {
            {"exp", "vmsExp"}, {"log", "vmsLn"},     {"tanh", "vmsTanh"}, {"erf", "vmsErf"}, {"sqrt", "vmsSqrt"},
            {"abs", "vmsAbs"}, {"square", "vmsSqr"}, {"sin", "vmsSin"},   {"cos", "vmsCos"}};
        using Function = void (*)(int, const float *, float *, int64_t);
        const auto found = known.find(function);
        if (!available() || found == known.end()) return {};
        const auto f = symbol<Function>(found->second);
        if (!f) return {};
        return kernel(
            options, [=] { f(static_cast<int>(count), src, dst, low_accuracy); }, "VML, low accuracy");
    }

protected:
    void use_threads(int threads) override { set_threads_(threads); }

    Result other_matmul(const MatmulCase &s, const void *a, const void *b, void *c,
                        const PeerOptions &options) override {
        if (s.batch) return {};
        if (s.all(Dtype::F32)) return packed_product<float>("cblas_sgemm", s, a, b, c, options);
        if (options.prepack_weights) return {};
        const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
        const int lda = s.transpose_a ? m : k, ldb = s.transpose_b ? k : n;
        const int ta = turned(s.transpose_a), tb = turned(s.transpose_b);
        if (s.a == Dtype::U8 && s.b == Dtype::S8 && s.c == Dtype::S32) {
            using Gemm = void (*)(int, int, int, int, int, int, int, float, const void *, int, int8_t, const void *,
                                  int, int8_t, float, int32_t *, int, const int32_t *);
            const auto gemm = symbol<Gemm>("cblas_gemm_s8u8s32");
            if (!gemm) return {};
            return kernel(options, [=] {
                const int32_t none = 0;
                gemm(cblas_row_major, ta, tb, fixed_offset, m, n, k, 1.0f, a, lda, 0, b, ldb, 0, 0.0f,
                     static_cast<int32_t *>(c), n, &none);
            });
        }
        if (s.a == Dtype::BF16 && s.b == Dtype::BF16 && s.c == Dtype::F32) {
            using Gemm = void (*)(int, int, int, int, int, int, float, const void *, int, const void *, int, float,
                                  float *, int);
            const auto gemm = symbol<Gemm>("cblas_gemm_bf16bf16f32");
            if (!gemm) return {};
            return kernel(options, [=] {
                gemm(cblas_row_major, ta, tb, m, n, k, 1.0f, a, lda, b, ldb, 0.0f, static_cast<float *>(c), n);
            });
        }
        return {};
    }

private:
    void (*set_threads_)(int) = nullptr;

    static int turned(bool transposed) { return transposed ? cblas_transposed : cblas_plain; }

    // With B pre-packed.
    template<typename T>
    Result packed_product(const std::string &name, const MatmulCase &s, const void *a, const void *b, void *c,
                          const PeerOptions &options) {
        const auto size_of = symbol<size_t (*)(int, int, int, int)>((name + "_pack_get_size").c_str());
        const auto pack =
            symbol<void (*)(int, int, int, int, int, int, T, const T *, int, T *)>((name + "_pack").c_str());
        const auto compute =
            symbol<void (*)(int, int, int, int, int, int, const T *, int, const T *, int, T, T *, int)>(
                (name + "_compute").c_str());
        if (!size_of || !pack || !compute) return {};
        const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
        const int lda = s.transpose_a ? m : k, ldb = s.transpose_b ? k : n;
        std::shared_ptr<T> area(static_cast<T *>(allocate_bytes(size_of(b_matrix, m, n, k))), std::free);
        use_threads(options.threads); // the layout may depend on it
        pack(cblas_row_major, b_matrix, turned(s.transpose_b), m, n, k, T(1), static_cast<const T *>(b), ldb,
             area.get());
        return kernel(
            options,
            [=, ta = turned(s.transpose_a)] {
                compute(cblas_row_major, ta, packed, m, n, k, static_cast<const T *>(a), lda, area.get(), ldb, T(0),
                        static_cast<T *>(c), n);
            },
            "weights packed before");
    }
};

} // namespace

std::unique_ptr<Peer> make_mkl() { return std::make_unique<Mkl>(); }

} // namespace kumiko::bench
