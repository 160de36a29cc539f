// Typical machines for the levels that code is generated for. The names are those of
// targets/cpu/cpu_target.h.
//
// Cache sizes are those of common server cores of each level; for a known machine, a description of
// its own (Machine::load) is better. They only affect defaults and capacity checks, never results.
#include "machine/machine.h"

#include "support/error.h"
#include "support/names.h"

namespace kumiko {

namespace {

struct Row {
    const char *name, *architecture, *description;
    int vector_bits, vector_registers;
    double fmas_per_cycle;
    int l1_kib, l2_kib, l3_kib; // L3 of all cores together; 0: none
    int cores;
    double l3_latency;    // ns; 0: unknown
    const char *features; // space-separated, in addition to those of `base`
    const char *base;     // name of another row, or ""
};

const Row rows[] = {
    {"x86-64-sse4.2", "x86-64", "x86-64 with SSE4.2", 128, 16, 0, 32, 256, 8192, 4, 0,
     "sse2 ssse3 sse4.1 sse4.2 popcnt", ""},
    {"x86-64-avx2", "x86-64", "x86-64 with AVX2 and FMA", 256, 16, 2, 32, 512, 16384, 8, 0,
     "avx avx2 bmi2 f16c fma lzcnt", "x86-64-sse4.2"},
    {"x86-64-avx2-vnni", "x86-64", "x86-64 with AVX2, FMA and VNNI", 256, 16, 2, 48, 1280, 24576, 8, 0, "avx_vnni",
     "x86-64-avx2"},
    {"x86-64-avx512", "x86-64", "x86-64 with AVX-512", 512, 32, 2, 32, 1024, 32768, 16, 0,
     "avx512bw avx512cd avx512dq avx512f avx512vl", "x86-64-avx2"},
    {"x86-64-avx512-vnni", "x86-64", "x86-64 with AVX-512 and VNNI", 512, 32, 2, 32, 1024, 32768, 16, 0, "avx512_vnni",
     "x86-64-avx512"},
    {"x86-64-avx512-bf16", "x86-64", "x86-64 with AVX-512, VNNI and BF16", 512, 32, 2, 32, 1024, 32768, 16, 0,
     "avx512_bf16", "x86-64-avx512-vnni"},
    {"x86-64-amx", "x86-64", "x86-64 with AVX-512 and AMX", 512, 32, 2, 48, 2048, 65536, 32, 70,
     "amx_bf16 amx_int8 amx_tile avx512_fp16 avx_vnni", "x86-64-avx512-bf16"},
    {"aarch64", "aarch64", "64-bit Arm", 128, 32, 2, 64, 512, 8192, 4, 0, "neon", ""},
    {"aarch64-dotprod", "aarch64", "64-bit Arm with dot products", 128, 32, 2, 64, 1024, 32768, 16, 0, "dotprod fp16",
     "aarch64"},
    {"aarch64-bf16", "aarch64", "64-bit Arm with BF16 and 8-bit matrix products", 128, 32, 4, 64, 1024, 32768, 16, 0,
     "bf16 i8mm", "aarch64-dotprod"},
    {"riscv64", "riscv64", "64-bit RISC-V", 0, 0, 0, 32, 512, 2048, 4, 0, "", ""},
    {"riscv64-v", "riscv64", "64-bit RISC-V with 128-bit vectors", 128, 32, 1, 32, 512, 2048, 4, 0, "v", "riscv64"},
};

const Row *find_row(const std::string &name) {
    for (const Row &row : rows) {
        if (row.name == name) return &row;
    }
    return nullptr;
}

void add_features(const Row &row, std::set<std::string> &features) {
    if (const Row *base = find_row(row.base)) add_features(*base, features);
    std::string word;
    for (const char *c = row.features;; c++) {
        if (*c && *c != ' ') {
            word += *c;
            continue;
        }
        if (!word.empty()) features.insert(word);
        word.clear();
        if (!*c) break;
    }
}

} // namespace

std::vector<std::string> Machine::names() {
    std::vector<std::string> out{"host"};
    for (const Row &row : rows) out.push_back(row.name);
    return out;
}

Machine Machine::named(const std::string &name) {
    if (name == "host") return host();
    // The same machine without an operating system.
    constexpr std::string_view bare = "-freestanding";
    const Row *row = find_row(name.ends_with(bare) ? name.substr(0, name.size() - bare.size()) : name);
    if (!row) throw UserError("unknown machine '" + name + "'" + suggest(name, names()));
    Machine m;
    m.name = row->name;
    m.description = row->description;
    m.architecture = row->architecture;
    m.units = {{"core", row->cores}};
    m.vector_bits = row->vector_bits;
    m.vector_registers = row->vector_registers;
    m.fmas_per_cycle = row->fmas_per_cycle;
    add_features(*row, m.features);
    int64_t registers = m.vector_bits > 0 ? int64_t(m.vector_bits) / 8 * m.vector_registers : 256;
    m.memory = {{.name = "registers", .bytes = registers, .scope = "core", .explicit_placement = true},
                {.name = "L1", .bytes = row->l1_kib * 1024LL, .scope = "core", .line_bytes = 64},
                {.name = "L2", .bytes = row->l2_kib * 1024LL, .scope = "core", .line_bytes = 64}};
    if (row->l3_kib) {
        m.memory.push_back({.name = "L3",
                            .bytes = row->l3_kib * 1024LL,
                            .scope = "machine",
                            .shared_by = row->cores,
                            .latency = row->l3_latency,
                            .line_bytes = 64});
    }
    m.memory.push_back({.name = "DRAM", .bytes = 0, .scope = "machine", .shared_by = row->cores, .line_bytes = 64});
    m.check();
    return m;
}

} // namespace kumiko
