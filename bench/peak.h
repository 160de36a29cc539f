// The limits of this machine, as work to be timed together with kernels: multiply-adds from
// registers, and copying memory. Nominal figures mislead, since the clock depends on load,
// temperature and vector width.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace kumiko::bench {

// Work with a known amount: time `run` and divide.
struct CountedWork {
    std::string name;
    std::function<void()> run;
    double flops = 0; // of one run, multiply and add counted as two
    double bytes = 0; // of one run, read and written
};

// Float32 multiply-adds in `threads` threads with the given vectors: "sse2" (multiply, then add),
// "avx2", "avx512" or "neon"; "" selects the widest. One run takes about 2 ms. The threads exist as
// long as the work.
CountedWork fma_peak(int threads = 1, const std::string &vectors = "");
// The vector levels of fma_peak() that this processor supports, the narrowest first.
std::vector<std::string> fma_vectors();

// Products of narrow numbers summed in wider ones, with the best available instruction: u8 by s8 in
// s32 (AMX tiles, vpdpbusd; otherwise vpmaddubsw and vpmaddwd, with sums of two that fit 16 bits),
// or bf16 in float32 (AMX tiles, vdpbf16ps; otherwise float32 multiply-adds). A multiplication and
// an addition count as two.
enum class DotType { Bytes, Halves };
CountedWork dot_peak(DotType type, int threads = 1);

// Copies an array of `bytes` to another in `threads` equal parts, by memcpy or by non-temporal
// stores, whichever is faster. Choose `bytes` far larger than the caches.
CountedWork copy_bandwidth(int threads = 1, size_t bytes = size_t(128) << 20);

} // namespace kumiko::bench
