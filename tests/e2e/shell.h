// Shell commands, and scratch folders for tests.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>

namespace kumiko::e2e {

inline std::string read(const std::filesystem::path &path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream s;
    s << in.rdbuf();
    return s.str();
}

// An empty folder <build>/<test>.scratch/<name>.
inline std::filesystem::path scratch(const std::string &test, const std::string &name) {
    const std::filesystem::path path = std::filesystem::path(KUMIKO_BINARY_DIR) / (test + ".scratch") / name;
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
    return path;
}

// Runs a command and stores what it printed, on stdout or stderr, in `text`. Returns its exit
// status, −1 if it was killed.
inline int run(const std::string &command, std::string &text) {
    FILE *pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
    REQUIRE(pipe);
    text.clear();
    char part[4096];
    while (const size_t n = fread(part, 1, sizeof part, pipe)) text.append(part, n);
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The output of a command that must succeed.
inline std::string must_run(const std::string &command) {
    std::string text;
    const int status = run(command, text);
    REQUIRE_MESSAGE(status == 0, command << "\n" << text);
    return text;
}

} // namespace kumiko::e2e
