// Helpers for tests of the tuner's databases: scratch files and records.
#pragma once

#include "autotune/tune.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

namespace kumiko::testing {

// <build>/<file of the running test>.scratch
inline std::filesystem::path folder() {
    const std::filesystem::path file = doctest::getContextOptions()->currentTest->m_file.c_str();
    const auto path = std::filesystem::path(KUMIKO_BINARY_DIR) / (file.stem().string() + ".scratch");
    std::filesystem::create_directories(path);
    return path;
}

inline void remove_database(const std::string &file) {
    for (const char *suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file + suffix);
}

// A path in the folder; an older file there is removed.
inline std::string fresh_file(const std::string &name) {
    remove_database((folder() / name).string());
    return (folder() / name).string();
}

// A successful candidate of a matrix product on this machine, with rows split by `factor`.
inline Record record_of(const Op &op, int64_t factor, double seconds) {
    Schedule s(op);
    s.stage("C").split("i", factor);
    Record r;
    r.key = task_key(op, Machine::host(), {.threads = 1});
    r.machine = Machine::host();
    r.library_template = "demo";
    r.parameters = Json{{"factor", factor}};
    r.saved_schedule = s.to_json();
    r.schedule_hash = "hash" + std::to_string(factor);
    r.timing = {seconds, seconds * 1.1, 0.02, 12};
    r.created = "2026-11-20T10:00:00Z";
    return r;
}

} // namespace kumiko::testing
