// A JSON file of the fastest known schedules: one per task, formula and machine.
#pragma once

#include "dsl/op.h"
#include "machine/machine.h"
#include "support/atomic_file.h"
#include "support/json.h"

#include <filesystem>
#include <string>

namespace kumiko::bench {

class KnownSchedules {
public:
    // Without a path, nothing is known and nothing is stored.
    explicit KnownSchedules(const std::string &path) : path_(path) {
        if (!path.empty() && std::filesystem::exists(path)) all_ = load_json(path);
    }
    // The entry: "schedule" is a saved schedule, "trials" the number of trials that found it. Null
    // if there is none.
    const Json *find(const std::string &task, const Op &op, const Machine &machine) const {
        for (const Json &entry : all_) {
            if (entry.value("task", "") == task && entry.value("machine", "") == machine.id() &&
                entry.value("formula", "") == op.hash())
                return &entry;
        }
        return nullptr;
    }
    // Replaces the entry and writes the file.
    void keep(const std::string &task, const Op &op, const Machine &machine, const nlohmann::json &schedule,
              int trials) {
        if (path_.empty()) return;
        Json rest = Json::array();
        for (const Json &entry : all_) {
            if (&entry != find(task, op, machine)) rest.push_back(entry);
        }
        rest.push_back({{"task", task},
                        {"machine", machine.id()},
                        {"formula", op.hash()},
                        {"trials", trials},
                        {"schedule", Json(schedule)}});
        all_ = std::move(rest);
        write_file_atomically(path_, dump_json(all_));
    }

private:
    std::string path_;
    Json all_ = Json::array();
};

} // namespace kumiko::bench
