#include "targets/cpu/cpu_target.h"

#include "runtime/cpu_features.h"
#include "runtime/kumiko_runtime.h"
#include "support/error.h"
#include "targets/cpu/optimize.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/TargetParser/X86TargetParser.h>

#include <atomic>

namespace kumiko {

namespace {

struct Level {
    const char *name, *architecture, *cpu, *features;
    int vector_bits;
};

// x86-64-v2 to v4 are the levels of the x86-64 psABI; the other rows add features that matter to
// dense arithmetic.
const Level levels[] = {
    {"x86-64-sse4.2", "x86_64", "x86-64-v2", "+sse4.2,+ssse3,+popcnt", 128},
    {"x86-64-avx2", "x86_64", "x86-64-v3", "+avx2,+bmi2,+f16c,+fma,+lzcnt,+popcnt", 256},
    {"x86-64-avx2-vnni", "x86_64", "alderlake", "+avx2,+avxvnni,+bmi2,+f16c,+fma,+lzcnt,+popcnt", 256},
    {"x86-64-avx512", "x86_64", "x86-64-v4",
     "+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+bmi2,+f16c,+fma,+lzcnt,+popcnt", 512},
    {"x86-64-avx512-vnni", "x86_64", "cascadelake",
     "+avx2,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+avx512vnni,+bmi2,+f16c,+fma,+lzcnt,+popcnt", 512},
    {"x86-64-avx512-bf16", "x86_64", "cooperlake",
     "+avx2,+avx512bf16,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+avx512vnni,+bmi2,+f16c,+fma,+lzcnt,+popcnt",
     512},
    {"x86-64-amx", "x86_64", "sapphirerapids",
     "+amx-bf16,+amx-int8,+amx-tile,+avx2,+avx512bf16,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512fp16,+avx512vl,"
     "+avx512vnni,+bmi2,+f16c,+fma,+lzcnt,+popcnt",
     512},
    {"aarch64", "aarch64", "generic", "+neon", 128},
    {"aarch64-dotprod", "aarch64", "cortex-a76", "+dotprod,+fullfp16,+neon", 128},
    // Without the processor's other features, which compilers use without being asked.
    {"aarch64-bf16", "aarch64", "neoverse-v1", "+bf16,+dotprod,+fullfp16,+i8mm,+neon,-complxnum,-sha3,-sve", 128},
    {"riscv64", "riscv64", "generic-rv64", "+a,+c,+d,+f,+m", 128},
    {"riscv64-v", "riscv64", "generic-rv64", "+a,+c,+d,+f,+m,+v,+zvl128b", 128},
};

#define NAME(name, ...) name,
// Functions and constants, so that kernels can be compiled before main begins.
const std::vector<std::string> &known_features(const std::string &architecture) {
    static const std::vector<std::string> x86 = {KUMIKO_X86_FEATURES(NAME)}, aarch64 = {KUMIKO_AARCH64_FEATURES(NAME)},
                                          riscv = {KUMIKO_RISCV_FEATURES(NAME)};
    return architecture == "x86_64" ? x86 : architecture == "aarch64" ? aarch64 : riscv;
}
#undef NAME

constexpr std::string_view freestanding_suffix = "-freestanding";

} // namespace

bool CpuTarget::has(std::string_view feature) const {
    size_t at = 0;
    while (at < features.size()) {
        size_t end = std::min(features.find(',', at), features.size());
        std::string_view item = std::string_view(features).substr(at, end - at);
        if (item.size() == feature.size() + 1 && item[0] == '+' && item.substr(1) == feature) {
            return true;
        }
        at = end + 1;
    }
    return false;
}

std::string CpuTarget::architecture() const { return triple.substr(0, triple.find('-')); }

bool CpuTarget::freestanding() const { return triple.find("-none") != std::string::npos; }

int CpuTarget::vector_registers() const { return architecture() == "x86_64" && !has("avx512f") ? 16 : 32; }

std::string CpuTarget::missing_on(const CpuTarget &machine) const {
    if (architecture() != machine.architecture()) {
        return architecture();
    }
    if (*this == machine) {
        return "";
    }
    for (size_t at = 0; at < features.size();) {
        size_t end = std::min(features.find(',', at), features.size());
        std::string item = features.substr(at, end - at);
        if (item.size() > 1 && item[0] == '+' && !machine.has(item.substr(1))) {
            return item.substr(1);
        }
        at = end + 1;
    }
    // The code may also use features that the processor's name implies.
    const uint64_t lacking = required_features() & ~machine.required_features();
    const auto &known = known_features(architecture());
    for (size_t i = 0; i < known.size(); i++) {
        if (lacking >> i & 1) return known[i];
    }
    return "";
}

uint64_t CpuTarget::required_features() const {
    const bool x86 = architecture() == "x86_64";
    const auto &known = known_features(architecture());
    llvm::StringMap<bool> on; // with implied features: AVX-512 implies AVX2, which implies AVX
    if (x86 && llvm::X86::parseArchX86(cpu) != llvm::X86::CK_None) {
        llvm::SmallVector<llvm::StringRef, 64> names;
        llvm::X86::getFeaturesForCPU(cpu, names);
        for (llvm::StringRef name : names) on[name] = true;
    }
    for (const std::string &name : known) {
        if (has(name)) on[name] = true;
    }
    for (const std::string &name : known) {
        if (x86 && on.lookup(name)) llvm::X86::updateImpliedFeatures(name, true, on);
    }
    const std::string all = "," + features + ",";
    uint64_t set = 0;
    for (size_t i = 0; i < known.size(); i++) {
        const bool off = all.find(",-" + known[i] + ",") != std::string::npos;
        if (on.lookup(known[i]) && !off) set |= uint64_t(1) << i;
    }
    return set;
}

bool CpuTarget::has_fast_gather() const {
    if (architecture() != "x86_64") return true;
    return cpu::make_target_machine(*this)->getMCSubtargetInfo()->checkFeatures("+fast-gather");
}

CpuTarget CpuTarget::baseline() const {
    if (architecture() == "x86_64") return {"x86-64", triple, "x86-64", "", 128};
    if (architecture() == "aarch64") return {"aarch64", triple, "generic", "+neon", 128};
    return {"riscv64", triple, "generic-rv64", "+a,+c,+d,+f,+m", 128};
}

CpuTarget CpuTarget::host() {
    CpuTarget target;
    target.name = "host";
    target.triple = llvm::sys::getProcessTriple();
    target.cpu = llvm::sys::getHostCPUName().str();
    // Features that the processor model has but this machine hides (virtual machines do that) must
    // be disabled by name, so absent ones are listed too.
    auto features = llvm::sys::getHostCPUFeatures();
    kumiko_request_tiles();
    const uint64_t have = kumiko_cpu_features();
    const bool x86 = target.architecture() == "x86_64";
    for (const std::string &name : known_features(target.architecture())) {
        // A hook may report more features.
        if (have & kumiko_cpu_feature(name.c_str())) features[name] = true;
    }
    for (const std::string &name : known_features(target.architecture())) {
        if (have & kumiko_cpu_feature(name.c_str())) continue;
        // and the features that imply it
        if (x86) llvm::X86::updateImpliedFeatures(name, false, features);
        features[name] = false;
    }
    // sse4a instructions have the legacy SSE encoding, and cost hundreds of cycles while a
    // register's upper half is in use.
    if (x86) features["sse4a"] = false;
    std::set<std::string> sorted;
    for (const auto &feature : features) sorted.insert((feature.second ? "+" : "-") + feature.first().str());
    target.features = fmt::format("{}", fmt::join(sorted, ","));
    target.vector_bits = target.has("avx512f") && target.has("avx512vl") ? 512 : target.has("avx2") ? 256 : 128;
    return target;
}

CpuTarget CpuTarget::level(const std::string &name) {
    if (name == "host") {
        return host();
    }
    bool bare = name.ends_with(freestanding_suffix);
    std::string base = bare ? name.substr(0, name.size() - freestanding_suffix.size()) : name;
    for (const Level &level : levels) {
        if (base == level.name) {
            std::string system = bare ? "-none-elf" : "-unknown-linux-gnu";
            if (bare && base.starts_with("x86")) {
                system = "-unknown-none-elf";
            }
            return {name, level.architecture + system, level.cpu, level.features, level.vector_bits};
        }
    }
    throw UserError(fmt::format("unknown processor level \"{}\"; known: host, {} (each also with {})", name,
                                fmt::join(level_names(), ", "), freestanding_suffix));
}

std::vector<std::string> CpuTarget::level_names() {
    std::vector<std::string> names;
    for (const Level &level : levels) {
        names.push_back(level.name);
    }
    return names;
}

uint64_t CpuTarget::feature_bit(const std::string &architecture, std::string_view feature) {
    const auto &known = known_features(architecture);
    const auto found = std::find(known.begin(), known.end(), feature);
    return found == known.end() ? 0 : uint64_t(1) << (found - known.begin());
}

namespace {
std::atomic<uint64_t> limit; // what kumiko_cpu_features() may report
}

void limit_features(const std::string &level) {
    if (level == "host") {
        kumiko_set_cpu_features(nullptr);
        return;
    }
    const CpuTarget most = CpuTarget::level(level);
    const std::string here = llvm::Triple(llvm::sys::getProcessTriple()).getArchName().str();
    if (most.architecture() != here)
        throw UserError("features cannot be limited to " + level + ": that level is of " + most.architecture() +
                        ", and this processor is " + here);
    limit = most.required_features();
    kumiko_set_cpu_features([](uint64_t detected) { return detected & limit; });
}

std::string CpuTarget::to_json() const {
    return nlohmann::ordered_json{
        {"name", name}, {"triple", triple}, {"cpu", cpu}, {"features", features}, {"vector_bits", vector_bits}}
        .dump();
}

CpuTarget CpuTarget::from_json(const std::string &text) {
    try {
        nlohmann::json j = nlohmann::json::parse(text);
        CpuTarget target{j.at("name"), j.at("triple"), j.at("cpu"), j.at("features"), j.at("vector_bits")};
        if (target.vector_bits < 64 || target.vector_bits > 4096 || target.triple.empty()) {
            throw UserError("a saved processor target has an impossible vector width or no triple");
        }
        return target;
    } catch (const nlohmann::json::exception &e) {
        throw UserError(std::string("not a saved processor target: ") + e.what());
    }
}

} // namespace kumiko
