#include "driver/runtime_objects.h"

// The assembler copies the files into this object's read-only data.
#define EMBED(part)                                                                                                    \
    asm(".section .rodata\n"                                                                                           \
        ".balign 16\n"                                                                                                 \
        "kumiko_embedded_" #part "_begin:\n"                                                                           \
        ".incbin \"" KUMIKO_EMBEDDED "/" #part ".o\"\n"                                                                \
        "kumiko_embedded_" #part "_end:\n"                                                                             \
        ".previous\n");                                                                                                \
    extern "C" __attribute__((visibility("hidden"))) const char kumiko_embedded_##part##_begin[],                      \
        kumiko_embedded_##part##_end[];

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
        {"errors.o", bytes(kumiko_embedded_errors_begin, kumiko_embedded_errors_end)},
        {"cpu_features.o", bytes(kumiko_embedded_cpu_features_begin, kumiko_embedded_cpu_features_end)},
        {"memory.o", bytes(kumiko_embedded_memory_begin, kumiko_embedded_memory_end)},
        {"threads.o", bytes(kumiko_embedded_threads_begin, kumiko_embedded_threads_end)},
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
