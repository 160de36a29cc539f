// Detects the machine that this program runs on.
//
// Instruction sets come from the runtime, which generated libraries also use:
// runtime/cpu_features.c queries the processor and the operating system, and applies a limit if one
// is set. Cache sizes come from the system's table if there is one, otherwise from CPUID.
#include "machine/machine.h"

#include "runtime/kumiko_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include <fstream>
#include <map>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace kumiko {

namespace {

std::string file_line(const std::string &path) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
}

int processors() {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    return std::max(1u, std::thread::hardware_concurrency());
}

// Counts the processors of a list: "0-3,8" has 5.
int count_list(const std::string &list) {
    int count = 0, low = -1, number = -1;
    for (char c : list + ",") {
        if (c >= '0' && c <= '9') {
            number = (number < 0 ? 0 : number * 10) + (c - '0');
        } else if (c == '-') {
            low = number;
            number = -1;
        } else if (c == ',' && number >= 0) {
            count += low >= 0 ? number - low + 1 : 1;
            low = number = -1;
        }
    }
    return count;
}

struct Cache {
    int64_t bytes = 0;
    int shared_by = 1;
    int line_bytes = 64;
    double latency = 0; // ns, 0: unknown
};

// Data and unified caches of levels 1 to 3, from the system's table for processor 0.
std::map<int, Cache> caches_of_system() {
    std::map<int, Cache> out;
    for (int index = 0; index < 8; index++) {
        std::string dir = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
        std::string type = file_line(dir + "type"), size = file_line(dir + "size"), level = file_line(dir + "level");
        if (type.empty() || size.empty() || level.empty() || type == "Instruction") continue;
        Cache c;
        c.bytes = std::atoll(size.c_str()) * (size.back() == 'K' ? 1024 : size.back() == 'M' ? 1024 * 1024 : 1);
        c.shared_by = std::max(1, count_list(file_line(dir + "shared_cpu_list")));
        if (int line = std::atoi(file_line(dir + "coherency_line_size").c_str())) c.line_bytes = line;
        if (c.bytes > 0) out[std::atoi(level.c_str())] = c;
    }
    return out;
}

// Adds the features that the processor has: Linux's name, paired with LLVM's, which the runtime
// uses.
[[maybe_unused]] void add_known(Machine &m, std::initializer_list<std::pair<const char *, const char *>> names) {
    const uint64_t have = kumiko_cpu_features();
    for (const auto &[name, known] : names) {
        if (have & kumiko_cpu_feature(known)) m.features.insert(name);
    }
}

#if defined(__x86_64__) || defined(__i386__)

struct Registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
    Registers r;
    if (leaf <= __get_cpuid_max(leaf & 0x80000000u, nullptr)) __cpuid_count(leaf, subleaf, r.a, r.b, r.c, r.d);
    return r;
}

bool bit(unsigned word, int n) { return (word >> n) & 1; }

std::string brand() {
    std::string out;
    for (unsigned leaf = 0x80000002u; leaf <= 0x80000004u; leaf++) {
        Registers r = cpuid(leaf);
        for (unsigned word : {r.a, r.b, r.c, r.d}) {
            for (int i = 0; i < 4; i++) {
                if (char c = static_cast<char>(word >> (8 * i))) out += c;
            }
        }
    }
    size_t begin = out.find_first_not_of(' '), end = out.find_last_not_of(' ');
    return begin == std::string::npos ? "" : out.substr(begin, end - begin + 1);
}

std::map<int, Cache> caches_of_processor(bool amd) {
    std::map<int, Cache> out;
    for (unsigned sub = 0; sub < 8; sub++) {
        Registers r = cpuid(amd ? 0x8000001du : 4u, sub);
        unsigned type = r.a & 31, level = (r.a >> 5) & 7;
        if (type == 0) break;
        if (type == 2) continue; // instruction cache
        Cache c;
        c.line_bytes = static_cast<int>(r.b & 0xfff) + 1;
        c.bytes = int64_t((r.b >> 22) + 1) * (((r.b >> 12) & 0x3ff) + 1) * c.line_bytes * (int64_t(r.c) + 1);
        c.shared_by = static_cast<int>((r.a >> 14) & 0xfff) + 1;
        out[static_cast<int>(level)] = c;
    }
    return out;
}

// Fills in architecture, features, vectors and clock. Returns the caches that the processor
// reports.
std::map<int, Cache> identify(Machine &m) {
    m.architecture = "x86-64";
    m.description = brand();
    const Registers vendor = cpuid(0), one = cpuid(1);
    bool amd = vendor.b == 0x68747541u || vendor.b == 0x6f677948u; // "Auth"enticAMD, "Hygo"nGenuine
    if (bit(one.d, 26)) m.features.insert("sse2");
    kumiko_request_tiles();
    add_known(m, {{"ssse3", "ssse3"},
                  {"sse4.1", "sse4.1"},
                  {"sse4.2", "sse4.2"},
                  {"popcnt", "popcnt"},
                  {"bmi2", "bmi2"},
                  {"lzcnt", "lzcnt"},
                  {"avx", "avx"},
                  {"fma", "fma"},
                  {"f16c", "f16c"},
                  {"avx2", "avx2"},
                  {"avx_vnni", "avxvnni"},
                  {"avx512f", "avx512f"},
                  {"avx512dq", "avx512dq"},
                  {"avx512cd", "avx512cd"},
                  {"avx512bw", "avx512bw"},
                  {"avx512vl", "avx512vl"},
                  {"avx512_vbmi", "avx512vbmi"},
                  {"avx512_vnni", "avx512vnni"},
                  {"avx512_bf16", "avx512bf16"},
                  {"avx512_fp16", "avx512fp16"},
                  {"amx_tile", "amx-tile"},
                  {"amx_bf16", "amx-bf16"},
                  {"amx_int8", "amx-int8"}});
    bool wide = m.has("avx512f") && m.has("avx512vl");
    m.vector_bits = wide ? 512 : m.has("avx2") ? 256 : 128;
    m.vector_registers = wide ? 32 : 16;
    unsigned family = (one.a >> 8) & 15;
    if (family == 15) family += (one.a >> 20) & 255;
    if (m.has("fma")) {
        // Zen 4 (family 25) splits a 512-bit FMA into two halves; other cores issue two vectors per
        // cycle.
        m.fmas_per_cycle = wide && amd && family < 26 ? 1 : 2;
    }
    // The processor's maximum frequency; virtual machines usually hide it.
    if (unsigned mhz = cpuid(0x16).b & 0xffff) m.clock_ghz = mhz / 1000.0;
    std::map<int, Cache> caches = caches_of_processor(amd);
    // Intel server processors with AVX-512 reach L3 through a mesh of many cores; client processors
    // do not.
    const unsigned model = ((one.a >> 4) & 15) | (((one.a >> 16) & 15) << 4);
    const bool skylake_to_ice_lake = model == 0x55 || model == 0x6a || model == 0x6c;
    if (auto l3 = caches.find(3); l3 != caches.end() && wide && !amd && (skylake_to_ice_lake || m.has("amx_tile")))
        l3->second.latency = Machine::named("x86-64-amx").find_level("L3")->latency;
    return caches;
}

#elif defined(__aarch64__)

std::map<int, Cache> identify(Machine &m) {
    m.architecture = "aarch64";
    m.vector_bits = 128;
    m.vector_registers = 32;
    m.fmas_per_cycle = 2;
    add_known(m, {{"neon", "neon"},
                  {"fp16", "fullfp16"},
                  {"dotprod", "dotprod"},
                  {"sve", "sve"},
                  {"i8mm", "i8mm"},
                  {"bf16", "bf16"}});
    return {};
}

#else

std::map<int, Cache> identify(Machine &m) {
#if defined(__riscv)
    m.architecture = "riscv64";
#else
    m.architecture = "unknown";
#endif
    return {};
}

#endif

} // namespace

Machine Machine::host() {
    Machine m;
    m.name = "host";
    std::map<int, Cache> reported = identify(m), caches = caches_of_system();
    for (const auto &[level, cache] : reported) caches.emplace(level, cache).first->second.latency = cache.latency;
    caches.emplace(1, Cache{32 << 10, 1, 64});
    caches.emplace(2, Cache{512 << 10, 1, 64});
    int cores = processors();
    m.units = {{"core", cores}};
    if (m.clock_ghz == 0) {
        m.clock_ghz =
            // The file is in kHz.
            std::atof(file_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").c_str()) * 1e-6;
    }
    int64_t registers = m.vector_bits > 0 ? int64_t(m.vector_bits) / 8 * m.vector_registers : 256;
    m.memory.push_back({.name = "registers", .bytes = registers, .scope = "core", .explicit_placement = true});
    for (const auto &[level, cache] : caches) {
        int shared = std::min(cache.shared_by, cores);
        m.memory.push_back({.name = fmt::format("L{}", level),
                            .bytes = cache.bytes,
                            .scope = shared > 1 ? "machine" : "core",
                            .shared_by = shared,
                            .latency = cache.latency,
                            .line_bytes = cache.line_bytes});
    }
    int64_t all = 0;
#if defined(__linux__)
    all = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
#endif
    m.memory.push_back({.name = "DRAM", .bytes = all, .scope = "machine", .shared_by = cores, .line_bytes = 64});
    m.check();
    return m;
}

} // namespace kumiko
