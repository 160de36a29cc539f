// Which processor code is generated for: LLVM's triple, processor name and feature string, and the width of a vector
// register. What a processor has besides (caches, units, throughput) is the machine table's business, not this one's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kumiko {

struct CpuTarget {
    std::string name;     // "host", or the level's name
    std::string triple;   // LLVM's: "x86_64-unknown-linux-gnu", "aarch64-none-elf"
    std::string cpu;      // LLVM's processor name: "znver4", "x86-64-v3"
    std::string features; // LLVM's feature string, sorted: "+avx2,+fma,-avx512f"
    int vector_bits = 128;

    // Whether the feature string switches `feature` on ("avx512f", "fma", "neon").
    bool has(std::string_view feature) const;
    // "x86_64", "aarch64", "riscv64": the part of the triple before the first dash.
    std::string architecture() const;
    // How many vector registers there are: 32, or 16 on x86 before AVX-512.
    int vector_registers() const;
    // The first feature that this target switches on, or its processor's name implies, and `machine` lacks ("" when machine runs its code). Another
    // architecture counts as a missing feature.
    std::string missing_on(const CpuTarget &machine) const;
    // What a processor must have to run code for this target, as a set of runtime/cpu_features.h's bits: what the feature string
    // switches on and what the processor's name implies. A feature that is not in that table is never generated unasked.
    uint64_t required_features() const;
    // The least processor of this architecture and system: what code is compiled for that decides which code may run.
    CpuTarget baseline() const;
    // True for triples without an operating system: no libc is assumed beyond memset, memcpy and the runtime's hooks.
    bool freestanding() const;

    // The processor that this program runs on, detected at run time: what kumiko_cpu_features() says (runtime/kumiko_runtime.h), so
    // less where a limit is set.
    static CpuTarget host();
    // A named level, for compiling elsewhere: see level_names(). "<level>-freestanding" is the same without an operating
    // system. Throws UserError for an unknown name, listing the known ones.
    static CpuTarget level(const std::string &name);
    static std::vector<std::string> level_names();
    // The bit of runtime/cpu_features.h for a feature of an architecture ("x86_64", "amx-tile"); 0 for one that is not there.
    static uint64_t feature_bit(const std::string &architecture, std::string_view feature);

    // One JSON object; from_json(to_json()) is equal. Throws UserError on text that is not such an object.
    std::string to_json() const;
    static CpuTarget from_json(const std::string &text);

    bool operator==(const CpuTarget &) const = default;
};

// From here on this process takes its processor for one that has no more than a level has: Machine::host(), CpuTarget::host(), what
// may be compiled and run in the process, and `kumiko` code that asks at run time. "host" takes the limit away. It is a hook of
// kumiko_set_cpu_features and replaces another one; set it while nothing is compiled. Kernels that are compiled already stay.
// Throws UserError for a level of another architecture.
void limit_features(const std::string &level);

} // namespace kumiko
