// A machine as a table: memory levels, units of execution, vectors, features. Whoever asks what fits where, how many run
// at once or which instruction exists (placement, legality, cost features, capacity checks) asks this table, and so a
// schedule is explained in the same words on a CPU and on a chip. Nothing here is an enumeration of CPU things: a machine
// whose levels are LM0, GRF0 and L1BM and whose units are groups, blocks and elements is the same struct with other rows.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace kumiko {

// A kind of memory. One instance of it belongs to one unit of the level `scope`.
struct MemoryLevel {
    std::string name;  // "registers", "L1", "L2", "L3", "DRAM"; "LM0", "GRF0", "L1BM"
    int64_t bytes = 0; // of one instance; 0: unlimited, or unknown
    std::string scope; // the unit level that owns an instance: "core"; "machine" for the one of all
    int shared_by = 1; // how many innermost units share one instance
    bool explicit_placement =
        false;            // programs say what is in it (registers, SRAM); false: a cache, which decides itself
    double bandwidth = 0; // GB/s of one instance, 0: unknown
    double latency = 0;   // ns of a load that depends on it, 0: unknown
    int line_bytes = 0;   // what moves at once, 0: any

    bool operator==(const MemoryLevel &) const = default;
};

// A kind of unit. `count` instances stand in each unit of the level above (the first row: in the machine).
struct UnitLevel {
    std::string name; // "core"; "group", "L2B", "L1B", "MAB", "PE"
    int64_t count = 1;

    bool operator==(const UnitLevel &) const = default;
};

struct Machine {
    std::string name;                // "host", "x86-64-avx2", or a user's
    std::string description;         // for people: the processor's own name
    std::string architecture;        // "x86-64", "aarch64", "riscv64"; another for chips
    double clock_ghz = 0;            // 0: unknown
    std::vector<MemoryLevel> memory; // nearest to the arithmetic first
    std::vector<UnitLevel> units;    // outermost first
    int vector_bits = 0;             // of one register
    int vector_registers = 0;
    double fmas_per_cycle = 0; // vector multiply-adds that one innermost unit begins in a cycle; 0: unknown
    std::set<std::string>
        features; // as Linux names them: "avx2", "fma", "avx512_vnni", "amx_tile"; on Arm "neon", "dotprod"

    // This processor, as its identification instructions and the operating system report it: an instruction set counts
    // only if the system saves its registers, and if no limit is set (kumiko_set_cpu_features of runtime/kumiko_runtime.h). Sizes that
    // are not reported are typical ones.
    static Machine host();
    // A typical machine of a named level, for compiling elsewhere; "host" too. Throws UserError with a suggestion.
    static Machine named(const std::string &name);
    static std::vector<std::string> names();

    // JSON. load() throws UserError that names the document, the path and the cause.
    std::string save() const;
    static Machine load(const std::string &text, const std::string &document = "machine");
    static Machine load_file(const std::string &path);

    // Throws UserError when the table is not sensible: repeated names, negative sizes, a scope that is no unit.
    void check() const;

    // The memory level of that name; throws UserError with the nearest name, or a list.
    const MemoryLevel &level(const std::string &name) const;
    const MemoryLevel *find_level(const std::string &name) const; // null when there is none
    std::vector<std::string> level_names() const;
    // The unit level of that name; throws likewise.
    const UnitLevel &unit(const std::string &name) const;
    const UnitLevel *find_unit(const std::string &name) const;
    std::vector<std::string> unit_names() const;
    // Instances of that unit in the whole machine. units_in_all("core") on a CPU: its cores.
    int64_t units_in_all(const std::string &unit) const;

    bool has(const std::string &feature) const { return features.count(feature) != 0; }
    // Lanes of `bits` each in a vector register, at least 1.
    int lanes(int bits) const { return vector_bits >= 2 * bits ? vector_bits / bits : 1; }
    // Multiply and add counted as two: GFLOP/s of float32 on that many innermost units; 0 when clock or rate is unknown.
    double peak_gflops(int64_t units = 1) const;

    // A short stable key for databases: the name, and a hash of what decides which schedule is good
    // (architecture, features, vectors, levels, units), not of what varies between runs or was
    // estimated (clock, bandwidth, latency). Detection derives L3's latency from the features.
    std::string id() const;
    // A few lines for people.
    std::string to_string() const;

    bool operator==(const Machine &) const = default;
};

} // namespace kumiko
