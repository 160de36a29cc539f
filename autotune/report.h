// What tuning did, as one page that needs nothing else: the curve beside chance, what was predicted and what was
// measured, what the best schedule does and why the model likes it, what failed.
#pragma once

#include "autotune/database.h"
#include "autotune/model/cost_model.h"
#include "autotune/work.h"

#include <optional>

namespace kumiko {

struct ReportTask {
    DatabaseTask task;
    std::vector<Record> records;
    // How much the op has to do; without it rates are left out. The database does not know it, the op does
    // (autotune/work.h).
    std::optional<Work> work = {};
    int64_t checked_elements = 0; // where the session checked a sample; 0: all, or not known
};

struct ReportOptions {
    std::shared_ptr<const CostModel> model = nullptr; // null: the one that comes with Kumiko
};

// HTML, with its style and pictures inside; nothing is loaded from elsewhere. Throws UserError when a task has no
// records, or there is no task.
std::string report_page(const std::vector<ReportTask> &tasks, const ReportOptions &options = {});

// The database's tasks of these ops, all when none is named. Throws UserError with a suggestion for an op that it does
// not know, and when it holds no records.
std::vector<ReportTask> report_tasks(const Database &database, const std::vector<std::string> &ops = {});

} // namespace kumiko
