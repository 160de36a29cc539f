// What this machine can do at most, as work to be timed beside kernels: multiply-adds from registers, and copying memory.
// Nominal figures mislead, since the clock depends on load, temperature and vector width.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace kumiko::bench {

// Work whose amount is known: time `run` and divide.
struct CountedWork {
    std::string name;
    std::function<void()> run;
    double flops = 0; // of one run, multiply and add counted as two
    double bytes = 0; // of one run, read and written
};

// Float32 multiply-adds in `threads` threads with the given vectors: "sse2" (multiply, then add), "avx2", "avx512" or
// "neon"; "" takes the widest. One run takes about 2 ms. `threads` run for as long as the work lives.
CountedWork fma_peak(int threads = 1, const std::string &vectors = "");
// The vector levels that fma_peak() knows and this processor has, the narrowest first.
std::vector<std::string> fma_vectors();

// Products of narrow numbers summed in wider ones, with the best instruction there is: u8 by s8 in s32 (AMX tiles, vpdpbusd;
// without them vpmaddubsw and vpmaddwd, whose sums of two stay within 16 bits), or bf16 in float32 (AMX tiles, vdpbf16ps; without them float32
// multiply-adds). A multiplication and an addition count as two.
enum class DotType { Bytes, Halves };
CountedWork dot_peak(DotType type, int threads = 1);

// Copies an array of `bytes` to another in `threads` equal parts: by memcpy, or by stores that pass the caches by where that is faster.
// Choose far more bytes than the caches hold.
CountedWork copy_bandwidth(int threads = 1, size_t bytes = size_t(128) << 20);

} // namespace kumiko::bench
