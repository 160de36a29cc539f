#include "support/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <new>
#include <unistd.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace kumiko {

int64_t machine_memory() {
    int64_t bytes = 0;
#if defined(_SC_PHYS_PAGES)
    bytes = std::max<int64_t>(0, sysconf(_SC_PHYS_PAGES)) * std::max<int64_t>(0, sysconf(_SC_PAGESIZE));
#endif
    int64_t allowed = 0;
    std::ifstream group("/sys/fs/cgroup/memory.max"); // container limit; "max" if there is none
    if (group >> allowed && allowed > 0) bytes = bytes > 0 ? std::min(bytes, allowed) : allowed;
    return bytes;
}

void ask_for_large_pages(void *array, size_t bytes) {
#if defined(MADV_HUGEPAGE)
    if (bytes < size_t{4} << 20) return;
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), begin = reinterpret_cast<size_t>(array),
               first = (begin + page - 1) / page * page;
    // Only advice; failure is harmless.
    madvise(reinterpret_cast<void *>(first), begin + bytes - first, MADV_HUGEPAGE);
#else
    (void)array, (void)bytes;
#endif
}

void *allocate_bytes(size_t bytes) {
    constexpr size_t line = 64;
    if (bytes > SIZE_MAX - line) throw std::bad_alloc();
    void *const memory = std::aligned_alloc(line, std::max<size_t>(1, (bytes + line - 1) / line) * line);
    if (!memory) throw std::bad_alloc();
    ask_for_large_pages(memory, bytes);
    return memory;
}

} // namespace kumiko
