// Runs kernels with all of their workspaces and stack filled with a pattern, and reports their
// results and the floating-point exceptions that they raise. A kernel that computes on memory which
// it has not written raises other exceptions if that memory holds denormal or signalling numbers
// than if it holds zeros.
#pragma once

#include "driver/kernel.h"
#include "dsl/inout.h"
#include "runtime/kumiko_runtime.h"
#include "targets/lower/nest.h"

#include <alloca.h>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kumiko::stale {

struct Pattern {
    const char *name;
    uint64_t bits;
};

// Denormal in each float type; signalling in f32 and bf16, f16, and f64.
inline constexpr Pattern zeros{"zeros", 0}, denormals{"denormals", 0x0001000100010001},
    signalling{"signalling NaN", 0x7fa17fa17fa17fa1}, signalling_f16{"signalling NaN of f16", 0x7d017d017d017d01},
    signalling_f64{"signalling NaN of f64", 0x7ff47ff47ff47ff4};
inline const std::vector<Pattern> patterns = {denormals, signalling, signalling_f16, signalling_f64};

inline void fill(void *to, size_t bytes, uint64_t bits) {
    auto *p = static_cast<unsigned char *>(to);
    for (; bytes >= 8; p += 8, bytes -= 8) std::memcpy(p, &bits, 8);
    std::memcpy(p, &bits, bytes);
}

// Scalar code converts whole registers after setting one lane, and moves a 16-bit float to a vector
// register together with the upper half of an integer register. What the fill, or the allocator,
// left in the other lanes and halves is not memory content. Clears the registers that functions may
// change.
[[gnu::noinline]] inline void clear_registers() {
#if defined(__x86_64__)
    asm volatile("xorl %%eax, %%eax\n\txorl %%ecx, %%ecx\n\txorl %%edx, %%edx\n\txorl %%esi, %%esi\n\t"
                 "xorl %%edi, %%edi\n\txorl %%r8d, %%r8d\n\txorl %%r9d, %%r9d\n\txorl %%r10d, %%r10d\n\t"
                 "xorl %%r11d, %%r11d"
                 :
                 :
                 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
    if (__builtin_cpu_supports("avx"))
        asm volatile("vzeroall"
                     :
                     :
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                       "xmm12", "xmm13", "xmm14", "xmm15");
    // Not listed as changed, because this file may be compiled for processors without these.
    if (__builtin_cpu_supports("avx512f"))
        asm volatile("vpxord %%zmm16, %%zmm16, %%zmm16\n\tvpxord %%zmm17, %%zmm17, %%zmm17\n\t"
                     "vpxord %%zmm18, %%zmm18, %%zmm18\n\tvpxord %%zmm19, %%zmm19, %%zmm19\n\t"
                     "vpxord %%zmm20, %%zmm20, %%zmm20\n\tvpxord %%zmm21, %%zmm21, %%zmm21\n\t"
                     "vpxord %%zmm22, %%zmm22, %%zmm22\n\tvpxord %%zmm23, %%zmm23, %%zmm23\n\t"
                     "vpxord %%zmm24, %%zmm24, %%zmm24\n\tvpxord %%zmm25, %%zmm25, %%zmm25\n\t"
                     "vpxord %%zmm26, %%zmm26, %%zmm26\n\tvpxord %%zmm27, %%zmm27, %%zmm27\n\t"
                     "vpxord %%zmm28, %%zmm28, %%zmm28\n\tvpxord %%zmm29, %%zmm29, %%zmm29\n\t"
                     "vpxord %%zmm30, %%zmm30, %%zmm30\n\tvpxord %%zmm31, %%zmm31, %%zmm31"
                     :
                     :);
#endif
}

// The same for the registers that functions keep for their callers. Inlined, because a function
// would restore them.
[[gnu::always_inline]] inline void clear_kept_registers() {
#if defined(__x86_64__)
    asm volatile("xorl %%ebx, %%ebx\n\txorl %%r12d, %%r12d\n\txorl %%r13d, %%r13d\n\t"
                 "xorl %%r14d, %%r14d\n\txorl %%r15d, %%r15d"
                 :
                 :
                 : "rbx", "r12", "r13", "r14", "r15", "cc");
#endif
}

// While an object exists, workspaces hold a pattern.
class Workspaces {
public:
    explicit Workspaces(uint64_t bits) {
        now() = bits;
        kumiko_set_memory(
            [](size_t bytes) -> void * {
                const size_t whole = (bytes + 63) / 64 * 64 + 64;
                void *block = std::aligned_alloc(64, whole);
                if (block) fill(block, whole, now());
                clear_registers();
                return block;
            },
            [](void *block) {
                std::free(block);
                clear_registers();
            });
    }
    ~Workspaces() { kumiko_set_memory(nullptr, nullptr); }
    Workspaces(const Workspaces &) = delete;

private:
    static uint64_t &now() {
        static uint64_t bits;
        return bits;
    }
};

// The stack that a call from the same function will use.
[[gnu::noinline]] inline void fill_stack(uint64_t bits) {
    constexpr size_t bytes = 256 << 10;
    void *stack = alloca(bytes);
    fill(stack, bytes, bits);
    asm volatile("" : : "r"(stack) : "memory");
}

// The exceptions raised since the last call: of invalid operations and of denormal operands.
inline unsigned take_exceptions() {
#if defined(__x86_64__)
    const unsigned now = _mm_getcsr();
    _mm_setcsr(now & ~0x3fu);
    return now & 3u;
#else
    return 0;
#endif
}

// The effects of one call.
struct Seen {
    std::vector<std::vector<unsigned char>> arrays; // outputs, and arrays that were updated
    unsigned exceptions = 0;
    int code = 0;
};

inline std::vector<unsigned char> bytes_of(const Buffer<> &b) {
    int64_t last = 1;
    for (size_t d = 0; d < b.rank(); d++) {
        if (b.extent(d) == 0) return {};
        last += (b.extent(d) - 1) * b.stride(d);
    }
    const auto *p = static_cast<const unsigned char *>(b.data());
    return {p, p + last * b.type().bytes()};
}

// One call on copies of the arrays, with inputs as the kernel takes them. Tasks run on this thread.
inline Seen run(const Kernel &k, const std::vector<Buffer<>> &inputs, const Sizes &sizes, uint64_t bits) {
    std::vector<Buffer<>> all = with_inouts_copied(k.op(), inputs);
    for (const std::string &o : k.op().separate_outputs()) {
        all.push_back(make_output(k.op(), o, sizes));
        fill_unwritten(all.back());
    }
    std::vector<void *> pointers;
    for (const Buffer<> &b : all) pointers.push_back(b.data());
    std::vector<int64_t> numbers;
    for (const std::string &s : k.op().sizes()) numbers.push_back(sizes.at(s));
    Seen seen;
    kumiko_set_num_threads(1);
    {
        const Workspaces workspaces(bits);
        fill_stack(bits);
        take_exceptions();
        clear_registers();
        clear_kept_registers();
        seen.code = k.call_raw(pointers.data(), numbers.data());
        seen.exceptions = take_exceptions();
    }
    kumiko_set_num_threads(0);
    for (size_t t = 0; t < all.size(); t++) {
        if (k.nest().tensors[t].output) seen.arrays.push_back(bytes_of(all[t]));
    }
    return seen;
}

// Describes what depends on the initial memory content; "" if nothing does.
inline std::string dependence(const Kernel &k, const std::vector<Buffer<>> &inputs, const Sizes &sizes) {
    const Seen expected = run(k, inputs, sizes, zeros.bits);
    if (expected.code) return "the kernel returned " + std::to_string(expected.code) + ": " + kumiko_error();
    for (const Pattern &p : patterns) {
        const Seen seen = run(k, inputs, sizes, p.bits);
        const std::string where = std::string(" where workspaces and stack hold ") + p.name;
        if (seen.arrays != expected.arrays) return "other results" + where;
        if (seen.exceptions != expected.exceptions)
            return "exceptions " + std::to_string(seen.exceptions) + " in place of " +
                   std::to_string(expected.exceptions) + where + " (1: invalid operation, 2: denormal operand)";
    }
    return "";
}

} // namespace kumiko::stale
