// The processor that code is generated for: LLVM's triple, processor name and feature string, and
// the width of a vector register. Other properties (caches, units, throughput) belong to the
// machine table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kumiko {

// A processor, in LLVM's terms.
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
    // The first feature that this target enables, or its processor name implies, and `machine`
    // lacks; "" if `machine` runs the target's code. Another architecture counts as a missing
    // feature.
    std::string missing_on(const CpuTarget &machine) const;
    // The features that a processor needs to run code for this target, as a bit set of
    // runtime/cpu_features.h: those that the feature string enables and the processor name implies.
    // A feature outside that table is generated only if the feature string names it.
    uint64_t required_features() const;
    // The least capable processor of this architecture and system. Code that decides at run time
    // which other code may run is compiled for it.
    CpuTarget baseline() const;
    // Whether a gather instruction is faster than loads and inserts of its lanes, by LLVM's model
    // of the processor: on Intel's since Skylake, on no AMD Zen.
    bool has_fast_gather() const;
    // True for triples without an operating system: the only libc functions assumed are memset and
    // memcpy, beside the runtime's hooks.
    bool freestanding() const;

    // The processor that this program runs on, as kumiko_cpu_features() reports it at run time
    // (runtime/kumiko_runtime.h), so limit_features() applies.
    static CpuTarget host();
    // A named level (see level_names()) for cross compilation. "<level>-freestanding" is the same
    // without an operating system. Throws UserError for an unknown name and lists the known ones.
    static CpuTarget level(const std::string &name);
    static std::vector<std::string> level_names();
    // The bit of runtime/cpu_features.h for a feature ("amx-tile") of an architecture ("x86_64"); 0
    // if the table lacks it.
    static uint64_t feature_bit(const std::string &architecture, std::string_view feature);

    // One JSON object; from_json(to_json()) equals the original. Throws UserError on any other
    // text.
    std::string to_json() const;
    static CpuTarget from_json(const std::string &text);

    bool operator==(const CpuTarget &) const = default;
};

// From now on this process treats its processor as one that has at most the features of `level`.
// The limit applies to Machine::host(), CpuTarget::host(), to compiling and running in this
// process, and to generated code that asks at run time. "host" removes the limit. It installs a
// kumiko_set_cpu_features hook and replaces any other; call it while nothing is compiled. Already
// compiled kernels are not affected. Throws UserError for a level of another architecture.
void limit_features(const std::string &level);

} // namespace kumiko
