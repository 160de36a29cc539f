// --level=LEVEL of test programs that generate code: the test runs as on a processor that has no more than the level has
// (limit_features). What the processor lacks is emulated for amx (unit/amx_emulator.h); for other levels the test is skipped.
#include "tests/level.h"

#include "runtime/kumiko_runtime.h"
#include "targets/cpu/cpu_target.h"
#include "tests/unit/amx_emulator.h"

namespace kumiko {

namespace {

#if defined(__x86_64__) && defined(__linux__)
void add_amx() {
    static AmxEmulator emulator;
    kumiko_set_cpu_features([](uint64_t detected) {
        for (const char *name : {"amx-tile", "amx-int8", "amx-bf16"}) detected |= kumiko_cpu_feature(name);
        return detected;
    });
}
#endif

} // namespace

std::string limit_level(const std::string &level) {
    const CpuTarget host = CpuTarget::host(), target = CpuTarget::level(level);
    const std::string missing = target.missing_on(host);
#if defined(__x86_64__) && defined(__linux__)
    if (missing.starts_with("amx") || level == "x86-64-amx") {
        if (!host.has("amx-tile")) add_amx();
        return "";
    }
#endif
    if (!missing.empty()) return "this processor has no " + missing;
    limit_features(level);
    return "";
}

} // namespace kumiko
