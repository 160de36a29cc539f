// A machine description: memory levels, execution units, vectors, features. Placement, legality,
// cost features and capacity checks all query it, so schedules are explained in the same terms for
// CPUs and chips. Nothing in it is CPU-specific: a machine with the levels LM0, GRF0 and L1BM and
// the units group, block and element uses the same struct.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace kumiko {

// A kind of memory. Each unit of level `scope` owns one instance.
struct MemoryLevel {
    std::string name;  // "registers", "L1", "L2", "L3", "DRAM"; "LM0", "GRF0", "L1BM"
    int64_t bytes = 0; // per instance; 0: unlimited or unknown
    // Unit level that owns an instance: "core"; "machine" if there is one in all.
    std::string scope;
    int shared_by = 1;               // number of innermost units that share an instance
    bool explicit_placement = false; // true: software-managed (registers, SRAM); false: a cache
    double bandwidth = 0;            // GB/s per instance; 0: unknown
    double latency = 0;              // ns per dependent load; 0: unknown
    int line_bytes = 0;              // transfer size; 0: any

    bool operator==(const MemoryLevel &) const = default;
};

// A kind of unit. Each unit of the level above (for the first row: the machine) has `count` of
// them.
struct UnitLevel {
    std::string name; // "core"; "group", "L2B", "L1B", "MAB", "PE"
    int64_t count = 1;

    bool operator==(const UnitLevel &) const = default;
};

// A table of a machine's memory levels, units, vectors and features.
struct Machine {
    std::string name;                // "host", "x86-64-avx2", or user-defined
    std::string description;         // for display: the processor's marketing name
    std::string architecture;        // "x86-64", "aarch64", "riscv64"; others for chips
    double clock_ghz = 0;            // 0: unknown
    std::vector<MemoryLevel> memory; // innermost first
    std::vector<UnitLevel> units;    // outermost first
    int vector_bits = 0;             // of one register
    int vector_registers = 0;
    double fmas_per_cycle = 0; // vector FMAs issued per cycle and innermost unit; 0: unknown
    // Linux names: "avx2", "fma", "avx512_vnni", "amx_tile"; on Arm "neon", "dotprod".
    std::set<std::string> features;

    // This processor, as reported by CPUID or its equivalent and the operating system. An
    // instruction set is included only if the system saves its registers and no limit is set
    // (kumiko_set_cpu_features of runtime/kumiko_runtime.h). Typical values replace sizes that are
    // not reported.
    static Machine host();
    // A typical machine of a named level, for cross-compilation; also "host". Throws UserError with
    // a suggestion.
    static Machine named(const std::string &name);
    static std::vector<std::string> names();

    // JSON conversion. load() throws UserError with the document, the path and the cause.
    std::string save() const;
    static Machine load(const std::string &text, const std::string &document = "machine");
    static Machine load_file(const std::string &path);

    // Throws UserError if the table is inconsistent: repeated names, negative sizes, a scope that
    // is not a unit.
    void check() const;

    // The memory level of that name. Throws UserError with the nearest name, or a list.
    const MemoryLevel &level(const std::string &name) const;
    const MemoryLevel *find_level(const std::string &name) const; // null if there is none
    std::vector<std::string> level_names() const;
    // The unit level of that name; throws in the same way.
    const UnitLevel &unit(const std::string &name) const;
    const UnitLevel *find_unit(const std::string &name) const;
    std::vector<std::string> unit_names() const;
    // The number of such units in the whole machine; units_in_all("core") is the number of cores.
    int64_t units_in_all(const std::string &unit) const;

    bool has(const std::string &feature) const { return features.count(feature) != 0; }
    // Number of lanes of `bits` bits in a vector register, at least 1.
    int lanes(int bits) const { return vector_bits >= 2 * bits ? vector_bits / bits : 1; }
    // Peak GFLOP/s in float32 of that many innermost units, an FMA counted as two; 0 if clock or
    // rate is unknown.
    double peak_gflops(int64_t units = 1) const;

    // A short stable key for databases: the name, and a hash of what determines which schedule is
    // good (architecture, features, vectors, levels, units). It excludes what varies between runs
    // or is estimated (clock, bandwidth, latency). Detection derives the latency of L3 from the
    // features.
    std::string id() const;
    // A few lines of text for display.
    std::string to_string() const;

    bool operator==(const Machine &) const = default;
};

} // namespace kumiko
