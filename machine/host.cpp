// The machine that this program runs on.
//
// x86: CPUID says what the processor can do, XGETBV which registers the operating system saves at a task switch; an
// instruction set needs both (Intel SDM vol. 1 ch. 13, AMD APM vol. 3 appendix E). AMX needs a permission besides, which
// Linux gives a process on request. Cache sizes come from the system's table where it has one, else from CPUID.
#include "machine/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include <fstream>
#include <map>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
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

// "0-3,8" counts 5.
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
};

// Data and unified caches, by level 1 to 3, from the system's table of processor 0.
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

uint64_t saved_registers() {
    unsigned low = 0, high = 0;
    if (bit(cpuid(1).c, 27)) __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t(high) << 32) | low;
}

bool may_use_amx() {
#if defined(__linux__) && defined(SYS_arch_prctl)
    constexpr int request_permission = 0x1023, tile_data = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

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
        if (type == 2) continue; // instructions
        Cache c;
        c.line_bytes = static_cast<int>(r.b & 0xfff) + 1;
        c.bytes = int64_t((r.b >> 22) + 1) * (((r.b >> 12) & 0x3ff) + 1) * c.line_bytes * (int64_t(r.c) + 1);
        c.shared_by = static_cast<int>((r.a >> 14) & 0xfff) + 1;
        out[static_cast<int>(level)] = c;
    }
    return out;
}

// Fills architecture, features, vectors and clock; returns the caches that the processor reports.
std::map<int, Cache> identify(Machine &m) {
    m.architecture = "x86-64";
    m.description = brand();
    Registers vendor = cpuid(0), one = cpuid(1), seven = cpuid(7), seven_one = cpuid(7, 1),
              extended = cpuid(0x80000001u);
    bool amd = vendor.b == 0x68747541u || vendor.b == 0x6f677948u; // "Auth"enticAMD, "Hygo"nGenuine
    uint64_t saved = saved_registers();
    bool ymm = (saved & 0x6) == 0x6, zmm = ymm && (saved & 0xe0) == 0xe0, tiles = (saved & 0x60000) == 0x60000;
    auto add = [&](const char *name, bool present) {
        if (present) m.features.insert(name);
    };
    add("sse2", bit(one.d, 26));
    add("ssse3", bit(one.c, 9));
    add("sse4.1", bit(one.c, 19));
    add("sse4.2", bit(one.c, 20));
    add("popcnt", bit(one.c, 23));
    add("bmi2", bit(seven.b, 8));
    add("lzcnt", bit(extended.c, 5));
    add("avx", ymm && bit(one.c, 28));
    add("fma", ymm && bit(one.c, 12));
    add("f16c", ymm && bit(one.c, 29));
    add("avx2", ymm && bit(seven.b, 5));
    add("avx_vnni", ymm && bit(seven_one.a, 4));
    add("avx512f", zmm && bit(seven.b, 16));
    add("avx512dq", zmm && bit(seven.b, 17));
    add("avx512cd", zmm && bit(seven.b, 28));
    add("avx512bw", zmm && bit(seven.b, 30));
    add("avx512vl", zmm && bit(seven.b, 31));
    add("avx512_vbmi", zmm && bit(seven.c, 1));
    add("avx512_vnni", zmm && bit(seven.c, 11));
    add("avx512_bf16", zmm && bit(seven_one.a, 5));
    add("avx512_fp16", zmm && bit(seven.d, 23));
    if (tiles && bit(seven.d, 24) && may_use_amx()) {
        add("amx_tile", true);
        add("amx_bf16", bit(seven.d, 22));
        add("amx_int8", bit(seven.d, 25));
    }
    bool wide = m.has("avx512f") && m.has("avx512vl");
    m.vector_bits = wide ? 512 : m.has("avx2") ? 256 : 128;
    m.vector_registers = wide ? 32 : 16;
    unsigned family = (one.a >> 8) & 15;
    if (family == 15) family += (one.a >> 20) & 255;
    if (m.has("fma")) {
        // Zen 4 (family 25) does a 512-bit multiply-add as two halves; other cores begin two vectors a cycle.
        m.fmas_per_cycle = wide && amd && family < 26 ? 1 : 2;
    }
    // The processor's highest frequency, which a virtual machine usually hides.
    if (unsigned mhz = cpuid(0x16).b & 0xffff) m.clock_ghz = mhz / 1000.0;
    return caches_of_processor(amd);
}

#elif defined(__aarch64__)

std::map<int, Cache> identify(Machine &m) {
    m.architecture = "aarch64";
    m.vector_bits = 128;
    m.vector_registers = 32;
    m.fmas_per_cycle = 2;
    m.features.insert("neon");
#if defined(__linux__)
    // Bits of the kernel's interface, arch/arm64 HWCAP and HWCAP2.
    unsigned long one = getauxval(AT_HWCAP), two = getauxval(AT_HWCAP2);
    auto add = [&](const char *name, bool present) {
        if (present) m.features.insert(name);
    };
    add("fp16", (one >> 10) & 1);
    add("dotprod", (one >> 20) & 1);
    add("sve", (one >> 22) & 1);
    add("i8mm", (two >> 13) & 1);
    add("bf16", (two >> 14) & 1);
#endif
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
    for (const auto &[level, cache] : reported) caches.emplace(level, cache);
    caches.emplace(1, Cache{32 << 10, 1, 64});
    caches.emplace(2, Cache{512 << 10, 1, 64});
    int cores = processors();
    m.units = {{"core", cores}};
    if (m.clock_ghz == 0) {
        m.clock_ghz =
            std::atof(file_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").c_str()) * 1e-6; // kHz
    }
    int64_t registers = m.vector_bits > 0 ? int64_t(m.vector_bits) / 8 * m.vector_registers : 256;
    m.memory.push_back({.name = "registers", .bytes = registers, .scope = "core", .explicit_placement = true});
    for (const auto &[level, cache] : caches) {
        int shared = std::min(cache.shared_by, cores);
        m.memory.push_back({.name = fmt::format("L{}", level),
                            .bytes = cache.bytes,
                            .scope = shared > 1 ? "machine" : "core",
                            .shared_by = shared,
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
