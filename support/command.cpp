#include "support/command.h"

#include <cstdio>
#include <sys/wait.h>

namespace kumiko {

int run_command(const std::string &command, std::string &printed) {
    printed.clear();
    FILE *pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
    if (!pipe) return -1;
    char part[4096];
    while (const size_t n = fread(part, 1, sizeof part, pipe)) printed.append(part, n);
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace kumiko
