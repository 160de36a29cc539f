#include "support/memory.h"

#include <algorithm>
#include <fstream>
#include <unistd.h>

namespace kumiko {

int64_t machine_memory() {
    int64_t bytes = 0;
#if defined(_SC_PHYS_PAGES)
    bytes = std::max<int64_t>(0, sysconf(_SC_PHYS_PAGES)) * std::max<int64_t>(0, sysconf(_SC_PAGESIZE));
#endif
    int64_t allowed = 0;
    std::ifstream group("/sys/fs/cgroup/memory.max"); // a container's; "max" where there is no limit
    if (group >> allowed && allowed > 0) bytes = bytes > 0 ? std::min(bytes, allowed) : allowed;
    return bytes;
}

} // namespace kumiko
