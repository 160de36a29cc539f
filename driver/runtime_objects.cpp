#include "driver/runtime_objects.h"

#include "support/embedded.h"

#define EMBED(part) KUMIKO_EMBEDDED_FILE(kumiko_embedded_##part, KUMIKO_EMBEDDED "/" #part ".o")

EMBED(errors)
EMBED(cpu_features)
EMBED(memory)
EMBED(threads)

namespace kumiko {

const std::vector<RuntimeObject> &runtime_objects() {
    const auto bytes = [](const char *begin, const char *end) {
        return std::string_view(begin, static_cast<size_t>(end - begin));
    };
    static const std::vector<RuntimeObject> all = {
        {"errors.o", bytes(kumiko_embedded_errors, kumiko_embedded_errors_end)},
        {"cpu_features.o", bytes(kumiko_embedded_cpu_features, kumiko_embedded_cpu_features_end)},
        {"memory.o", bytes(kumiko_embedded_memory, kumiko_embedded_memory_end)},
        {"threads.o", bytes(kumiko_embedded_threads, kumiko_embedded_threads_end)},
    };
    return all;
}

std::string runtime_architecture() {
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#elif defined(__riscv)
    return "riscv64";
#else
    return "unknown";
#endif
}

} // namespace kumiko
