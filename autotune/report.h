// A self-contained HTML report of tuning: the search curve against random search, predictions
// against measurements, the best schedule and why the model prefers it, and failures.
#pragma once

#include "autotune/database.h"
#include "autotune/model/cost_model.h"
#include "autotune/work.h"

#include <optional>

namespace kumiko {

struct ReportTask {
    DatabaseTask task;
    std::vector<Record> records;
    // The work of the op (autotune/work.h), which is not in the database; without it, rates are
    // omitted.
    std::optional<Work> work = {};
    int64_t checked_elements = 0; // if the session checked a sample; 0: all, or unknown
};

struct ReportOptions {
    std::shared_ptr<const CostModel> model = nullptr; // null: the shipped model
};

// The page as HTML with embedded style and figures, without external resources. Throws UserError if
// a task has no records or there is no task.
std::string report_page(const std::vector<ReportTask> &tasks, const ReportOptions &options = {});

// The database's tasks of these ops; all if `ops` is empty. Throws UserError with a suggestion for
// an unknown op, and if there are no records.
std::vector<ReportTask> report_tasks(const Database &database, const std::vector<std::string> &ops = {});

} // namespace kumiko
