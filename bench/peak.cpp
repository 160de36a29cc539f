#include "bench/peak.h"

#include "bench/crew.h"
#include "support/error.h"
#include "support/memory.h"
#include "support/names.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace kumiko::bench {

namespace {

// Each uses enough independent accumulators to hide a latency of 5 cycles at 2 per cycle, and
// returns their sum so that the compiler keeps the work.
constexpr int chains = 12;

#if defined(__x86_64__)

float peak_sse2(long steps) {
    __m128 acc[chains], x = _mm_set1_ps(0.999f), y = _mm_set1_ps(1e-3f);
    for (auto &a : acc) a = y;
    for (long s = 0; s < steps; s++) {
        for (auto &a : acc) a = _mm_add_ps(_mm_mul_ps(a, x), y);
    }
    for (int c = 1; c < chains; c++) acc[0] = _mm_add_ps(acc[0], acc[c]);
    return _mm_cvtss_f32(acc[0]);
}

__attribute__((target("avx2,fma"))) float peak_avx2(long steps) {
    __m256 acc[chains], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
    for (auto &a : acc) a = y;
    for (long s = 0; s < steps; s++) {
        for (auto &a : acc) a = _mm256_fmadd_ps(a, x, y);
    }
    for (int c = 1; c < chains; c++) acc[0] = _mm256_add_ps(acc[0], acc[c]);
    return _mm256_cvtss_f32(acc[0]);
}

__attribute__((target("avx512f"))) float peak_avx512(long steps) {
    __m512 acc[chains], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
    for (auto &a : acc) a = y;
    for (long s = 0; s < steps; s++) {
        for (auto &a : acc) a = _mm512_fmadd_ps(a, x, y);
    }
    for (int c = 1; c < chains; c++) acc[0] = _mm512_add_ps(acc[0], acc[c]);
    return _mm512_cvtss_f32(acc[0]);
}

#elif defined(__aarch64__)

float peak_neon(long steps) {
    float32x4_t acc[2 * chains], x = vdupq_n_f32(0.999f), y = vdupq_n_f32(1e-3f);
    for (auto &a : acc) a = y;
    for (long s = 0; s < steps; s++) {
        for (auto &a : acc) a = vfmaq_f32(y, a, x);
    }
    for (int c = 1; c < 2 * chains; c++) acc[0] = vaddq_f32(acc[0], acc[c]);
    return vgetq_lane_f32(acc[0], 0);
}

#endif

struct Peak {
    const char *name;
    float (*function)(long);
    double flops_per_step;
};

std::vector<Peak> peaks() {
    std::vector<Peak> out;
#if defined(__x86_64__)
    __builtin_cpu_init();
    out.push_back({"sse2", peak_sse2, 2.0 * 4 * chains});
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        out.push_back({"avx2", peak_avx2, 2.0 * 8 * chains});
    }
    if (__builtin_cpu_supports("avx512f")) out.push_back({"avx512", peak_avx512, 2.0 * 16 * chains});
#elif defined(__aarch64__)
    out.push_back({"neon", peak_neon, 2.0 * 4 * 2 * chains});
#endif
    return out;
}

} // namespace

std::vector<std::string> fma_vectors() {
    std::vector<std::string> out;
    for (const Peak &p : peaks()) out.push_back(p.name);
    return out;
}

CountedWork fma_peak(int threads, const std::string &vectors) {
    std::vector<Peak> known = peaks();
    if (known.empty()) throw Unsupported("the peak of this architecture is not measured; x86-64 and aarch64 are");
    const Peak *peak = vectors.empty() ? &known.back() : nullptr;
    for (const Peak &p : known) {
        if (p.name == vectors) peak = &p;
    }
    if (!peak) throw UserError("no vectors '" + vectors + "' on this processor" + suggest(vectors, fma_vectors()));
    constexpr long steps = 1L << 20; // at least 6 cycles each
    auto function = peak->function;
    auto sinks = std::make_shared<std::vector<float>>(static_cast<size_t>(threads) * 64);
    auto crew = std::make_shared<Crew>(threads, [function, sinks](int t) { (*sinks)[t * 64] = function(steps); });
    CountedWork work;
    work.name = std::string("FMA peak f32 ") + peak->name;
    work.flops = peak->flops_per_step * steps * threads;
    work.run = [crew] { crew->run(); };
    return work;
}

namespace {

// Non-temporal copy of whole cache lines; the system's memcpy may write through the caches.
void copy_streamed([[maybe_unused]] char *to, [[maybe_unused]] const char *from, [[maybe_unused]] size_t bytes) {
#if defined(__x86_64__)
    for (size_t i = 0; i < bytes; i += 64) {
        const auto *a = reinterpret_cast<const __m128i *>(from + i);
        auto *b = reinterpret_cast<__m128i *>(to + i);
        const __m128i x = _mm_load_si128(a), y = _mm_load_si128(a + 1), z = _mm_load_si128(a + 2),
                      w = _mm_load_si128(a + 3);
        _mm_stream_si128(b, x);
        _mm_stream_si128(b + 1, y);
        _mm_stream_si128(b + 2, z);
        _mm_stream_si128(b + 3, w);
    }
    _mm_sfence();
#else
    std::memcpy(to, from, bytes);
#endif
}

} // namespace

CountedWork copy_bandwidth(int threads, size_t bytes) {
    bytes = std::max<size_t>(bytes, static_cast<size_t>(threads) * 4096) / 4096 * 4096;
    auto allocate = [&] {
        std::shared_ptr<char> p(static_cast<char *>(allocate_bytes(bytes)), std::free);
        std::memset(p.get(), 1, bytes);
        return p;
    };
    std::shared_ptr<char> from = allocate(), to = allocate();
    const auto streamed = std::make_shared<std::atomic<bool>>(false);
    auto crew = std::make_shared<Crew>(threads, [from, to, bytes, threads, streamed](int t) {
        size_t begin = bytes / 64 * t / threads * 64, end = bytes / 64 * (t + 1) / threads * 64;
        if (*streamed)
            copy_streamed(to.get() + begin, from.get() + begin, end - begin);
        else
            std::memcpy(to.get() + begin, from.get() + begin, end - begin);
    });
    double seconds[2] = {1e9, 1e9}; // the minimum of either way
    for (int n = 0; n < 6; n++) {
        *streamed = n % 2 == 1;
        const auto start = std::chrono::steady_clock::now();
        crew->run();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        seconds[n % 2] = std::min(seconds[n % 2], took.count());
    }
    *streamed = seconds[1] < seconds[0];
    CountedWork work;
    work.name = "copy";
    work.bytes = 2.0 * static_cast<double>(bytes);
    work.run = [crew] { crew->run(); };
    return work;
}

} // namespace kumiko::bench
