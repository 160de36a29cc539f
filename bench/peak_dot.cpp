// The rate of instructions that multiply narrow numbers and sum them in wider ones. Each level is
// compiled separately and selected if the processor supports it (for tiles, also the kernel).
#include "bench/peak.h"

#include "bench/crew.h"
#include "support/error.h"

#include <memory>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kumiko::bench {

namespace {

struct Dot {
    const char *name;
    double (*function)(long);
    double operations_per_step;
};

#if defined(__x86_64__)

// Enough independent sums to hide a latency of 5 cycles at 2 per cycle.
constexpr int dot_chains = 12;

// Inline assembly: arrays of the operands of intrinsics would not stay in registers.
__attribute__((target("avx2"))) double bytes_avx2(long steps) {
    __m256i acc[dot_chains], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(5), ones = _mm256_set1_epi16(1), product;
    for (auto &a : acc) a = y;
    for (long s = 0; s < steps; s++) {
        for (auto &a : acc)
            asm volatile("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
                         : "+v"(a), "=&v"(product)
                         : "v"(x), "v"(y), "v"(ones));
    }
    int first; // without taking acc's address, which would store it in each step
    asm("vmovd %x1, %0" : "=r"(first) : "v"(acc[0]));
    return first;
}

__attribute__((target("avx2"))) double bytes_avx_vnni(long steps) {
    __m256i acc[dot_chains], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(5);
    for (auto &a : acc) a = y;
    for (long s = 0; s < steps; s++) {
        for (auto &a : acc) asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+v"(a) : "v"(x), "v"(y));
    }
    int first; // without taking acc's address, which would store it in each step
    asm("vmovd %x1, %0" : "=r"(first) : "v"(acc[0]));
    return first;
}

__attribute__((target("avx512f,avx512bw"))) double bytes_avx512(long steps) {
    __m512i acc[dot_chains], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5), ones = _mm512_set1_epi16(1), product;
    for (auto &a : acc) a = y;
    for (long s = 0; s < steps; s++) {
        for (auto &a : acc)
            asm volatile("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
                         : "+v"(a), "=&v"(product)
                         : "v"(x), "v"(y), "v"(ones));
    }
    int first; // without taking acc's address, which would store it in each step
    asm("vmovd %x1, %0" : "=r"(first) : "v"(acc[0]));
    return first;
}

__attribute__((target("avx512f"))) double bytes_avx512_vnni(long steps) {
    __m512i acc[dot_chains], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(5);
    for (auto &a : acc) a = y;
    for (long s = 0; s < steps; s++) {
        for (auto &a : acc) asm volatile("vpdpbusd %2, %1, %0" : "+v"(a) : "v"(x), "v"(y));
    }
    int first; // without taking acc's address, which would store it in each step
    asm("vmovd %x1, %0" : "=r"(first) : "v"(acc[0]));
    return first;
}

__attribute__((target("avx512f,avx512bf16"))) double halves_avx512(long steps) {
    __m512 acc[dot_chains];
    const __m512i bits = _mm512_set1_epi16(0x3f80); // ones
    __m512bh x, y;
    __builtin_memcpy(&x, &bits, sizeof x);
    __builtin_memcpy(&y, &bits, sizeof y);
    for (auto &a : acc) a = _mm512_set1_ps(1);
    for (long s = 0; s < steps; s++) {
        for (auto &a : acc) a = _mm512_dpbf16_ps(a, x, y);
    }
    for (int c = 1; c < dot_chains; c++) acc[0] = _mm512_add_ps(acc[0], acc[c]);
    return _mm512_cvtss_f32(acc[0]);
}

// Eight tiles of 16 rows of 64 bytes: four sums, two operands on each side.
struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

__attribute__((target("amx-tile,amx-int8"))) double bytes_amx(long steps) {
    // Forces the whole struct into memory: the intrinsic declares only a part of it as read.
    static constexpr TileConfig config;
    _tile_loadconfig(&config);
    alignas(64) static const int32_t zeros[16 * 16] = {};
    alignas(64) int32_t out[16 * 16];
    _tile_loadd(0, zeros, 64);
    _tile_loadd(1, zeros, 64);
    _tile_loadd(2, zeros, 64);
    _tile_loadd(3, zeros, 64);
    _tile_loadd(4, zeros, 64);
    _tile_loadd(5, zeros, 64);
    _tile_loadd(6, zeros, 64);
    _tile_loadd(7, zeros, 64);
    for (long s = 0; s < steps; s++) {
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, out, 64);
    _tile_release();
    return out[0];
}

__attribute__((target("amx-tile,amx-bf16"))) double halves_amx(long steps) {
    // Forces the whole struct into memory: the intrinsic declares only a part of it as read.
    static constexpr TileConfig config;
    _tile_loadconfig(&config);
    alignas(64) static const float zeros[16 * 16] = {};
    alignas(64) float out[16 * 16];
    _tile_loadd(0, zeros, 64);
    _tile_loadd(1, zeros, 64);
    _tile_loadd(2, zeros, 64);
    _tile_loadd(3, zeros, 64);
    _tile_loadd(4, zeros, 64);
    _tile_loadd(5, zeros, 64);
    _tile_loadd(6, zeros, 64);
    _tile_loadd(7, zeros, 64);
    for (long s = 0; s < steps; s++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out, 64);
    _tile_release();
    return out[0];
}

// Linux grants a process the tile registers on request.
bool may_use_tiles() {
    constexpr long request_permission = 0x1023, tile_data = 18;
    static const bool granted = syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
    return granted;
}

// A bit of CPUID leaf 7.
bool leaf7(unsigned subleaf, int reg, int bit) {
    unsigned r[4] = {};
    if (!__get_cpuid_count(7, subleaf, &r[0], &r[1], &r[2], &r[3])) return false;
    return r[reg] >> bit & 1;
}

std::vector<Dot> byte_dots() {
    __builtin_cpu_init();
    const bool avx512 = __builtin_cpu_supports("avx512f"), avx2 = __builtin_cpu_supports("avx2");
    std::vector<Dot> out; // best last
    if (avx2) out.push_back({"vpmaddubsw avx2", bytes_avx2, 2.0 * 32 * dot_chains});
    if (avx512 && __builtin_cpu_supports("avx512bw"))
        out.push_back({"vpmaddubsw avx512", bytes_avx512, 2.0 * 64 * dot_chains});
    if (avx2 && leaf7(1, 0, 4)) out.push_back({"vpdpbusd avx", bytes_avx_vnni, 2.0 * 32 * dot_chains});
    if (avx512 && __builtin_cpu_supports("avx512vnni"))
        out.push_back({"vpdpbusd avx512", bytes_avx512_vnni, 2.0 * 64 * dot_chains});
    if (leaf7(0, 3, 24) && leaf7(0, 3, 25) && may_use_tiles())
        out.push_back({"tdpbusd", bytes_amx, 2.0 * 4 * 16 * 16 * 64});
    return out;
}

std::vector<Dot> half_dots() {
    __builtin_cpu_init();
    std::vector<Dot> out;
    if (__builtin_cpu_supports("avx512f") && leaf7(1, 0, 5))
        out.push_back({"vdpbf16ps avx512", halves_avx512, 2.0 * 32 * dot_chains});
    if (leaf7(0, 3, 22) && leaf7(0, 3, 24) && may_use_tiles())
        out.push_back({"tdpbf16ps", halves_amx, 2.0 * 4 * 16 * 16 * 32});
    return out;
}

#else

std::vector<Dot> byte_dots() { return {}; }
std::vector<Dot> half_dots() { return {}; }

#endif

CountedWork counted(const Dot &dot, int threads, const char *type) {
    constexpr double enough = 5e8; // operations: some milliseconds
    const long steps = static_cast<long>(enough / dot.operations_per_step) + 1;
    auto sinks = std::make_shared<std::vector<double>>(static_cast<size_t>(threads) * 64);
    auto crew = std::make_shared<Crew>(threads, [function = dot.function, sinks, steps](int t) {
        (*sinks)[static_cast<size_t>(t) * 64] = function(steps);
    });
    CountedWork work;
    work.name = std::string("dot products of ") + type + ", " + dot.name;
    work.flops = dot.operations_per_step * static_cast<double>(steps) * threads;
    work.run = [crew] { crew->run(); };
    return work;
}

} // namespace

CountedWork dot_peak(DotType type, int threads) {
    const std::vector<Dot> dots = type == DotType::Bytes ? byte_dots() : half_dots();
    return dots.empty() ? fma_peak(threads) : counted(dots.back(), threads, type == DotType::Bytes ? "bytes" : "bf16");
}

} // namespace kumiko::bench
